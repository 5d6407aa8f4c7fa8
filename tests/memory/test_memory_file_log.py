"""The write-ahead log is cut, lost, or damaged. SQLite's own durability is taken as given."""

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from munkey.memory.memory_file import MemoryFile
from tests.memory.inputs import add, content, create, open_reader, raw

PAGE = 4096
FRAME = PAGE + 24  # a frame of the log: a header and a page
HEADER = 32


class History(NamedTuple):
    """A memory and its log as a killed writer leaves them, and content and head after each change."""

    memory: bytes
    log: bytes
    contents: list[dict[int, bytes]]
    heads: list[str]

    @property
    def frame_count(self) -> int:
        return (len(self.log) - HEADER) // FRAME

    def write(self, folder: Path, log: bytes | None) -> Path:
        """Write the memory with another log, or with none, into a new folder."""
        folder.mkdir()
        (folder / "memory.db").write_bytes(self.memory)
        if log is not None:
            (folder / "memory.db-wal").write_bytes(log)
        return folder / "memory.db"


@pytest.fixture
def history(path) -> History:
    with create(path, 40) as file, open_reader(path):
        ids = raw(40)[0]
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
        return History(path.read_bytes(), Path(f"{path}-wal").read_bytes(), contents, heads)


def test_a_log_that_is_cut_leaves_the_memory_as_it_was_after_a_change(history, tmp_path):
    states = []
    for frame in range(history.frame_count + 1):
        for extra in (0, 17, 24, FRAME - 1):
            size = HEADER + frame * FRAME + extra
            folder = tmp_path / f"{frame}-{extra}"
            with MemoryFile.open(history.write(folder, history.log[:size])) as file:
                state = history.contents.index(content(file))
                assert file.head == history.heads[state]
                assert file.verify().sound
            states.append(state)
            shutil.rmtree(folder)
    assert states == sorted(states)
    assert set(states) == set(range(len(history.contents)))


def test_a_log_that_is_damaged_anywhere_leaves_the_memory_as_it_was_after_a_change(
    history, tmp_path
):
    random = np.random.default_rng(0)
    states = set()
    for frame in range(history.frame_count):
        damaged = bytearray(history.log)
        at = HEADER + frame * FRAME + int(random.integers(FRAME))
        damaged[at] ^= 1 << int(random.integers(8))
        folder = tmp_path / str(frame)
        with MemoryFile.open(history.write(folder, bytes(damaged))) as file:
            states.add(history.contents.index(content(file)))
            assert file.verify().sound
        shutil.rmtree(folder)
    assert len(states) >= 4


def test_a_log_that_is_lost_brings_rows_back_and_a_published_head_names_it(history, tmp_path):
    with MemoryFile.open(history.write(tmp_path / "lost", None)) as file:
        assert content(file) == history.contents[0]
        assert file.verify().sound
        report = file.verify(published=history.heads[-1])
        assert not report.sound
        assert "older copy" in str(report)
    with MemoryFile.open(history.write(tmp_path / "whole", history.log)) as file:
        assert content(file) == history.contents[-1]
        assert file.verify(published=history.heads[2]).sound
        assert not (tmp_path / "whole" / "memory.db-wal").stat().st_size  # emptied on opening


def test_a_log_of_another_memory_is_refused_and_stays(history, tmp_path):
    other = tmp_path / "other.db"
    with create(other, 40, seed=3) as file, open_reader(other):
        file.delete(raw(40, 3)[0][:2])
        log = Path(f"{other}-wal").read_bytes()
    # SQLite accepts any undamaged log.
    path = history.write(tmp_path / "mixed", log)
    with pytest.raises(ValueError, match="does not match its commitment"):
        MemoryFile.open(path)
    assert path.read_bytes() == history.memory
    assert Path(f"{path}-wal").read_bytes() == log
