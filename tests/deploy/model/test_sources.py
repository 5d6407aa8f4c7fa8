"""Which samples the name of a file means."""

import os
from pathlib import Path

import pytest

from munkey.deploy.errors import AmbiguousFileError, UnknownFilesError
from munkey.deploy.model.sources import SourceFiles
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import raw

NOT_UTF8 = os.fsdecode(b"caf\xe9.png")


@pytest.fixture
def named(folder):
    """A memory whose samples 0, 1, ... came from these files."""
    stores = []

    def made(*files: str | Path) -> Store:
        _, keys, tokens = raw(len(files))
        stores.append(Store.create(folder, range(len(files)), keys, tokens, files=list(map(str, files))))
        return stores[0]

    yield made
    for store in stores:
        store.close()


def test_a_file_is_found_through_a_path_that_goes_up(named, tmp_path, monkeypatch):
    (tmp_path / "pets" / "cats").mkdir(parents=True)
    store = named("cats/a.png", tmp_path / "added.png")
    monkeypatch.chdir(tmp_path / "pets" / "cats")
    for root in (tmp_path / "pets", tmp_path / "elsewhere" / ".." / "pets"):
        sources = SourceFiles(store, str(root))
        assert sources.ids_of(["a.png", "../../added.png"]).tolist() == [0, 1]
        assert sources.ids_of([tmp_path / "x" / ".." / "pets" / "cats" / "a.png"]).tolist() == [0]


def test_a_name_that_is_not_utf_8_is_found_as_it_is_stored(named, tmp_path):
    sources = SourceFiles(named("caf\\xe9.png"), str(tmp_path))
    assert sources.ids_of([NOT_UTF8]).tolist() == sources.ids_of([tmp_path / NOT_UTF8]).tolist() == [0]
    with pytest.raises(UnknownFilesError):
        sources.ids_of([os.fsdecode(b"\xff.png")])


@pytest.mark.parametrize("root", ["pets", None])
def test_a_name_that_means_two_files_is_refused_and_both_are_named(root, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = SourceFiles(named("a.png", tmp_path / "a.png"), root and str(tmp_path / root))
    first = tmp_path / root / "a.png" if root else "a.png"
    with pytest.raises(AmbiguousFileError) as raised:
        known.ids_of(["a.png"])
    assert f"can be {first} (ids 0) or {tmp_path / 'a.png'} (ids 1)" in str(raised.value)
    assert known.ids_of([tmp_path / "a.png"]).tolist() == [1]
    assert root is None or known.ids_of([first]).tolist() == [0]


def test_a_file_of_the_data_set_that_was_added_again_is_one_file(named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sources = SourceFiles(named("a.png", tmp_path / "a.png"), str(tmp_path))
    assert sources.ids_of(["a.png"]).tolist() == sources.ids_of([tmp_path / "a.png"]).tolist() == [0, 1]
