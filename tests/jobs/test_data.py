"""A data set is read as its settings say, and one of a wrong size is refused at once."""

import pytest

from munkey.data.prepared import load
from munkey.data.source import SourceError
from munkey.jobs.data import data
from munkey.models.family import FAMILIES
from munkey.settings import SourceSettings
from tests.conftest import changed


def test_a_data_set_is_prepared_and_one_that_is_too_small_is_refused(config, tmp_path, capsys):
    source = SourceSettings(**config["source"])
    data(tmp_path / "images.npy", "digits", source, config)
    assert capsys.readouterr().out.splitlines()[-1] == f"1797 images, 10 classes -> {tmp_path}"
    few = source.model_copy(update={"limit_per_class": 2})
    with pytest.raises(SourceError, match=r"keys\.depth"):
        data(tmp_path / "few" / "images.npy", "digits", few, config)
    assert len(load(tmp_path).ids) == 1797


def test_more_training_samples_than_a_listed_method_takes_are_refused(
    config, tmp_path, monkeypatch
):
    monkeypatch.setattr(type(FAMILIES["krr"]), "max_rows", 100)
    config = changed(config, "methods", ["munkey", "krr"])
    source = SourceSettings(**config["source"])
    with pytest.raises(SourceError, match="1,078 training samples; krr takes at most 100: remove"):
        data(tmp_path / "images.npy", "digits", source, config)
