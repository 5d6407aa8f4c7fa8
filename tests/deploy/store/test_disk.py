"""A new folder is whole, or not there; what must be on the disk is waited for."""

import os
import stat
from pathlib import Path

import pytest

from munkey.core.files import atomic
from munkey.deploy.store import disk
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import create, raw


@pytest.mark.parametrize("empty", [False, True], ids=["", "of an empty one"])
def test_a_new_folder_takes_its_place_when_it_is_whole(empty, tmp_path):
    if empty:
        (tmp_path / "parents" / "new").mkdir(parents=True)
    with disk.create_folder(tmp_path / "parents" / "new") as folder:
        (folder / "file").write_text("content")
        assert not (tmp_path / "parents" / "new" / "file").exists()
    assert [path.name for path in (tmp_path / "parents").iterdir()] == ["new"]
    assert (tmp_path / "parents" / "new" / "file").read_text() == "content"
    assert stat.S_IMODE((tmp_path / "parents" / "new").stat().st_mode) == 0o755


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_nothing(error, tmp_path):
    def fail() -> None:
        with disk.create_folder(tmp_path / "new") as folder:
            (folder / "file").touch()
            raise error

    with pytest.raises(error):
        fail()
    assert not list(tmp_path.iterdir())


def test_what_is_there_stays(tmp_path):
    (tmp_path / "file").write_text("mine")
    for taken in (tmp_path, tmp_path / "file"):
        with (
            pytest.raises(FileExistsError, match="already contains files"),
            disk.create_folder(taken),
        ):
            pytest.fail("the block must not run")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_lock_whose_file_cannot_be_written_is_released(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(IsADirectoryError):
        disk.lock(tmp_path)
    (tmp_path / "lock").rmdir()
    disk.unlock(disk.lock(tmp_path))


def test_a_commit_waits_for_the_disk(folder):
    with create(folder) as store:
        settings = [
            store._ledger._query_number(f"PRAGMA {name}")
            for name in ("synchronous", "secure_delete")
        ]
    assert settings == [2, 1]  # FULL, ON


def test_a_sync_is_one(tmp_path, monkeypatch):
    asked = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(
            os, name, lambda file: asked.append(Path(f"/proc/self/fd/{file}").readlink())
        )
    with (tmp_path / "a").open("wb") as file:
        disk.sync(file.fileno())
    disk.sync_folder(tmp_path)
    with atomic(tmp_path / "b") as temporary:
        pass
    assert asked == [tmp_path / "a", tmp_path, temporary]


def test_an_old_generation_is_zero_on_the_disk_before_its_names_go(folder, monkeypatch):
    ids, keys, tokens = raw(30_000)  # more than is overwritten at a time
    sync, unlink = disk.sync, Path.unlink
    synced: dict[Path, bytes] = {}
    removed: dict[Path, bytes | None] = {}

    def recorded(file):
        sync(file)
        path = Path(f"/proc/self/fd/{file}").readlink()
        synced[path] = path.read_bytes()

    def removing(path, **options):
        removed[path] = synced.get(path)
        unlink(path, **options)

    with Store.create(folder, ids, keys, tokens) as store:
        sizes = {path: path.stat().st_size for path in (folder / "generation-1").iterdir()}
        monkeypatch.setattr(disk, "sync", recorded)
        monkeypatch.setattr(Path, "unlink", removing)
        store.compact()
    assert len(sizes) == 4 and max(sizes.values()) > 1 << 20
    assert {path: removed[path] for path in sizes} == {
        path: bytes(size) for path, size in sizes.items()
    }
