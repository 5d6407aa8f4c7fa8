"""A memory in a file: its rows, its log of deletions, and the files and changes that it refuses."""

import errno
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from munkey.memory.database import is_in_use
from munkey.memory.errors import (
    ClosedMemoryError,
    LockedMemoryError,
    UnknownIdsError,
    UnreadableMemoryError,
    translate_sqlite_error,
)
from munkey.memory.memory_file import (
    APPLICATION_ID,
    MAX_WIDTH,
    Classes,
    MemoryFile,
    check_rows,
    parse_classes,
)
from tests.conftest import full_disk, raise_full_disk
from tests.memory.inputs import add, change_database, content, create, raw


def test_a_memory_holds_its_rows_and_is_read_back(path):
    ids, keys, tokens = raw(30)
    order = np.argsort(ids)
    with create(path, 30) as file:
        memory = file.snapshot().memory
        assert np.array_equal(memory.ids, ids[order])
        assert np.array_equal(memory.keys, keys[order])
        assert np.array_equal(memory.tokens, tokens[order])
        assert memory.labels.tolist() == order.tolist()
        model = content(file)
    assert not Path(f"{path}-wal").exists() or not Path(f"{path}-wal").stat().st_size
    with MemoryFile.open(path) as file:
        assert content(file) == model
        assert file.snapshot().state.next_id == ids.max() + 1


def test_a_deletion_is_acknowledged_with_its_links_and_seen_by_all(path):
    ids = raw(30)[0]
    with create(path, 30) as file, MemoryFile.open(path) as other:
        earlier = other.snapshot()
        first = file.delete(ids[[3, 1]], request="a", block_return=True)
        second = other.delete([ids[7]])
        assert first.sequences == range(1, 3)
        assert second.sequences == range(3, 4)
        assert first.after == second.before
        assert file.head == other.head == second.after
        gone = ids[[1, 3, 7]]
        for memory_file in (file, other):
            assert (memory_file.snapshot().memory.find_rows(gone) < 0).all()
        assert (earlier.memory.find_rows(gone) >= 0).all()  # a snapshot does not change
        assert [receipt.request for receipt in file.log()] == ["a", None]
        again = other.delete(ids[[1, 3]], request="a")
        assert again.repeated
        assert again.sequences == first.sequences
        assert file.blocked_count == 2
        assert file.verify(published=first.before).sound
        assert other.verify(second.after).sound


def test_a_refused_change_is_made_in_no_part(path):
    ids = raw(10)[0]
    with create(path, 10) as file:
        before = content(file)
        with pytest.raises(UnknownIdsError) as caught:
            file.delete([5, ids[0], 7])
        assert caught.value.ids == [5, 7]
        file.delete(ids[:1], request="1")
        with pytest.raises(ValueError, match="'1' was carried out"):
            file.delete(ids[1:2], request="1")
        with pytest.raises(ValueError, match="already in the memory"):
            file.add(*(part[[0, 1]] for part in raw(10)))
        file.delete(ids[2:3], block_return=True)
        with pytest.raises(ValueError, match="blocked since then"):
            file.add(*(part[2:3] for part in raw(10)))
        assert set(before) - set(content(file)) == {ids[0], ids[2]}
        assert file.verify().sound
        file.add(*(part[2:3] for part in raw(10)), allow_blocked=True)
        assert file.verify().sound


def test_several_changes_of_one_block_are_made_together_or_not_at_all(path):
    ids, keys, tokens = raw(10)
    with create(path, 10) as file:
        before = content(file)
        position = file.snapshot().position

        def change_all(fail: bool) -> None:
            with file.change() as change:
                change.delete(change.snapshot.memory.find_rows(ids[:2]), request="x")
                next_id = change.snapshot.state.next_id
                change.add(check_rows([next_id], keys[:1], tokens[:1]))
                change.delete(change.snapshot.memory.find_rows(ids[4:5]))
                change.replace_classes(Classes(("a", "b", 3)).forget_empty(np.array([0, 2])))
                if fail:
                    raise RuntimeError("stop")

        with pytest.raises(RuntimeError, match="stop"):
            change_all(fail=True)
        assert content(file) == before
        assert file.snapshot().position == position
        assert not file.log()
        change_all(fail=False)
        with MemoryFile.open(path) as other:
            assert content(other) == content(file)
            assert len(content(file)) == 8
            assert other.snapshot().classes == (("a", None, 3), None)
            assert other.snapshot().classes.add(["b", 3, "b"], "<U").names == ("a", None, 3, "b")
            assert len(other.log()) == 2
            assert other.verify().sound


