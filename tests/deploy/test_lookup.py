"""An export of a memory that is large enough is searched approximately, and nothing that is forgotten answers."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from munkey.data.prepared import Dataset, load
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model import export as exporting
from munkey.deploy.model.export import export
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.search import exact, lists
from tests.deploy.inputs import clustered, result_in, sections

COUNT = 300  # samples: 180 of train, 60 of val, 60 of test
SOME = {"approximate_from": 100, "lists": 12, "probes": 4}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return result_in(tmp_path_factory.mktemp("clusters") / "results" / "tiny", images=clustered(COUNT))


@pytest.fixture(scope="module")
def samples(trained: Path) -> Dataset:
    return load(trained.parents[4] / "data" / "toy")


@pytest.fixture
def exported(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What exports it with settings of the search; its indexes have a list for each 10 keys."""
    monkeypatch.setattr(exporting, "LEAST", 10)
    return lambda **lookup: export(trained, tmp_path / "model", sections() | {"lookup": lookup})


def recall(model: Predictor, pictures: np.ndarray) -> float:
    """The share of the nearest neighbors that the answers rest on; no answer may rest on what is dead."""
    near = model.predict(pictures).neighbors.ids
    assert np.isin(near, model.ids).all()
    view = model.store.view
    nearest = exact.nearest(view, model._encoder.keys(pictures), near.shape[1]).neighbors.ids
    return float(np.mean([np.isin(mine, theirs).mean() for mine, theirs in zip(near, nearest, strict=True)]))


def test_export_predict_forget_purge_and_compact(exported, samples, monkeypatch):
    asked, test = [], samples.images[samples.ids_of("test")]
    monkeypatch.setattr(lists, "near", lambda *of, near=lists.near: (asked.append(1), near(*of))[1])
    with Predictor.load(exported(**SOME), writer=True, device="cpu") as model:
        index = next(model.directory.glob("memory/generation-*/index"))
        assert model.search.described() == "approximate: looks at 4 of 12 lists"
        shares = [recall(model, test)]
        forgotten = np.unique(model.predict(test).neighbors.ids[:, :2])
        for step in (lambda: model.forget(forgotten), model.purge, model.compact):
            step()
            assert not np.isin(model.predict(test).neighbors.ids, forgotten).any()
            shares.append(recall(model, test))
            assert model.verify().sound
            assert len(model.ids) < 100 or model.search.described().startswith("approximate")
        assert min(shares) > 0.9 and asked
        assert not index.exists() and list(model.directory.glob("memory/generation-*/index"))


def test_centroids_are_of_keys_of_val_and_test_alone(exported, trained, samples):
    with Predictor.load(exported(**SOME), device="cpu") as model:
        centroids = model.store.read_index().centroids
    from munkey.deploy.model.trained_system import TrainedSystem

    strangers = TrainedSystem(trained / "system.safetensors").strangers
    assert len(strangers) == np.count_nonzero(samples.splits != "train") == 120
    assert np.array_equal(centroids, lists.centroids_of(strangers, 12))


def test_with_few_such_keys_there_are_fewer_lists_or_none(exported, monkeypatch, capsys):
    monkeypatch.setattr(exporting, "LEAST", 20)
    directory = exported(**SOME)
    with Predictor.load(directory) as model:
        assert model.search.described() == "approximate: looks at 4 of 6 lists"
    shutil.rmtree(directory)
    monkeypatch.setattr(exporting, "LEAST", 30)
    with Predictor.load(exported(**SOME)) as model:
        assert model.search.described() == "exact: 180 rows, and no index" and model.verify().sound
    assert "180 rows will be searched exactly" in capsys.readouterr().out


def test_a_damaged_index_is_refused_and_a_purge_removes_it(exported, samples):
    directory = exported(**SOME)
    index = directory / "memory" / "generation-1" / "index"
    whole = bytearray(index.read_bytes())
    whole[100] ^= 1
    for damage in (lambda: index.write_bytes(whole), lambda: os.mkfifo(index)):
        index.unlink()
        damage()
        with Predictor.load(directory, writer=True, device="cpu") as model:
            with pytest.raises(UnreadableModelError, match=r"purge removes this index"):
                model.predict(samples.images[:1])
            report = model.verify()
            assert not report.sound and "purge removes this index" in str(report)
            assert model.search.described() == "not possible: its index cannot be read"
    with Predictor.load(directory, writer=True, device="cpu") as model:
        model.purge()
        assert model.verify().sound and model.search.described() == "exact: 180 rows, and no index"
        assert len(model.predict(samples.images[:1])) == 1


def test_rows_that_no_list_holds_are_found_by_verify(exported):
    with Predictor.load(exported(**SOME), writer=True) as model:
        index, view = model.store.read_index(), model.store.view
        lost = index.without(np.arange(len(view.live)) < 7, index.moment)
        lost.write(model.store.folder / "generation-1")
        assert model.verify().problems == ("7 rows are in no list of the index, so that no search finds them",)


def test_the_command_says_how_a_model_is_searched(exported, capsys):
    from munkey.cli import check

    directory = exported(**SOME)
    for command in (check.inspect, check.verify):
        command(directory)
        assert "search: approximate: looks at 4 of 12 lists\n" in capsys.readouterr().out
    check.verify(directory, as_json=True)
    assert json.loads(capsys.readouterr().out)["search"] == "approximate: looks at 4 of 12 lists"
