"""Threads, processes, and forked children use one memory at the same time."""

import fcntl
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from munkey.memory.errors import ClosedMemoryError, LockedMemoryError
from munkey.memory.following_sums import FollowingSums
from munkey.memory.memory_file import MemoryFile, check_rows
from munkey.memory.sums import Sums
from tests.conftest import ROOT
from tests.memory.inputs import content, create, numbers, raw


def delete_each(path: Path, ids: list[int], deleted) -> None:
    """Delete rows one by one, and acknowledge each by counting it."""
    with MemoryFile.open(path) as file:
        for count, row_id in enumerate(ids, start=1):
            file.delete([row_id])
            with deleted.get_lock():
                deleted.value = count
            if count % 40 == 0:
                file.purge()


def test_no_answer_that_starts_after_an_acknowledgement_has_the_row(path):
    """A reader in this process while another process deletes, with purges between."""
    ids = raw(300)[0].tolist()
    create(path, 300).close()
    context = multiprocessing.get_context("spawn")
    deleted = context.Value("i", 0)
    process = context.Process(target=delete_each, args=(path, ids, deleted))
    looks = 0
    with MemoryFile.open(path) as file:
        process.start()
        while process.is_alive() or looks == 0:
            acknowledged = deleted.value  # read before the answer starts
            memory = file.snapshot().memory
            assert (memory.find_rows(np.array(ids[:acknowledged], np.int64)) < 0).all()
            # No more than the one that is not acknowledged yet is missing.
            assert len(memory) >= 300 - deleted.value - 1
            looks += 1
        process.join()
        assert process.exitcode == 0
        assert len(file.snapshot().memory) == 0
        assert file.verify().sound
    assert looks > 300


def change_at_random(path: Path, seed: int, steps: int) -> None:
    random = np.random.default_rng(seed)
    with MemoryFile.open(path) as file:
        for step in range(steps):
            kind = random.integers(10)
            if kind < 5:
                with file.change() as change:
                    rows = change.snapshot.memory.live_rows
                    gone = random.choice(rows, min(len(rows), int(random.integers(1, 4))), False)
                    change.delete(np.sort(gone), request=f"{seed}-{step}")
            elif kind < 9:
                add_rows(file, int(random.integers(1, 5)), seed=1000 * seed + step)
            else:
                file.purge()


def add_rows(file: MemoryFile, count: int, seed: int) -> None:
    """Add rows with the next ids, which are known only inside the transaction."""
    keys = numbers(count, seed, 9) / 4
    with file.change() as change:
        ids = change.snapshot.state.next_id + np.arange(count)
        labels = np.arange(count) % 3
        change.add(check_rows(ids, keys, numbers(count, seed, 8), labels=labels))


def make_sums() -> Sums:
    return Sums.empty(40, 9, with_outer_products=True)


def follow_changes(path: Path, steps: int) -> None:
    """Check sums against sums over all rows, while three workers change the memory."""
    create(path, 40).close()
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=change_at_random, args=(path, seed, steps)) for seed in (1, 2)
    ]
    workers.append(threading.Thread(target=change_at_random, args=(path, 3, steps)))
    following = FollowingSums(make_sums())
    followed = 0
    with MemoryFile.open(path) as file:
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            memory = file.snapshot().memory
            with following.follow(memory, 40) as sums:
                expected = make_sums()
                rows = memory.live_rows
                expected.add(memory.keys[rows], memory.labels[rows])
                for name in ("counts", "class_sums", "outer_products"):
                    assert np.array_equal(getattr(sums, name), getattr(expected, name))
            followed += 1
        for worker in workers:
            worker.join()
        assert all(getattr(worker, "exitcode", 0) == 0 for worker in workers)
        assert file.verify().sound
        requests = [receipt.request for receipt in file.log()]
        assert len(set(requests)) == len(requests)
        print(f"{3 * steps} changes, {len(requests)} deletions, followed {followed} times")
    assert followed > 20


def test_sums_are_exact_while_threads_and_processes_add_delete_and_purge(path):
    follow_changes(path, 40)


