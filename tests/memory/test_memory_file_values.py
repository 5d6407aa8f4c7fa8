"""A memory in a file, by values: the chain, requests, copies, blocked contents, and input that is refused."""

import hashlib
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from munkey.memory.memory_file import MemoryFile
from tests.memory.inputs import content, create, files_of, raw, units_of

IDS, KEYS, TOKENS = raw(12)
CONTENTS = np.arange(12, dtype=np.uint8)[:, None].repeat(16, axis=1)
CONTENTS[[4, 9]] = CONTENTS[1]  # three copies
CONTENTS[7] = [*CONTENTS[1][:15], 99]  # alike in its first bytes


def packed(number: int) -> bytes:
    return number.to_bytes(8, "little")


def test_the_head_equals_hashes_computed_by_hand(path):
    with create(path) as file:
        name = file.snapshot().state.store
        memory = file.snapshot().memory
        with file._database.read() as connection:
            salts = dict(connection.execute("SELECT id, salt FROM rows").fetchall())
        receipt = file.delete(IDS[[5, 3]], request="Nº 7")
        assert file.head == receipt.after
    at = round(receipt.when.timestamp() * 1e6)
    head = hashlib.sha256(name).digest()
    assert receipt.store == name.hex()
    assert receipt.before == head.hex()
    assert receipt.sequences == range(1, 3)
    # First and last number, and time; nothing was blocked.
    parts = [packed(1), packed(2), packed(at), hashlib.sha256(b"").digest(), "Nº 7".encode()]
    mark = hashlib.sha256(b"".join(parts)).digest()
    files = files_of(IDS)
    units = units_of(IDS)
    for sequence, row in enumerate(sorted([3, 5], key=lambda row: IDS[row]), start=1):
        [place] = memory.find_rows(IDS[[row]])
        unit = f'"{units[row]}"' if units[row] else "null"
        parts = [name, salts[IDS[row]], packed(int(IDS[row])), packed(row)]
        parts += [hashlib.sha256(KEYS[row]).digest()[:16], memory.columns.added[place].tobytes()]
        parts += [KEYS[row].tobytes(), TOKENS[row].tobytes(), f'["{files[row]}", {unit}]'.encode()]
        entry = hashlib.sha256(hashlib.sha256(b"".join(parts)).digest()).digest()
        parts = [head, packed(sequence), packed(at), entry, mark if sequence == 1 else b""]
        head = hashlib.sha256(b"".join(parts)).digest()
    assert receipt.after == head.hex()


def test_a_request_is_carried_out_once_and_recorded_even_without_rows(path):
    with create(path) as file, MemoryFile.open(path) as other:
        first = file.delete(IDS[:2], request="R-1")
        again = other.delete(IDS[:2], request=" R-1")
        assert first.request == "R-1"
        assert first.repeated is False
        assert again == replace(first, repeated=True) == file.find_receipt("R-1 ")
        assert other.find_receipt("R-2") is None
        with pytest.raises(ValueError, match=r"R-1.*still holds 2 ids"):
            other.delete(IDS[:4], request="R-1")
        nothing = other.delete([], request="R-2")
        file.delete([])  # neither a request nor rows: nothing to record
        second = file.delete([IDS[4], IDS[4]])
        file.purge()
        assert other.log() == [first, nothing, second]
        assert nothing.before == nothing.after == first.after == second.before
        assert len(nothing.sequences) == 0
        assert second.sequences == range(3, 4)
        assert file.verify(first.after).sound


@pytest.mark.parametrize("request_number", ["", " ", 7, "\udcff", b"R"])
def test_an_invalid_request_number_is_refused_and_nothing_is_deleted(request_number, path):
    with create(path) as file:
        with pytest.raises(ValueError, match="a request must be"):
            file.delete(IDS[:1], request=request_number)
        assert len(content(file)) == 12


def test_a_blocked_content_does_not_come_back_and_is_not_in_the_file(path):
    with MemoryFile.create(path, IDS, KEYS, TOKENS, contents=CONTENTS) as file:
        memory = file.snapshot().memory
        [row] = memory.find_rows(IDS[[1]])
        assert set(memory.ids[memory.find_copies(np.array([row]))]) == set(IDS[[4, 9]])
        file.delete(IDS[:1])
        file.delete(IDS[1:3], block_return=True)
        file.delete(IDS[[4, 9]])
        file.purge()
        assert file.are_blocked(CONTENTS).tolist() == [row in {1, 2, 4, 9} for row in range(12)]
        with pytest.raises(ValueError, match=r"blocked since then: \[6\]"):
            file.add([5, 6], KEYS[:2], TOKENS[:2], contents=CONTENTS[[0, 2]])
        file.add([5, 6], KEYS[:2], TOKENS[:2], contents=CONTENTS[[0, 2]], allow_blocked=True)
        file.delete([6], block_return=True)  # is blocked already
        assert file.blocked_count == 2
        assert file.verify().sound
    assert CONTENTS[1].tobytes() not in path.read_bytes()


def test_without_contents_equal_keys_are_copies(path):
    keys = KEYS.copy()
    keys[3] = keys[8]
    with MemoryFile.create(path, range(12), keys, TOKENS) as file:
        memory = file.snapshot().memory
        assert memory.find_copies(np.array([8])).tolist() == [3]
        assert memory.find_copies(np.array([0])).size == 0