def test_a_snapshot_follows_changes_without_reading_all_rows(path):
    ids = raw(40)[0]
    with create(path, 40) as file, MemoryFile.open(path) as other:
        first = other.snapshot().memory
        file.delete(ids[:2])
        new_ids = ids.max() + np.arange(1, 4)  # above all others, so they need no copy
        file.add(new_ids, *raw(3, 5)[1:])
        file.delete(new_ids[:1])  # added and deleted between two snapshots
        second = other.snapshot().memory
        assert second._shared is first._shared
        assert content(other) == content(file)
        file.purge()
        assert other.snapshot().memory is second  # nothing has changed
        file.delete(ids[2:3])
        file.purge()  # the first purge keeps the numbers of the deletions before it
        assert other.snapshot().memory._shared is first._shared
        for number in (3, 4):
            file.delete(ids[number : number + 1])
            file.purge()
        assert content(other) == content(file)  # too old to be followed: read again
        assert other.snapshot().memory._shared is not first._shared


def test_row_numbers_are_not_used_again_even_after_a_purge(path):
    ids = raw(10)[0]
    with create(path, 10) as file:
        last = file.snapshot().state.last_number
        file.delete(ids)
        file.purge()
        with MemoryFile.open(path) as other:
            add(other, 2, 9)
            memory = other.snapshot().memory
            assert sorted(memory.columns.numbers[memory.live]) == [last + 1, last + 2]


def test_a_copy_has_the_name_and_the_chain_and_none_of_the_deleted(path):
    ids = raw(20)[0]
    with create(path, 20) as file:
        receipt = file.delete(ids[:5])
        file.copy(path.parent / "there" / "copy.db")
        with pytest.raises(FileExistsError):
            file.copy(path.parent / "there" / "copy.db")
        file.delete(ids[5:6])
        with MemoryFile.open(path.parent / "there" / "copy.db") as copy:
            assert copy.head == receipt.after
            assert len(content(copy)) == 15
            report = copy.verify(published=file.head)
            assert "older copy" in str(report)
            assert copy.verify(receipt.after).sound
    stored = (path.parent / "there" / "copy.db").read_bytes()
    assert not any(int(one).to_bytes(8, "big") in stored for one in ids[:5])


def test_nothing_is_left_of_a_memory_that_could_not_be_created(path):
    ids, keys, tokens = raw(3)
    with pytest.raises(ValueError, match="more than once"):
        MemoryFile.create(path, [1, 1, 2], keys, tokens)
    with pytest.raises(ValueError, match="finite"):
        MemoryFile.create(path, ids, keys * np.nan, tokens)
    assert not list(path.parent.iterdir())
    wide = np.ones((3, MAX_WIDTH + 1), np.float32)
    for arguments, faults in (
        ((ids, wide, tokens), {}),
        ((ids, keys, tokens), {"name": b"short"}),
        ((ids, keys, tokens), {"next_id": -1}),
    ):
        with pytest.raises(ValueError, match="a name must have 16 bytes"):
            MemoryFile.create(path, *arguments, **faults)
    with pytest.raises(TypeError, match="of type"):
        MemoryFile.create(path, ids, keys, tokens, classes=Classes(("a",), "<i8"))
    assert not list(path.parent.iterdir())
    path.write_text("mine")
    with pytest.raises(FileExistsError, match=r"memory\.db: exists; choose another"):
        MemoryFile.create(path, ids, keys, tokens)
    assert [one.name for one in path.parent.iterdir()] == ["memory.db"]
    assert path.read_text() == "mine"


def test_a_memory_that_cannot_be_opened_does_not_get_its_name(path, monkeypatch):
    monkeypatch.setattr(MemoryFile, "_check_format", raise_full_disk)
    with pytest.raises(OSError, match="No space"):
        create(path)
    assert not list(path.parent.iterdir())
    monkeypatch.undo()
    Path(f"{path}-lock").symlink_to("nowhere")
    with pytest.raises(FileExistsError, match="-lock: belongs to an earlier memory"):
        create(path)
    assert not path.exists()


# Files that are refused