def test_sums_that_could_not_follow_are_computed_anew(path):
    with create(path, 40) as file:
        following = FollowingSums(make_sums())
        memory = file.snapshot().memory
        with following.follow(memory, 40):
            pass
        file.delete(memory.ids[:5])
        later = file.snapshot().memory
        with pytest.raises(ValueError, match="beyond the first 20"), following.follow(later, 20):
            pass
        expected = make_sums()
        expected.add(later.keys[later.live_rows], later.labels[later.live_rows])
        with following.follow(later, 40) as sums:
            assert np.array_equal(sums.counts, expected.counts)
            assert np.array_equal(sums.outer_products, expected.outer_products)


@pytest.mark.soak
def test_sums_are_exact_during_ten_thousand_changes(path):
    follow_changes(path, 3400)


def test_a_busy_memory_is_refused_after_the_timeout_and_not_changed(path):
    with create(path, 5) as file:
        before = content(file)
        with Path(f"{path}-lock").open("w") as lock:  # as another process would
            fcntl.flock(lock, fcntl.LOCK_EX)
            start = time.monotonic()
            busy = pytest.raises(LockedMemoryError, match="kept busy by another process")
            with busy, file.change(wait=0.1):
                pass
            assert time.monotonic() - start < 5
            assert content(file) == before  # readers do not wait
        file.delete(raw(5)[0][:1])
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # any program, without the lock
        with pytest.raises(LockedMemoryError, match="try again"):
            file.delete(raw(5)[0][1:2])
        other.execute("ROLLBACK")
        other.close()
        file.delete(raw(5)[0][1:2])
        assert len(content(file)) == 3


def test_readers_do_not_wait_for_a_change_of_another_thread(path):
    with create(path, 5) as file:
        inside = threading.Event()
        leave = threading.Event()

        def change() -> None:
            with file.change() as change:
                change.delete(np.array([0]))
                inside.set()
                leave.wait(20)

        thread = threading.Thread(target=change)
        thread.start()
        inside.wait(20)
        assert len(content(file)) == 5
        with pytest.raises(LockedMemoryError, match="another thread"), file.change(wait=0.05):
            pass
        leave.set()
        thread.join()
        assert len(content(file)) == 4


def fork(use) -> int:
    """Return the id of a forked child, which ends with 0 if this call of it succeeds."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            use()
            status = 0
        finally:
            os._exit(status)
    return child


def run_in_child(use) -> int:
    """Return the exit status of a forked child."""
    return os.waitpid(fork(use), 0)[1]


def test_a_forked_child_cannot_use_the_memory_and_can_open_it_again(path):
    with create(path, 20) as file:
        ids = raw(20)[0]
        file.delete(ids[:1])

        def use() -> None:
            for refused in (file.snapshot, lambda: file.delete(ids[1:2]), file.purge):
                with pytest.raises(ClosedMemoryError):
                    refused()
            file.close()  # does nothing
            with MemoryFile.open(path) as reopened:
                reopened.delete(ids[1:2])
                assert len(content(reopened)) == 18

        assert run_in_child(use) == 0
        assert len(content(file)) == 18
        file.delete(ids[2:3])
        assert len(content(file)) == 17
        assert file.verify().sound


def test_a_child_that_is_forked_inside_a_change_does_not_commit_it(path):
    with create(path, 20) as file:
        ids = raw(20)[0]
        child = None
        try:
            with file.change() as change:
                change.delete(change.snapshot.memory.find_rows(ids[:3]))
                child = os.fork()
        except ClosedMemoryError:
            assert child == 0
            os._exit(7)
        if child == 0:
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 7 << 8
        assert len(content(file)) == 17
        assert file.verify().sound


def test_the_lock_of_a_parent_ends_with_it_although_a_child_lives(path):
    create(path, 5).close()
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        file = MemoryFile.open(path)
        with file.change():
            child = os.fork()
            if child == 0:
                time.sleep(20)
                os._exit(0)
            os.write(writing, str(child).encode())
            os._exit(0)  # inside the change, with the lock
    os.waitpid(parent, 0)
    child = int(os.read(reading, 20))
    with MemoryFile.open(path, wait=5) as file:
        file.delete(raw(5)[0][:1])
    os.kill(child, 9)
    os.close(reading)
    os.close(writing)


DELETE_ONE = """
import sys
from munkey.memory.memory_file import MemoryFile
with MemoryFile.open(sys.argv[1]) as file:
    file.delete([int(sys.argv[2])])
