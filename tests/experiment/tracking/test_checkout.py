"""The id of a checkout: unique and lasting, whatever is moved or copied."""

import shutil

from munkey.experiment.tracking.checkout import FILE, project


def test_a_store_in_the_checkout_needs_no_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert project(tmp_path / "mlflow.db") == "local"
    assert not (tmp_path / FILE).exists()
    assert project(tmp_path.parent / "mlflow.db") != "local"


def test_the_id_is_made_once_and_is_no_others(tmp_path, monkeypatch):
    ids = {}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        ids[name] = project(None)
        assert project(None) == ids[name]
        assert project(tmp_path / "shared.db") == ids[name]
    assert ids["a"] != ids["b"]


def test_a_moved_checkout_keeps_its_id(tmp_path, monkeypatch):
    (tmp_path / "before").mkdir()
    monkeypatch.chdir(tmp_path / "before")
    known = project(None)
    (tmp_path / "before").rename(tmp_path / "after")
    monkeypatch.chdir(tmp_path / "after")
    assert project(None) == known


def test_a_copy_gets_an_id_of_its_own_and_both_keep_theirs(tmp_path, monkeypatch):
    (tmp_path / "first").mkdir()
    monkeypatch.chdir(tmp_path / "first")
    first = project(None)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    copy = project(None)
    assert copy != first
    assert project(None) == copy
    monkeypatch.chdir(tmp_path / "first")
    assert project(None) == first


def test_an_id_that_was_written_by_hand_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / FILE).write_text('{"project": "0123456789abcdef"}')
    assert project(None) == "0123456789abcdef"