ID_FAULTS = (
    ([1.5], "whole numbers"), ([True], "whole numbers"), (["1"], "whole numbers"), ({"1"}, "whole"),
    ("12", "list of whole"), (b"12", "list of whole"), ([[1]], "list of whole"), (3, "list of whole"),
    ([None], "whole numbers"), ([-1], "between 0"), ([1 << 63], "between 0"),
    ([(1 << 63) - 1], "between 0 and"),
    ([1 << 64], r"between 0 and 2\^63 - 2, but these range from 18446744073709551616"),
    ([3, 1 << 70], "from 3 to 1180591620717411303424"), ([-(1 << 70)], "between 0 and"),
)  # fmt: skip
ROW_FAULTS = (
    ({"ids": [1, 1], "keys": KEYS[:2], "tokens": TOKENS[:2]}, "more than once"),
    ({"keys": KEYS[:2]}, "keys must be"), ({"keys": KEYS[:1, :5]}, "takes keys of 9"),
    ({"keys": KEYS[:1].astype(int)}, "keys must be"), ({"tokens": TOKENS[:1, :0]}, "tokens must be"),
    ({"keys": np.full((1, 9), np.nan)}, "row 0 is not"), ({"tokens": np.full((1, 8), 1e300)}, "finite"),
    ({"ids": IDS[:1]}, "already"), ({"labels": [0, 1]}, "2 labels for 1 ids"),
    ({"files": ["a", "b"]}, "source file"), ({"files": [7]}, "source file"),
    ({"files": [b"b"]}, "source file"), ({"units": ["\udcff"]}, "unit"), ({"units": "a"}, "units"),
    ({"contents": CONTENTS[:1, :8]}, "contents"), ({"contents": CONTENTS[:1].astype(int)}, "contents"),
    ({"contents": CONTENTS[0]}, "contents"), ({"contents": CONTENTS[:3]}, "contents"),
)  # fmt: skip


def test_invalid_ids_and_rows_are_refused_and_nothing_changes(path):
    with create(path) as file:
        before = content(file)
        for ids, message in ID_FAULTS:
            for use in (file.delete, lambda ids: file.add(ids, KEYS[:1], TOKENS[:1])):
                with pytest.raises(ValueError, match=message):
                    use(ids)
        for changes, message in ROW_FAULTS:
            rows = {"ids": [1], "keys": KEYS[:1], "tokens": TOKENS[:1]} | changes
            with pytest.raises(ValueError, match=message):
                file.add(**rows)
        assert content(file) == before
        assert file.verify().sound


def test_sets_and_generators_of_ids_are_accepted(path):
    one, two, three, *_ = IDS.tolist()
    with create(path) as file:
        for ids in ({one}, (row_id for row_id in [two]), {three: None}.keys()):
            assert len(file.delete(ids).sequences) == 1
        assert len(content(file)) == 9


def test_a_position_changes_with_every_change_of_rows_and_not_with_a_purge(path):
    with create(path) as file, MemoryFile.open(path) as other:
        positions = [other.snapshot().position]
        for change in (
            lambda: file.add([100, 101], KEYS[:2], TOKENS[:2]),
            lambda: file.delete([100, 101]),
            lambda: file.add([102], KEYS[:1], TOKENS[:1]),
        ):
            change()
            positions.append(other.snapshot().position)
            assert file.snapshot().position == positions[-1]
        file.purge()
        assert other.snapshot().position == positions[-1]
        assert len(set(positions)) == 4


def test_the_arrays_of_a_snapshot_are_read_only(path):
    with create(path) as file:
        memory = file.snapshot().memory
        for array in (*memory.columns, memory.live):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = array[1]


def test_blocks_that_hold_off_changes_can_be_nested(path):
    with create(path) as file, MemoryFile.open(path, wait=0.02) as other:
        with file.hold_off_changes():
            file.delete(IDS[:1])
            file.purge()
            with pytest.raises(OSError, match="kept busy by another process"):
                other.delete(IDS[1:2])
        other.delete(IDS[1:2])
        assert len(content(file)) == 10


# The disk and the system


def test_a_commit_waits_for_the_disk(path):
    with create(path) as file:
        file.delete(IDS[:1])
        writer = file._database._writer
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)
        assert writer.execute("PRAGMA secure_delete").fetchone() == (1,)


def test_a_new_memory_is_on_the_disk_before_it_gets_its_name(path, monkeypatch):
    steps = []
    fsync = os.fsync
    link = os.link

    def log_fsync(descriptor: int) -> None:
        steps.append(Path(f"/proc/self/fd/{descriptor}").readlink().name.partition(".db")[0])
        fsync(descriptor)

    def log_link(*names) -> None:
        steps.append("link")
        link(*names)

    monkeypatch.setattr(os, "fsync", log_fsync)
    monkeypatch.setattr(os, "link", log_link)
    create(path).close()
    assert steps == [".memory", "link", path.parent.name]


def test_a_memory_that_is_closed_keeps_no_file_open(path):
    before = sorted(Path("/proc/self/fd").iterdir())
    with create(path) as file:
        file.delete(IDS[:1])
        file.verify()
    assert sorted(Path("/proc/self/fd").iterdir()) == before


DELETE_AS_ANOTHER_USER = """
import os, sys
from munkey.memory.memory_file import MemoryFile
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    MemoryFile.open(sys.argv[1]).delete([1])
except OSError as error:
    print(error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_memory_of_another_user_is_not_called_damaged(path):
    create(path).close()
    for parent in (path.parent, path.parent.parent):
        parent.chmod(0o755)
    command = [sys.executable, "-c", DELETE_AS_ANOTHER_USER, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert str(path) in done.stdout
    assert "damaged" not in done.stdout


def test_a_memory_beyond_the_limit_of_open_files_is_not_called_damaged(path):
    create(path).close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match=str(path)) as refused:
            MemoryFile.open(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "damaged" not in str(refused.value)