def test_the_journal_of_another_database_is_not_applied(path):
    """SQLite would write its pages into the memory."""
    create(path, 300).close()
    before = path.read_bytes()
    with closing(sqlite3.connect(path.with_name("other.db"), isolation_level=None)) as other:
        other.execute("PRAGMA cache_size=2")
        other.execute("CREATE TABLE t (x)")
        blobs = [(os.urandom(900),) for _ in range(400)]
        other.executemany("INSERT INTO t VALUES (?)", blobs)
        other.execute("BEGIN")
        other.execute("UPDATE t SET x = zeroblob(900)")
        journal = path.with_name("other.db-journal").read_bytes()
        other.execute("ROLLBACK")
    foreign = path.with_name("memory.db-journal")
    foreign.write_bytes(journal)
    with pytest.raises(UnreadableMemoryError, match=r"memory\.db-journal lies beside it"):
        MemoryFile.open(path)
    with pytest.raises(UnreadableMemoryError, match=r"memory\.db-journal"):
        is_in_use(path)
    assert path.read_bytes() == before
    assert foreign.read_bytes() == journal
    foreign.unlink()
    with MemoryFile.open(path) as file:
        foreign.write_bytes(journal)
        with pytest.raises(UnreadableMemoryError, match=r"memory\.db-journal"):
            file.delete(raw(300)[0][:1])
    assert path.read_bytes() == before


@pytest.mark.parametrize("table", ["rows", "vectors"])
def test_a_memory_that_lacks_rows_is_neither_purged_nor_copied(path, table):
    create(path, 100).close()
    change_database(path, f"DELETE FROM {table} WHERE number = 3")  # not one that opening checks
    with MemoryFile.open(path) as file:
        for use in (file.purge, lambda: file.copy(path.with_name("copy.db"))):
            with pytest.raises(UnreadableMemoryError, match=f"99 {table} in place of 100"):
                use()
    assert not path.with_name("copy.db").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA application_id=1",
        "PRAGMA user_version=4",
        "CREATE TRIGGER t AFTER DELETE ON rows BEGIN INSERT INTO rows SELECT * FROM rows; END",
        "CREATE TABLE t (x)",
        "CREATE VIEW v AS SELECT * FROM rows",
        "DROP TABLE dropped",
        "DROP TABLE blocked",
        "ALTER TABLE rows ADD COLUMN x",
        "UPDATE state SET purged = 7",
        "UPDATE state SET purged = 0.5",
        "UPDATE state SET classes = '[[], null]X'",
        "UPDATE state SET classes = x'00'",
        "UPDATE state SET key_width = 1 << 40",
        "UPDATE state SET key_width = 'wide'",
        "UPDATE state SET row_count = 35",
        "DELETE FROM log WHERE sequence = 2",
        "DELETE FROM deletions",
        "UPDATE state SET store = 'text'",
        "DELETE FROM state",
        "INSERT INTO state SELECT * FROM state",
        "UPDATE rows SET label = 99",
        "UPDATE vectors SET key = zeroblob(36)",
        "UPDATE rows SET unit = x'ff'",
    ],
)
def test_a_file_that_was_changed_is_refused(path, statement):
    with create(path, 20) as file:
        file.delete(raw(20)[0][:1])
        file.delete(raw(20)[0][1:2])
    change_database(path, statement)
    with pytest.raises(UnreadableMemoryError, match=r"Nothing was changed; \w+"):
        MemoryFile.open(path)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DELETE FROM rows WHERE number = 9", "different numbers"),
        ("DELETE FROM vectors WHERE number = 9", "different numbers"),
        ("UPDATE vectors SET key = x'00' WHERE number = 9", "another width"),
        ("UPDATE rows SET id = 'x' WHERE number = 9", "invalid literal"),
        ("UPDATE rows SET file = x'ff' WHERE number = 9", "not a text"),
        ("UPDATE vectors SET token = zeroblob(4) WHERE number = 9", "another width"),
        ("UPDATE rows SET content = x'ff' WHERE number = 9", "another width"),
        ("UPDATE rows SET id = (SELECT id FROM rows WHERE number = 8) WHERE number = 9", "once"),
    ],
)
def test_rows_that_cannot_be_read_are_refused(path, statement, named, monkeypatch):
    create(path, 20).close()
    change_database(path, statement)
    # They are found before a sample of the rows is checked, too.
    monkeypatch.setattr("munkey.memory.memory_file.find_wrong_row", lambda *_: None)
    with MemoryFile.open(path) as file, pytest.raises(UnreadableMemoryError, match=named):
        file.snapshot()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE rows SET label = 7 WHERE number = 9", "1 row not matching their commitment: 9"),
        ("UPDATE log SET entry = zeroblob(32) WHERE sequence = 1", "broken at link 1"),
        ("UPDATE log SET at = at + 1 WHERE sequence = 1", "changed at deletion 1"),
        ("UPDATE deletions SET request = 'y' WHERE number = 1", "changed at deletion 1"),
        ("INSERT INTO blocked VALUES (x'00', 1)", "changed at deletion 1"),
        ("INSERT INTO dropped VALUES (3, 9)", "dropped row numbers"),
        ("UPDATE vectors SET number = 99 WHERE number = 9", "not matching"),
    ],
)
def test_verify_names_a_changed_row_or_deletion(path, statement, named, monkeypatch):
    with create(path, 20) as file:
        file.delete(raw(20)[0][:1], request="x")
        file.delete(raw(20)[0][1:2])
        assert file.verify().sound
    change_database(path, statement)
    monkeypatch.setattr("munkey.memory.memory_file.find_wrong_row", lambda *_: None)
    with MemoryFile.open(path) as file:
        report = file.verify()
        assert not report.sound
        assert named in str(report)
        assert bool(file.find_chain_faults()) == ("changed" in named or "broken" in named)


