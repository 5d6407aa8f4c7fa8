"""What the system refuses, space or permission, costs nothing that was acknowledged, and is not called damage."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from munkey.deploy.store import disk
from munkey.deploy.store import store as module
from munkey.deploy.store.errors import UnreadableMemoryError
from munkey.deploy.store.ledger import Ledger
from munkey.deploy.store.matrices import NAMES
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import add, content, create, expected, raw
from tests.deploy.store.killing import check

IDS = raw(40)[0]
OPERATIONS = {
    "add": lambda store: add(store, 30, 5),
    "delete": lambda store: store.delete(IDS[:1]),
    "batch": lambda store: store.delete(IDS[:20]),
    "settle": Store.settle,
    "purge": Store.purge,
    "compact": Store.compact,
}
GONE = {"delete": IDS[:1], "batch": IDS[:20]}


@contextmanager
def limited(size: int, of: int = resource.RLIMIT_FSIZE) -> Iterator[None]:
    """By the system: no file longer than this, or no descriptor from this number on."""
    before = resource.getrlimit(of)
    resource.setrlimit(of, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(of, before)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_disk_without_space_leaves_a_memory_of_before_or_after(operation, folder):
    refusals = []
    for size in [*range(0, 4000, 500), *range(4000, 90_000, 6000)]:
        target = folder.parent / f"memory-{size}"
        with create(target, 40) as store:
            before = content(store)
        after = {
            i: row for i, row in before.items() if i not in GONE.get(operation, IDS[:0]).tolist()
        }
        after |= expected(*raw(30, 5)) if operation == "add" else {}
        allowed = [before, after]
        try:
            with limited(size), Store.open(target, writer=True) as store:
                OPERATIONS[operation](store)
                allowed = [after]
        except OSError as error:
            refusals.append(str(target) in str(error))
        check(target, allowed)
    assert 0 < len(refusals) < 23
    assert all(refusals), "a refusal names no file"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operation", ["add", "delete", "settle"])
def test_a_write_that_fails_is_never_taken_for_done(operation, name, folder, monkeypatch):
    """Each of the files, rows that outgrow the ledger as well as rows that do not."""
    write = disk.write

    def full(file: int, data: bytes | memoryview, offset: int) -> None:
        if Path(f"/proc/self/fd/{file}").readlink().name == name:
            raise OSError(errno.ENOSPC, "no space")
        write(file, data, offset)

    with create(folder, 40) as store:
        before = content(store)
        after = {one: row for one, row in before.items() if one != IDS[0]}
        if operation == "add":
            after = before | expected(*raw(30, 5))
        elif operation == "settle":
            monkeypatch.setattr(module, "MAX_ERASED_AT_ONCE", 0)
            store.delete(IDS[:1])
            before = after
        if (operation, name) != ("settle", "live"):  # which was written by the deletion
            monkeypatch.setattr(disk, "write", full)
            with pytest.raises(OSError, match=f"no space.*{name}"):
                OPERATIONS[operation](store)
        monkeypatch.setattr(disk, "write", write)
    check(folder, [before, after])


def test_a_deletion_that_the_ledger_has_no_space_for_is_refused_and_leaves_all(folder):
    with create(folder, 3000) as store:
        before = content(store)
        with (
            limited(40_000),
            pytest.raises(OSError, match=rf"{folder}/store\.db: cannot be written \("),
        ):
            store.delete(raw(3000)[0])
    check(folder, [before])


CODE = """
import os, sys
from munkey.deploy.store.store import Store
os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    Store.open(sys.argv[1], writer=bool(sys.argv[2]))
except OSError as error:
    print(error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("writer", ["writer", ""])
def test_a_folder_of_somebody_else_is_not_called_damaged(writer, folder):
    create(folder).close()
    folder.parent.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder), writer],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        str(folder) in done.stdout
        and "damaged" not in done.stdout
        and "write access to the folder" in done.stdout
    )


def test_what_cannot_be_opened_at_all_is_named(folder, monkeypatch):
    create(folder).close()
    (folder / "store.db").rename(folder / "store")
    (folder / "store.db").mkdir()
    with pytest.raises(UnreadableMemoryError, match="not a memory"):
        Store.open(folder)


def test_a_ledger_that_the_system_does_not_open_is_not_called_damaged(folder):
    create(folder).close()
    said = rf"{folder}/store\.db: unable to open database file; even a reader needs"
    with limited(0, resource.RLIMIT_NOFILE), pytest.raises(OSError, match=said):
        Ledger(folder / "store.db")
