"""Writers, readers, forks and threads that use one memory at a time."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest

from munkey.deploy.store import disk, recovery
from munkey.deploy.store import store as stores
from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError
from munkey.deploy.store.ledger import Ledger
from munkey.deploy.store.matrices import Matrices
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import content, create, raw, units_of

IDS, KEYS, TOKENS = raw(12)


def test_a_second_writer_is_refused_with_a_sentence_until_the_first_is_closed(folder):
    with create(folder):
        with pytest.raises(
            LockedMemoryError,
            match=rf"already open for writing elsewhere \(process {os.getpid()}\)",
        ):
            Store.open(folder, writer=True)
        (folder / "lock").unlink()  # it only names the process
        with pytest.raises(LockedMemoryError, match="one writer"):
            Store.open(folder, writer=True)
    Store.open(folder, writer=True).close()


def test_a_second_writer_waits_for_the_first_where_it_is_asked_to(folder):
    first = create(folder)
    with pytest.raises(LockedMemoryError, match="one writer"):
        Store.open(folder, writer=True, wait=0.02)
    closing = threading.Timer(0.1, first.close)
    closing.start()
    with Store.open(folder, writer=True, wait=60) as second:
        closing.join()
        assert second.verify().live == 12


WRITER = """
import os, sys
from pathlib import Path
from munkey.deploy.store.store import Store
folder, first, second = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
store = Store.open(folder, writer=True)
store.delete([first])
(folder / "store.db").read_bytes()  # which ends this process' POSIX locks on it, as SQLite's documentation warns
print("ready", flush=True)
sys.stdin.readline()
try:
    store.delete([second])
    print("acknowledged", flush=True)