def test_a_deleted_row_that_was_put_back_unchanged_is_found(path):
    with create(path, 20) as file:
        row = file.snapshot().memory.columns.numbers[0]
        connection = sqlite3.connect(path)
        record = connection.execute("SELECT * FROM rows WHERE number = ?", (int(row),)).fetchone()
        vector = connection.execute(
            "SELECT * FROM vectors WHERE number = ?", (int(row),)
        ).fetchone()
        file.delete(file.snapshot().memory.ids[:1])
        connection.execute(f"INSERT INTO rows VALUES ({', '.join('?' * 9)})", record)
        connection.execute("INSERT INTO vectors VALUES (?, ?, ?)", vector)
        connection.commit()
        connection.close()
        assert "1 row deleted and back" in str(file.verify())


@pytest.mark.parametrize("column", ["first", "last", "at"])
@pytest.mark.parametrize("value", ["'abc'", "x'ff'", "9223372036854775807", "-1e300"])
def test_a_log_of_deletions_that_cannot_be_read_is_refused(path, column, value):
    ids = raw(20)[0]
    with create(path, 20) as file:
        file.delete(ids[:2], request="x")
        before = content(file)
    change_database(path, f"UPDATE deletions SET {column} = {value}")
    with MemoryFile.open(path) as file:
        for use in (
            file.log,
            lambda: file.find_receipt("x"),
            lambda: file.delete(ids[:2], request="x"),
            lambda: file.delete(ids[2:3], request="x"),
        ):
            with pytest.raises(UnreadableMemoryError, match="log of deletions"):
                use()
        assert content(file) == before


@pytest.mark.parametrize(
    ("content_of_file", "message"),
    [
        (b"", "not a memory"),
        (b"x" * 5000, "damaged"),
        (b"no database " * 1000, "damaged"),
        (b"SQLite format 3\0" + bytes(5000), "damaged"),
    ],
    ids=["empty", "bytes", "text", "header"],
)
def test_a_file_that_is_not_a_memory_is_refused_and_stays(content_of_file, message, path):
    path.write_bytes(content_of_file)
    with pytest.raises(UnreadableMemoryError, match=message):
        MemoryFile.open(path)
    assert path.read_bytes() == content_of_file


def test_the_start_of_a_memory_is_refused_and_stays(path):
    create(path, 5).close()
    whole = path.read_bytes()
    for size in range(130):
        path.write_bytes(whole[:size])
        with pytest.raises((UnreadableMemoryError, OSError)):
            MemoryFile.open(path)
        assert path.read_bytes() == whole[:size]


def test_a_missing_memory_is_refused_and_not_created(path):
    with pytest.raises(UnreadableMemoryError, match="not found"):
        MemoryFile.open(path)
    assert not list(path.parent.iterdir())


def test_a_memory_of_an_earlier_format_is_refused_with_the_way_out(path):
    change_database(
        path,
        f"PRAGMA application_id={APPLICATION_ID}",
        "PRAGMA user_version=4",
        "CREATE TABLE t (x)",
    )
    with pytest.raises(UnreadableMemoryError, match=r"of format 4.*export"):
        MemoryFile.open(path)


