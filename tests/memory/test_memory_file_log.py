"""The write-ahead log is cut, lost, or damaged. SQLite's own durability is taken as given."""

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from munkey.memory.memory_file import MemoryFile
from tests.memory.inputs import add, content, create, raw

PAGE = 4096
FRAME = PAGE + 24  # a frame of the log: a header and a page
HEADER = 32


@pytest.fixture
def history(folder):
    """A memory and its log as a killed writer leaves them, and its content after each change."""
    folder.mkdir()
    path = folder / "memory.db"
    left = folder / "left"
    left.mkdir()
    with create(path, 40) as file:
        ids = raw(40)[0]
        reader = sqlite3.connect(path, isolation_level=None)  # keeps the log from being emptied
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM state").fetchall()
        contents = [content(file)]
        heads = [file.head]
        for change in (
            lambda: file.delete(ids[:1], request="1"),
            lambda: add(file, 3, 7),
            lambda: file.delete(ids[5:20]),
            lambda: file.delete(raw(3, 7)[0][:1], block_return=True),
        ):
            change()
            contents.append(content(file))
            heads.append(file.head)
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", left / f"memory.db{suffix}")
        reader.execute("COMMIT")
        reader.close()
    return left, contents, heads


def opened(left: Path, target: Path, log: bytes | None) -> Path:
    """Put the memory with another log at a place of its own."""
    target.mkdir()
    shutil.copyfile(left / "memory.db", target / "memory.db")
    if log is not None:
        (target / "memory.db-wal").write_bytes(log)
    return target / "memory.db"


def test_a_log_that_is_cut_leaves_the_memory_as_it_was_after_a_change(history, tmp_path):
    left, contents, heads = history
    log = (left / "memory.db-wal").read_bytes()
    frames = (len(log) - HEADER) // FRAME
    seen = []
    for frame in range(frames + 1):
        for extra in (0, 17, 24, FRAME - 1):
            size = min(HEADER + frame * FRAME + extra, len(log))
            target = tmp_path / f"{frame}-{extra}"
            with MemoryFile.open(opened(left, target, log[:size])) as file:
                at = contents.index(content(file))
                assert file.head == heads[at]
                assert file.verify().sound
            seen.append(at)
            shutil.rmtree(target)
    assert seen == sorted(seen) and set(seen) == set(range(len(contents)))


def test_a_log_that_is_damaged_anywhere_leaves_the_memory_as_it_was_after_a_change(
    history, tmp_path
):
    left, contents, _ = history
    log = (left / "memory.db-wal").read_bytes()
    random = np.random.default_rng(0)
    seen = set()
    for frame in range((len(log) - HEADER) // FRAME):
        damaged = bytearray(log)
        at = HEADER + frame * FRAME + int(random.integers(FRAME))
        damaged[at] ^= 1 << int(random.integers(8))
        target = tmp_path / str(frame)
        with MemoryFile.open(opened(left, target, bytes(damaged))) as file:
            seen.add(contents.index(content(file)))
            assert file.verify().sound
        shutil.rmtree(target)
    assert len(seen) >= 4


def test_a_log_that_is_lost_brings_rows_back_and_a_published_head_names_it(history, tmp_path):
    left, contents, heads = history
    with MemoryFile.open(opened(left, tmp_path / "lost", None)) as file:
        assert content(file) == contents[0]
        assert file.verify().sound
        report = file.verify(published=heads[-1])
        assert not report.sound and "older copy" in str(report)
    whole = (left / "memory.db-wal").read_bytes()
    with MemoryFile.open(opened(left, tmp_path / "whole", whole)) as file:
        assert content(file) == contents[-1] and file.verify(published=heads[2]).sound
        assert not (tmp_path / "whole" / "memory.db-wal").stat().st_size  # emptied on opening


def test_a_log_of_another_memory_is_refused_and_stays(history, tmp_path):
    left, _, _ = history
    other = tmp_path / "other"
    other.mkdir()
    with create(other / "memory.db", 40, seed=3) as file:
        reader = sqlite3.connect(other / "memory.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM state").fetchall()
        file.delete(raw(40, 3)[0][:2])
        log = (other / "memory.db-wal").read_bytes()
        reader.close()
    # SQLite accepts any undamaged log.
    path = opened(left, tmp_path / "mixed", log)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="does not match its commitment"):
        MemoryFile.open(path)
    assert path.read_bytes() == before and Path(f"{path}-wal").read_bytes() == log