"""


def test_a_child_answers_without_what_others_delete_after_its_parent_has_closed(path):
    """POSIX locks are not inherited, so SQLite must not believe that the child holds its parent's."""
    ids = raw(20)[0]
    file = create(path, 20)
    file.delete(ids[:1])
    opened = os.pipe()
    deleted = os.pipe()

    def use() -> None:
        with MemoryFile.open(path) as reopened:
            assert len(content(reopened)) == 19
            os.write(opened[1], b"!")
            os.read(deleted[0], 1)
            assert len(content(reopened)) == 18
            reopened.delete(ids[2:3])

    child = fork(use)
    os.read(opened[0], 1)
    file.close()
    command = [sys.executable, "-c", DELETE_ONE, str(path), str(ids[1])]
    subprocess.run(command, check=True)
    os.write(deleted[1], b"!")
    assert os.waitpid(child, 0)[1] == 0
    for descriptor in (*opened, *deleted):
        os.close(descriptor)
    with MemoryFile.open(path) as file:
        assert len(content(file)) == 17
        assert file.verify().sound


def test_a_parent_goes_on_after_a_fork_while_others_change_the_memory(path):
    """Its connections were closed for the fork. Meanwhile, others may remove the log and change rows."""
    ids = raw(20)[0]
    with create(path, 20) as file, MemoryFile.open(path) as other:
        other.snapshot()
        assert run_in_child(lambda: None) == 0
        command = [sys.executable, "-c", DELETE_ONE, str(path), str(ids[0])]
        subprocess.run(command, check=True)  # removes the log, since nobody else has it open
        assert file.is_in_place
        assert len(content(file)) == len(content(other)) == 19
        assert run_in_child(lambda: None) == 0
        other.delete(ids[1:2])  # the first use is a change
        assert run_in_child(lambda: None) == 0
        assert file.empty_log()
        assert len(content(file)) == 18
        assert other.verify().sound
        assert run_in_child(lambda: None) == 0
    assert sorted(one.name for one in path.parent.iterdir()) == ["memory.db", "memory.db-lock"]


def test_a_memory_that_is_replaced_after_a_fork_is_noticed(path):
    other = path.with_name("other.db")
    create(other, 20, seed=1).close()
    with create(path, 20) as file:
        file.snapshot()
        assert run_in_child(lambda: None) == 0
        path.rename(path.with_name("old.db"))
        shutil.copy(other, path)
        with pytest.raises(OSError, match="was replaced or removed"):
            file.snapshot()
        assert not file.is_in_place
        path.unlink()


def test_another_memory_in_the_same_file_after_a_fork_is_read_anew(path):
    """A new file may have the number of a removed one, which is not open during a fork."""
    other = path.with_name("other.db")
    create(other, 20, seed=1).close()
    with create(path, 20) as file:
        file.snapshot()
        assert run_in_child(lambda: None) == 0
        path.write_bytes(other.read_bytes())
        assert set(content(file)) == set(raw(20, seed=1)[0].tolist())


def test_a_child_that_is_forked_inside_a_change_cannot_open_the_memory(path):
    """SQLite's connections are open in both then."""

    def use() -> None:
        with pytest.raises(ClosedMemoryError, match="`spawn`"):
            MemoryFile.open(path)

    with create(path, 20) as file:
        with file.change() as change:
            change.delete(np.array([0]))
            assert run_in_child(use) == 0
        assert len(content(file)) == 19
        assert file.verify().sound


FORKING = """
import os, sys, threading
from pathlib import Path
from munkey.memory.memory_file import MemoryFile
from tests.memory.inputs import content, create
folder = Path(sys.argv[1])
files = [create(folder / f"{number}.db", 5) for number in range(4)]
def fork_often():
    for _ in range(20):
        child = os.fork()
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert all(len(content(file)) == 5 for file in files)
        with MemoryFile.open(files[0].path) as another:  # is locked for the forks of others, too
            assert len(content(another)) == 5
threads = [threading.Thread(target=fork_often) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
"""


def test_threads_that_fork_at_the_same_time_do_not_block_each_other(path):
    command = [sys.executable, "-c", FORKING, str(path.parent)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "done\n"
    assert not done.stderr