def test_a_memory_is_in_use_while_it_is_open_and_another_file_is_refused(path):
    with create(path, 5):
        assert is_in_use(path)
    assert not is_in_use(path)
    path.write_bytes(b"x" * 5000)
    with pytest.raises(UnreadableMemoryError, match=str(path)):
        is_in_use(path)
    path.unlink()
    with pytest.raises(OSError, match=str(path)):
        is_in_use(path)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-lock"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_links_pipes_and_folders_are_refused_at_once(path, suffix, kind):
    create(path, 5).close()
    target = Path(f"{path}{suffix}")
    other = path.parent / "other"
    if target.exists():
        target.rename(other)
    if kind == "link":
        other.touch()
        target.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(target)
    else:
        target.mkdir()
    with pytest.raises(UnreadableMemoryError, match="not a regular file"):
        MemoryFile.open(path)


def test_flipped_bits_are_refused_or_found_and_never_crash(path):
    with create(path, 400) as file:
        model = content(file)
    undamaged = path.read_bytes()
    random = np.random.default_rng(0)
    unnoticed = 0
    for _ in range(300):
        damaged = bytearray(undamaged)
        for _ in range(int(random.integers(1, 4))):
            damaged[int(random.integers(len(damaged)))] ^= 1 << int(random.integers(8))
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        path.write_bytes(damaged)
        try:
            with MemoryFile.open(path) as file:
                rows = content(file)
                if file.verify().sound:
                    unnoticed += 1  # in bytes that are not used
                    assert rows == model
        except (UnreadableMemoryError, OSError):
            continue
    assert 0 < unnoticed < 250


@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        (("a", None, "b"), "<U"),
        (("a",), None),
        ((), "<U"),
        ((None,), "<i8"),
        ((1, 2), ">i2"),
        ((1, 2.5), "<f4"),
        ((True, False), "|b1"),
    ],
)
def test_the_type_of_classes_is_read_back(names, dtype):
    classes = Classes(names, dtype)
    assert parse_classes(json.dumps(classes)) == classes


def test_a_closed_memory_refuses_to_be_used(path):
    file = create(path, 5)
    file.close()
    file.close()
    for use in (file.snapshot, file.log, file.purge, file.verify, lambda: file.delete([1])):
        with pytest.raises(ClosedMemoryError):
            use()


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_file_that_is_replaced_while_it_is_open_is_noticed(path, suffix):
    with create(path, 5) as file:
        file.snapshot()
        replaced = Path(f"{path}{suffix}")
        content_of_file = replaced.read_bytes()
        replaced.unlink()
        replaced.write_bytes(content_of_file)
        assert not file.is_in_place
        for use in (file.snapshot, lambda: file.delete(raw(5)[0][:1])):
            with pytest.raises(OSError, match="was replaced or removed"):
                use()


def test_a_file_that_is_replaced_after_a_fork_is_noticed(tmp_path):
    """A fork closes the connections, so that a new file could get the same inode, as on ext4."""
    path = tmp_path / "memory.db"
    file = create(path, 50)
    backup = path.with_name("backup")
    backup.write_bytes(path.read_bytes())
    ids = raw(50)[0]
    file.delete(ids[:2])
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    # Where inodes are given anew, one of these files has that of the memory.
    for _ in range(20):
        path.unlink()
        path.write_bytes(backup.read_bytes())
    for use in (file.snapshot, lambda: file.delete(ids[4:5])):
        with pytest.raises(OSError, match="was replaced or removed"):
            use()
    assert not file.is_in_place
    file.close()


def test_on_a_full_disk_a_change_is_complete_or_has_not_happened(path):
    ids = raw(60)[0]
    outcomes = set()
    with create(path, 60) as file:
        for number, size in enumerate(range(0, 300_000, 7_500)):
            before = content(file)
            gone = ids[number : number + 1]
            acknowledged = True
            with full_disk(size):
                try:
                    file.delete(gone)
                except OSError:
                    acknowledged = False
            after = content(file)
            without = dict(before)
            del without[gone[0]]
            assert after in (before, without)
            assert not acknowledged or after != before
            outcomes.add((acknowledged, after == before))
            with MemoryFile.open(path) as other:
                assert content(other) == after
                assert other.verify().sound
        assert {(False, True), (True, False)} <= outcomes
        with full_disk(40_000), pytest.raises(OSError, match=str(path)):
            file.purge()
        assert file.is_purge_due
        assert file.verify().sound
        file.purge()
        assert not file.is_purge_due
        assert file.verify().sound