except OSError as error:
    print(error, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_write_ahead_log_that_was_removed_meanwhile_takes_no_acknowledged_deletion_with_it(
    folder,
):
    create(folder).close()
    command = [sys.executable, "-c", WRITER, str(folder), str(IDS[0]), str(IDS[1])]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout.readline() == "ready\n"
        Store.open(folder).close()  # SQLite takes it for the last one, and removes the log
        answer = writer.communicate("go on\n")[0]
    assert "was removed while the memory was open" in answer
    with Store.open(folder, writer=True) as store:
        assert (
            content(store).keys() in (set(IDS[1:].tolist()), set(IDS[2:].tolist()))
            and store.verify().sound
        )


def test_a_forked_child_neither_writes_nor_keeps_the_lock(folder):
    store = create(folder)
    (asked, asking), (answered, answering) = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        os.close(asking)
        try:
            store.delete(IDS[:1])
        except ClosedMemoryError:
            store.close()  # must not release what the parent has
            os.write(answering, b"refused")
        os.read(asked, 1)  # until the parent closes its end
        os._exit(0)
    try:
        os.close(answering)
        assert os.read(answered, 9) == b"refused"
        with pytest.raises(LockedMemoryError):
            Store.open(folder, writer=True)
        store.close()
        Store.open(folder, writer=True).close()  # while the child lives
    finally:
        os.close(asking)
        os.waitpid(child, 0)


def test_a_forked_child_does_not_wait_for_a_thread_that_it_does_not_have(folder):
    with create(folder) as store:
        held, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with store._state_lock:
                held.set()
                leave.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        if (child := os.fork()) == 0:
            signal.alarm(20)  # kills it, if it waits
            with contextlib.suppress(ClosedMemoryError):
                _ = store.view
            store.close()
            os._exit(0)
        leave.set()
        holder.join()
        assert os.waitpid(child, 0)[1] == 0


def test_a_reader_finishes_what_a_killed_writer_began_before_it_verifies(folder):
    create(folder).close()
    code = (
        "import os\nfrom munkey.deploy.store import matrices\nfrom munkey.deploy.store.store import Store\n"
        "matrices.Matrices.hide = lambda *_: os.kill(os.getpid(), 9)\n"
        f"Store.open({str(folder)!r}, writer=True).delete({IDS[:3].tolist()})"
    )
    with Store.open(folder) as reader:
        subprocess.run([sys.executable, "-c", code], check=False)
        report = reader.verify()
        assert report.sound and (report.live, report.dead) == (9, 3) and len(content(reader)) == 9


@pytest.mark.parametrize("hangs", [True, False])
def test_a_reader_waits_until_a_writer_has_hidden_what_it_deletes(hangs, folder, monkeypatch):
    hide, hidden = Matrices.hide, []
    monkeypatch.setattr(recovery, "PATIENCE_S", 0.05 if hangs else 60)
    monkeypatch.setattr(Matrices, "hide", lambda *of: hidden.append(of))
    monkeypatch.setattr(time, "sleep", lambda _: hangs or hide(*hidden[0]))
    with create(folder) as store:
        store.delete(IDS[:3])
        if hangs:
            with pytest.raises(LockedMemoryError, match="one writer at a time"):
                Store.open(folder)
        else:
            with Store.open(folder) as reader:
                assert content(reader).keys() == set(IDS[3:].tolist())


def test_a_memory_that_another_program_keeps_busy_is_locked_and_not_damaged(folder, monkeypatch):
    create(folder).close()
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
    with contextlib.closing(sqlite3.connect(folder / "store.db")) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(
            LockedMemoryError, match=r"store\.db: kept busy by another process; try again"
        ):
            Store.open(folder)


def test_a_row_that_came_and_went_while_a_reader_looked_is_no_damage(folder, monkeypatch):
    dead = Ledger.list_dead_rows

    def meanwhile(ledger: Ledger, after: int = 0) -> np.ndarray:
        monkeypatch.setattr(Ledger, "list_dead_rows", dead)
        store.add([5], KEYS[:1], TOKENS[:1])
        store.delete([5])
        return dead(ledger, after)

    with create(folder) as store:
        monkeypatch.setattr(Ledger, "list_dead_rows", meanwhile)
        with Store.open(folder) as reader:
            assert Ledger.list_dead_rows is dead and len(content(reader)) == 12
            monkeypatch.setattr(Ledger, "list_dead_rows", meanwhile)
            report = reader.verify()
            assert Ledger.list_dead_rows is dead and report.sound and report.live == 12


def test_deletions_at_every_moment_of_a_check_are_no_problem(folder, monkeypatch):
    asked = Ledger._query_records

    def meanwhile(ledger: Ledger, *arguments: object) -> list[tuple[object, ...]]:
        answer = asked(ledger, *arguments)
        if ledger is reader._ledger and left:
            store.delete([left.pop()], request=f"R-{len(left)}", block_return=True)
        return answer

    with create(folder, 60) as store, Store.open(folder) as reader:
        left = raw(60)[0].tolist()
        monkeypatch.setattr(Ledger, "_query_records", meanwhile)
        report = reader.verify()
        assert report.sound, str(report)
        assert 10 < len(store.log()) < 60


def test_a_lock_ends_with_the_killed_process_though_its_forked_child_lives(folder):
    create(folder).close()
    code = (
        "import os, signal, sys, time\n"
        "from munkey.deploy.store.store import Store\n"
        f"store = Store.open({str(folder)!r}, writer=True)\n"
        "child = os.fork()\n"
        "if not child:\n    print('ready', flush=True)\n    sys.stdin.read()\n    os._exit(0)\n"
        "os.wait()\n"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout.readline() == "ready\n"
    started.kill()
    started.wait()
    Store.open(folder, writer=True).close()
    started.stdin.close()
    started.stdout.close()


def test_a_reader_writes_nothing_and_a_closed_store_says_so(folder):
    store = create(folder)
    with Store.open(folder) as reader:
        for operation in (
            reader.settle,
            reader.purge,
            reader.compact,
            lambda: reader.delete(IDS[:1]),
        ):
            with pytest.raises(ClosedMemoryError, match="reading only"):
                operation()
    store.close()
    store.close()
    with pytest.raises(ClosedMemoryError, match="closed"):
        store.delete(IDS[:1])
    with pytest.raises(ClosedMemoryError, match="closed"):
        _ = reader.view


def test_threads_may_share_a_store(folder):
    ids, keys, tokens = raw(200)
    with Store.create(folder, ids, keys, tokens) as store:
        threads = [
            threading.Thread(target=store.delete, args=(part,)) for part in np.split(ids, 20)[:10]
        ]
        threads += [
            threading.Thread(target=store.add, args=([5 + i], keys[:1], tokens[:1]))
            for i in range(10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert content(store).keys() == set(ids[100:].tolist()) | set(range(5, 15))
        assert store.verify().sound


def test_every_change_of_the_rows_is_another_position_for_all_who_have_the_memory_open(folder):
    with create(folder) as writer, Store.open(folder) as reader:
        positions = [writer.position]
        for change in (
            lambda: writer.add([100, 101], KEYS[:2], TOKENS[:2]),
            lambda: writer.delete([100, 101]),
            writer.compact,
            lambda: writer.delete(IDS[:1]),
            lambda: writer.add([102], KEYS[:1], TOKENS[:1]),
            writer.compact,
        ):
            change()
            positions.append(writer.position)
            assert reader.position == positions[-1]
            assert (
                reader.position.live == np.count_nonzero(reader.view.live) == writer.verify().live
            )
        assert len(set(positions)) == len(positions)
        writer.settle()
        writer.purge()
        assert reader.position == positions[-1]  # no row came, left or moved


def test_a_snapshot_waits_until_what_the_ledger_calls_dead_is_hidden(folder, monkeypatch):
    """Between the two, the head is the new one already, and whatever was computed would be taken
    for its.
    """
    hide = Matrices.hide
    snapshots = []

    def ask():
        with reader.snapshot() as (position, view):
            snapshots.append((position, view))

    def slowly(self, rows, total):
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(0.1)
        assert asking.is_alive()
        hide(self, rows, total)
        asking.join()

    with create(folder) as writer, Store.open(folder) as reader:
        monkeypatch.setattr(Matrices, "hide", slowly)
        writer.delete(IDS[:2])
        [(position, view)] = snapshots
        assert position.live == 10 == np.count_nonzero(view.live)
        assert position.head.hex() == writer.head


def test_a_reader_is_the_writer_for_a_while_and_threads_take_turns(folder):
    create(folder).close()
    kept_ids = []

    def move(store, number):
        with store.writing(60):
            store.add([number], KEYS[:1], TOKENS[:1])
            store.delete([number])
            store.add([number + 100], KEYS[:1], TOKENS[:1])
            kept_ids.append(number + 100)

    with Store.open(folder) as one, Store.open(folder) as other, Store.open(folder) as watching:
        threads = [
            threading.Thread(target=move, args=((one, other)[at % 2], 1000 + at)) for at in range(8)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            with watching.snapshot() as (position, view):
                assert np.count_nonzero(view.live) <= position.live
        for thread in threads:
            thread.join()
        assert len(kept_ids) == 8 and one.position == other.position == watching.position
        for store in (one, other):
            with pytest.raises(ClosedMemoryError, match="reading only"):
                store.delete(IDS[:1])
        assert sorted(one.view.ids[one.view.live].tolist()) == sorted([*IDS, *kept_ids])
        assert one.verify().sound
    with pytest.raises(ClosedMemoryError), one.writing():
        pass


@pytest.mark.parametrize("own", [True, False], ids=["its own reader", "another reader"])
def test_a_compaction_waits_for_whoever_reads_and_for_nobody_who_has_it_open(own, folder):
    with create(folder) as store, Store.open(folder) as reader, Store.open(folder) as idle:
        _ = idle.view
        store.delete(IDS[3:4])
        compacting = threading.Thread(target=store.compact)
        with (store if own else reader).reading() as view:
            compacting.start()
            compacting.join(0.2)
            assert compacting.is_alive() and view.generation == 1
            assert view.live.sum() == 11 and view.keys[view.live].any(axis=1).all()
            assert content(idle).keys() == {*IDS.tolist()} - {IDS[3]}  # others read on meanwhile
        compacting.join()
        assert {one.view.generation for one in (store, reader, idle)} == {2}
        assert reader.verify().sound and content(reader) == content(idle) == content(store)


def test_a_compaction_gives_up_where_a_reader_does_not_end_and_changes_nothing(folder, monkeypatch):
    monkeypatch.setattr(disk, "PATIENCE_S", 0.05)
    with create(folder) as store, Store.open(folder) as reader:
        store.delete(IDS[:2])
        with (
            reader.reading(),
            pytest.raises(LockedMemoryError, match="generation-1: a reader has locked it for"),
        ):
            store.compact()
        assert [path.name for path in folder.glob("generation-*")] == ["generation-1"]
        assert store.verify().dead == 2
        store.add([5], KEYS[:1], TOKENS[:1])
        assert store.compact() == () and store.verify().dead == 0


def test_a_reader_locks_the_generation_whose_rows_it_gets_where_a_compaction_comes_before(
    folder, monkeypatch
):
    lock_generation = disk.lock_generation
    locked_folders = []

    def lock_after_a_compaction(path, *, exclusive=False):
        if not exclusive and not locked_folders:
            locked_folders.append(path)
            store.compact()
        locked_folders.append(path)
        return lock_generation(path, exclusive=exclusive)

    with create(folder) as store:
        monkeypatch.setattr(stores, "retire_generation", lambda path: None)  # it is about to
        monkeypatch.setattr(disk, "lock_generation", lock_after_a_compaction)
        with store.reading() as view:
            assert view.generation == 2
            assert locked_folders[-1].name == "generation-2"


def test_a_child_that_is_forked_while_a_thread_reads_keeps_no_compaction_waiting(
    folder, monkeypatch
):
    monkeypatch.setattr(disk, "PATIENCE_S", 0.05)
    asked, asking = os.pipe()
    with create(folder) as store:
        with store.reading():
            if (child := os.fork()) == 0:
                os.close(asking)
                os.read(asked, 1)  # until the parent closes its end
                os._exit(0)
        try:
            assert store.compact() == ()
        finally:
            os.close(asking)
            os.waitpid(child, 0)
            os.close(asked)


def test_a_copy_has_the_chain_and_nothing_of_what_is_gone(folder, tmp_path):
    with create(folder) as store:
        store.delete(IDS[:3], request="2026-1")
        store.copy(tmp_path / "copy")
        store.delete(IDS[3:4])
        with Store.open(tmp_path / "copy", writer=True) as copied:
            assert (copied.head, copied.log()) == (store.log()[0].after, store.log()[:1])
            assert copied.verify().sound and copied.verify().live == 9
            copied.delete(IDS[3:])
            copied.purge()
        files = [file.read_bytes() for file in (tmp_path / "copy").rglob("*") if file.is_file()]
        assert not any(unit.encode() in file for unit in units_of(IDS) if unit for file in files)
        assert store.verify().live == 8
    with Store.open(folder) as reader, pytest.raises(ClosedMemoryError, match="reading only"):
        reader.copy(tmp_path / "another")
