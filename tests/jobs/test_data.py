"""A data set is read as its settings say, and too small a one is refused at once."""

import pytest

from munkey.data.prepared import load
from munkey.data.source import SourceError
from munkey.jobs.data import data
from munkey.settings import SourceSettings


def test_a_data_set_is_prepared_and_one_that_is_too_small_is_refused(config, tmp_path, capsys):
    source = SourceSettings(**config["source"])
    data(tmp_path / "images.npy", "digits", source, config)
    assert capsys.readouterr().out.splitlines()[-1] == f"1797 images, 10 classes -> {tmp_path}"
    few = source.model_copy(update={"limit_per_class": 2})
    with pytest.raises(SourceError, match=r"keys\.depth"):
        data(tmp_path / "few" / "images.npy", "digits", few, config)
    assert len(load(tmp_path).ids) == 1797