def test_a_new_memory_on_a_full_disk_says_so_and_leaves_no_file(path):
    for size in range(0, 80_000, 4_000):
        with full_disk(size), pytest.raises(OSError, match=str(path)):
            create(path, 200)
        assert not list(path.parent.iterdir())


def test_a_copy_to_a_full_disk_says_so_and_leaves_no_file(path):
    copy = path.with_name("copy.db")
    with create(path, 200) as file:
        for size in range(33_000, 80_000, 4_000):  # SQLite's -shm has 32 KiB
            with full_disk(size), pytest.raises(OSError, match=str(copy)):
                file.copy(copy)
            assert not list(path.parent.glob("*copy*"))


def test_a_full_disk_is_not_called_damaged(path):
    create(path, 5).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA max_page_count=1")
    with pytest.raises(sqlite3.OperationalError) as full:
        connection.execute("CREATE TABLE another AS SELECT zeroblob(100000)")
    connection.close()
    error = translate_sqlite_error(path, full.value)
    assert isinstance(error, OSError)
    assert error.errno == errno.ENOSPC
    assert str(path) in str(error)


def test_a_memory_without_rows_takes_rows_and_loses_them(path):
    ids, keys, tokens = raw(3)
    with MemoryFile.create(path, ids[:0], keys[:0], tokens[:0], next_id=7) as file:
        assert len(file.snapshot().memory) == 0
        assert file.snapshot().state.next_id == 7
        assert not file.delete([]).sequences
        assert not file.log()
        file.delete([], request="nothing")
        assert [receipt.request for receipt in file.log()] == ["nothing"]
        file.add([9, 8, 7], keys, tokens)
        file.delete([7, 8, 9])
        file.purge()
        with MemoryFile.open(path) as other:
            assert len(other.snapshot().memory) == 0
            assert other.verify().sound
            assert other.snapshot().state.next_id == 10


def test_a_memory_whose_index_of_the_log_was_removed_is_opened_again(path):
    ids = raw(30)[0]
    with create(path, 30) as file:
        file.delete(ids[:1])
        Path(f"{path}-shm").unlink()
        with MemoryFile.open(path) as other:
            other.delete(ids[1:2])
        with pytest.raises(OSError, match="open it again"):
            file.snapshot()
    with MemoryFile.open(path) as file:
        assert (file.snapshot().memory.find_rows(ids[:2]) < 0).all()
        assert file.verify().sound


def test_changes_wait_for_the_lock_that_has_the_name(path):
    ids = raw(30)[0]
    lock = Path(f"{path}-lock")
    with create(path, 30) as file:
        file.delete(ids[:1])
        lock.unlink()
        file.delete(ids[1:2])
        with MemoryFile.open(path, wait=0.1) as other, file.change():
            assert lock.exists()
            with pytest.raises(LockedMemoryError):
                other.delete(ids[2:3])


def test_a_change_of_a_stale_snapshot_is_refused(path, monkeypatch):
    ids = raw(30)[0]
    with create(path, 30) as file:
        stale = file.snapshot()
        with MemoryFile.open(path) as other:
            other.delete(ids[:1])
        monkeypatch.setattr(file, "snapshot", lambda: stale)
        with pytest.raises(OSError, match="others have changed it unseen"):
            file.delete(ids[1:2])
    with MemoryFile.open(path) as file:
        assert file.verify().sound
        assert file.snapshot().memory.find_rows(ids[1:2]) >= 0


def test_a_memory_is_not_created_beside_the_log_of_another(path):
    Path(f"{path}-wal").write_bytes(b"of an earlier memory")
    with pytest.raises(FileExistsError, match="belongs to an earlier memory"):
        create(path, 30)
    assert not path.exists()


def test_a_log_that_was_removed_does_not_undo_what_others_deleted(path):
    ids = raw(30)[0]
    file = create(path, 30)
    file.delete(ids[:1])
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    with MemoryFile.open(path) as other:
        other.delete(ids[1:2])
    with pytest.raises(OSError, match="open it again"):
        file.purge()
    file.close()
    with MemoryFile.open(path) as file:
        assert (file.snapshot().memory.find_rows(ids[:2]) < 0).all()
        assert file.verify().sound
