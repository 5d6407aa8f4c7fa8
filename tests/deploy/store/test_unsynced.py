"""The power fails at every single write: what was not synced is lost, and what was acknowledged is not.

SIGKILL leaves what was written in the page cache; here it is dropped. SQLite's own durability is taken as given.
"""

import os
import shutil
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import numpy as np
import pytest

from munkey.deploy.store import disk
from munkey.deploy.store import store as module
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import add, content, create, expected, raw
from tests.deploy.store.killing import check

STEPS = ("write", "truncate", "sync", "sync_folder")


class Disk:
    """What would be on the disk. files: synced bytes by inode; names: synced entries of folders by inode."""

    def __init__(
        self, root: Path, before_each: Callable[[], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.root, self.before_each, self.watching = root, before_each, True
        self.files: dict[int, bytes] = {}
        self.names: dict[int, dict[str, os.DirEntry[str]]] = {}
        for name in STEPS:
            monkeypatch.setattr(disk, name, self.recorded(getattr(disk, name)))
        for path in [root, *root.rglob("*")]:
            self.synced(path)

    def synced(self, path: Path) -> None:
        if path.is_dir():
            self.names[path.stat().st_ino] = {entry.name: entry for entry in os.scandir(path)}
        elif path.is_file():
            self.files[path.stat().st_ino] = path.read_bytes()

    def recorded(self, step: Callable[..., None]) -> Callable[..., None]:
        @wraps(step)
        def recording(*arguments: object) -> None:
            if self.watching:
                self.before_each()
            step(*arguments)
            if step.__name__ == "sync":
                self.synced(Path(f"/proc/self/fd/{arguments[0]}").readlink())
            elif step.__name__ == "sync_folder":
                self.synced(arguments[0])

        return recording

    def after_power_failure(self, target: Path, kept: Callable[[], bool]) -> None:
        """Make the folder as it would be found. kept: whether a file was written all the same, unsynced."""
        self.restore(self.root.stat().st_ino, self.root, target, kept)

    def restore(self, inode: int, source: Path, target: Path, kept: Callable[[], bool]) -> None:
        target.mkdir()
        for name, entry in self.names.get(inode, {}).items():
            if entry.inode() in self.names or entry.is_dir():
                self.restore(entry.inode(), source / name, target / name, kept)
            elif not name.startswith("store.db"):
                current = source / name
                lost = not current.exists() or current.stat().st_ino != entry.inode() or not kept()
                (target / name).write_bytes(
                    self.files.get(entry.inode(), b"") if lost else current.read_bytes()
                )
        for path in source.glob("store.db*") if source.is_dir() else ():
            if not path.name.endswith("-shm"):  # SQLite makes it anew
                shutil.copy(path, target)


def operations(
    store: Store, ids: np.ndarray
) -> list[tuple[Callable[[], object], Callable[[dict], dict]]]:
    """Each operation, and what it makes of the content."""

    def without(gone):
        return lambda before: {i: row for i, row in before.items() if i not in gone.tolist()}

    def adding(seed):
        return lambda: add(store, 3, seed), lambda before: before | expected(*raw(3, seed))

    def deleting(gone):
        return lambda: store.delete(gone), without(gone)

    def same(operation):
        return operation, dict

    return [
        deleting(ids[:1]),
        adding(7),
        deleting(ids[[4, 9]]),
        deleting(ids[12:22]),  # hidden first
        deleting(ids[1:2]),
        adding(8),
        same(store.settle),
        deleting(ids[2:3]),
        same(store.purge),
        deleting(raw(3, 7)[0]),
        deleting(ids[22:30]),
        same(store.compact),
        deleting(ids[30:31]),
        adding(9),
        deleting(ids[31:38]),
        same(store.compact),
        same(store.close),
    ]


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["all unsynced writes are lost", "half of them"])
@pytest.mark.parametrize(
    "reading", [False, True], ids=["a writer opens it", "a reader opens it first"]
)
def test_what_was_acknowledged_survives_a_power_failure_at_every_write(
    share, reading, folder, monkeypatch
):
    monkeypatch.setattr(module, "MAX_ERASED_AT_ONCE", 5)
    monkeypatch.setattr(module, "MAX_PENDING_DELETIONS", 4)
    random, failures, allowed = np.random.default_rng(0), [0], []

    def fail_here() -> None:
        failures[0] += 1
        target, held.watching = folder.parent / "found", False
        held.after_power_failure(target, lambda: random.random() < share)
        if reading:
            with Store.open(target) as reader:
                assert content(reader) in allowed
        check(target, allowed)
        shutil.rmtree(target)
        held.watching = True

    store = create(folder, 40)
    held = Disk(folder, fail_here, monkeypatch)
    model = content(store)
    for operation, change in operations(store, raw(40)[0]):
        allowed[:] = [model, change(model)]
        operation()
        model = change(model)
        allowed[:] = [model]
        fail_here()
    assert failures[0] > 120


def test_a_memory_that_was_created_is_there_after_a_power_failure(folder, monkeypatch):
    held = Disk(folder.parent, lambda: None, monkeypatch)
    with create(folder) as store:
        model = content(store)
        held.after_power_failure(folder.parent / "found", lambda: False)
    check(folder.parent / "found" / "memory", [model])


def test_a_second_power_failure_during_or_after_recovery_undoes_nothing(folder, monkeypatch):
    monkeypatch.setattr(module, "MAX_ERASED_AT_ONCE", 5)
    once, twice = folder.parent / "once", folder.parent / "twice"
    failures = [0]

    def fail_here() -> None:
        failures[0] += 1
        again.watching = False
        again.after_power_failure(twice, lambda: False)
        check(twice, [model])
        shutil.rmtree(twice)
        again.watching = True

    with create(folder, 40) as store:
        held = Disk(folder, lambda: None, monkeypatch)
        store.delete(raw(40)[0][:10])
        store.delete(raw(40)[0][10:12])
        model = content(store)
        held.after_power_failure(once, lambda: False)
        held.watching = False
    again = Disk(once, fail_here, monkeypatch)
    with Store.open(once, writer=True) as store:
        fail_here()
        assert content(store) == model
    assert failures[0] > 6
