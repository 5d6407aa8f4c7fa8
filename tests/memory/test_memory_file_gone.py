"""After a purge, nothing of a deleted row is in any file."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from munkey.memory import database
from munkey.memory.chain import compute_log_entry
from munkey.memory.memory_file import MemoryFile
from tests.memory.inputs import create, open_reader, raw

WIDTH = 300  # of keys: 1,200 bytes, so that pages of the table are split and joined
TRACE = 12  # bytes at the ends of a value by which it is recognized


def traces_of(path: Path, ids: list[int]) -> dict[str, list[bytes]]:
    """The bytes by which rows are recognized, as the database holds them now."""
    connection = sqlite3.connect(path)
    query = (
        "SELECT key, token, salt, content, commitment, unit, file FROM rows JOIN vectors"
        " USING (number) WHERE id = ?"
    )
    names = ("key", "token", "salt", "content", "commitment", "unit", "file")
    traces: dict[str, list[bytes]] = {name: [] for name in ("id", *names)}
    for row_id in ids:
        [record] = connection.execute(query, (row_id,)).fetchall()
        traces["id"].append(row_id.to_bytes(8, "big"))  # SQLite's order of bytes
        for name, value in zip(names, record, strict=True):
            stored = value.encode() if isinstance(value, str) else value
            traces[name] += [stored[:TRACE], stored[-TRACE:]]
    connection.close()
    return traces


def count_traces(folder: Path, traces: dict[str, list[bytes]]) -> dict[str, int]:
    """How many traces of each kind are in any file of the folder."""
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    counts = {}
    for name, values in traces.items():
        counts[name] = sum(any(value in file for file in files) for value in values)
    return counts


def draw(random: np.random.Generator, count: int) -> dict[str, object]:
    """Rows with ids that no bytes resemble, and with texts of many lengths."""
    ids = (1 << 61) + random.integers(1 << 56, 1 << 60, count)
    keys = random.normal(size=(count, WIDTH)).astype(np.float32)
    tokens = random.normal(size=(count, 20)).astype(np.float32)

    def text() -> str:
        return bytes(random.integers(97, 123, random.integers(12, 600)).tolist()).decode()

    return {
        "ids": ids,
        "keys": keys,
        "tokens": tokens,
        "files": [text() for _ in range(count)],
        "units": [text() for _ in range(count)],
    }


def use_and_purge(folder: Path, seed: int, rounds: int) -> tuple[int, dict[str, int]]:
    """Add and delete at random, then purge. Returns the number of deleted rows, and the traces left."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    path = folder / "memory.db"
    rows = draw(random, 150)
    deleted: dict[str, list[bytes]] = {}
    count = 0
    with MemoryFile.create(path, **rows) as file:
        for number in range(1, rounds + 1):
            file.add(**draw(random, int(random.integers(1, 60))))
            memory = file.snapshot().memory
            live_ids = memory.ids[memory.live]
            most = min(len(live_ids) - 1, int(random.integers(1, 60)))
            gone = random.choice(live_ids, most, replace=False)
            traces = traces_of(path, gone.tolist())
            if number == 1:  # the search finds what is there
                assert all(count_traces(folder, traces).values())
            for name, values in traces.items():
                deleted.setdefault(name, []).extend(values)
            file.delete(gone)
            count += len(gone)
        file.purge()
        assert Path(f"{path}-wal").stat().st_size == 0
        remaining = count_traces(folder, deleted)
        assert file.verify().sound
    assert count_traces(folder, deleted) == remaining
    return count, remaining


def test_nothing_is_left_of_deleted_rows_after_a_purge(folder):
    count, remaining = use_and_purge(folder, seed=0, rounds=15)
    assert count > 200
    assert not any(remaining.values())


@pytest.mark.soak
def test_nothing_is_left_of_thousands_of_rows_after_many_purges(folder):
    total = 0
    for seed in range(100, 115):
        count, remaining = use_and_purge(folder / str(seed), seed, rounds=40)
        total += count
        assert not any(remaining.values()), (seed, remaining)
    print(f"{total} deleted rows, nothing left")


@pytest.mark.soak
def test_without_vacuum_the_search_finds_traces(folder, monkeypatch):
    monkeypatch.setattr(database.Database, "vacuum", lambda _: None)
    remaining_in_all = 0
    for seed in range(100, 115):
        _, remaining = use_and_purge(folder / str(seed), seed, rounds=40)
        remaining_in_all += sum(remaining.values())
    print(f"{remaining_in_all} traces left without VACUUM")
    assert remaining_in_all


def read_commitments(path: Path, ids: list[int]) -> list[bytes]:
    connection = sqlite3.connect(path)
    query = "SELECT commitment FROM rows WHERE id = ?"
    commitments = [connection.execute(query, (row_id,)).fetchone()[0] for row_id in ids]
    connection.close()
    return commitments


def test_a_deletion_empties_the_log_and_leaves_only_hashes_of_commitments(path):
    with create(path, 20) as file:
        ids = raw(20)[0][:3].tolist()
        entries = [compute_log_entry(commitment) for commitment in read_commitments(path, ids)]
        file.delete(ids)
        assert Path(f"{path}-wal").stat().st_size == 0
        assert count_traces(path.parent, {"log": entries}) == {"log": 3}


def test_a_reader_in_the_way_keeps_the_log_and_it_is_emptied_later(path):
    with create(path, 20) as file, open_reader(path) as reader:
        ids = raw(20)[0]
        file.delete(ids[:1])  # acknowledged all the same
        assert Path(f"{path}-wal").stat().st_size
        assert not file.empty_log()
        logged = Path(f"{path}-wal").stat().st_size
        with pytest.raises(BlockingIOError, match="purge again"):
            file.purge(wait=0.05)
        assert Path(f"{path}-wal").stat().st_size == logged  # no copy of the file was added
        assert file.is_purge_due
        reader.execute("COMMIT")
        assert file.empty_log()
        assert not Path(f"{path}-wal").stat().st_size
        file.purge()
        assert not file.is_purge_due
        assert file.verify().sound


def test_a_purge_without_space_on_the_disk_changes_nothing(path, monkeypatch):
    with create(path, 20) as file:
        file.delete(raw(20)[0][:1])
        monkeypatch.setattr(database.shutil, "disk_usage", lambda _: type("", (), {"free": 10}))
        with pytest.raises(OSError, match="a purge needs"):
            file.purge()
        assert file.is_purge_due
