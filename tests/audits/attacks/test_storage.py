"""Storage: deleted rows are found wherever they lie, and nothing is said where kept rows are not found."""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from munkey.audits.attacks import storage as module
from munkey.audits.attacks.storage import extract_traces, search_file, storage
from munkey.audits.evidence import ShippedFiles
from munkey.audits.registry import NoFinding

ROWS = np.random.default_rng(0).normal(size=(40, 12)).astype(np.float32)
NONE = np.zeros(0, int)


@pytest.fixture
def shipped(tmp_path):
    """A memory without rows 0 to 9, and a file beside it."""
    save_file({"keys": ROWS[10:], "ids": np.arange(10, 40)}, tmp_path / "memory.safetensors")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "notes.txt").write_text("nothing")
    (tmp_path / "empty").touch()
    return ShippedFiles((tmp_path,), ROWS[:10], ROWS[10:], np.arange(10), np.arange(10, 40))


def test_a_memory_without_the_deleted_rows_is_clean(shipped):
    finding = storage(shipped)
    assert (finding.rows, finding.of, finding.ids, finding.places) == (0, 10, (), ())


@pytest.mark.parametrize("offset", range(5))
def test_a_deleted_row_is_found_at_any_offset_and_its_file_named(shipped, offset, tmp_path):
    leak = tmp_path / "deep" / "cache.bin"
    leak.write_bytes(b"x" * offset + ROWS[3].tobytes() + ROWS[7].tobytes() + b"tail")
    finding = storage(shipped)
    assert (finding.rows, finding.places) == (2, (str(leak),))


def bfloat16(rows: np.ndarray) -> np.ndarray:
    return torch.from_numpy(rows.copy()).bfloat16().view(torch.int16).numpy()


CUT = ROWS.view("<u4") >> 16  # bfloat16, not rounded
FORMS = {
    "<f2": ROWS.astype("<f2"),
    "<f4": ROWS,
    "<f8": ROWS.astype("<f8"),
    "bf": bfloat16(ROWS),
    "cut": CUT.astype("<u2"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("offset", [0, 7])
def test_a_deleted_row_is_found_in_every_precision_by_row_and_by_column(
    shipped, form, offset, tmp_path
):
    for rows, matrix in ((2, form[[3, 7]]), (10, form[:10].T), (40, form.T)):
        (tmp_path / "leak").write_bytes(b"x" * offset + matrix.tobytes() + b"tail")
        assert storage(shipped).rows == min(rows, 10)


def zipped(content: bytes) -> bytes:
    with zipfile.ZipFile(packed := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside/leak", content)
    return packed.getvalue()


PACKED = [
    gzip.compress,
    bz2.compress,
    lzma.compress,
    zipped,
    partial(zlib.compress, level=1),
    partial(zlib.compress, level=2),
    partial(zlib.compress, level=6),
    partial(zlib.compress, level=9),
]


@pytest.mark.parametrize("pack", PACKED)
def test_a_deleted_row_is_found_in_a_compressed_file(shipped, pack, tmp_path):
    (tmp_path / "deep" / "leak").write_bytes(pack(ROWS[3].tobytes()))
    assert storage(shipped).rows == 1
    (tmp_path / "deep" / "leak").write_bytes(
        gzip.compress(pack(b"x" * 99 + FORMS["bf"][3:8].tobytes()))
    )
    finding = storage(shipped)
    assert (finding.rows, finding.places) == (5, (str(tmp_path / "deep" / "leak"),))


def test_rows_are_found_in_compressed_arrays_and_a_packed_memory_is_searched(shipped, tmp_path):
    np.savez_compressed(tmp_path / "memory.safetensors", keys=ROWS[10:].astype(np.float16))
    np.savez_compressed(tmp_path / "a", of=ROWS[10:20])
    assert storage(shipped).rows == 0
    np.savez_compressed(tmp_path / "b", of=np.asfortranarray(ROWS[:10]))
    assert storage(shipped).rows == 10


def test_a_damaged_archive_is_named_and_a_file_that_only_looks_packed_is_searched(
    shipped, tmp_path
):
    (tmp_path / "leak").write_bytes(b"x^2 is no zlib" + ROWS[3].tobytes())
    assert storage(shipped).rows == 1
    (tmp_path / "leak").write_bytes(gzip.compress(ROWS[3].tobytes())[:-9])
    refused = storage(shipped)
    assert isinstance(refused, NoFinding)
    assert f"{tmp_path / 'leak'}: cannot be read" in refused.why


def test_rows_that_are_equal_only_in_half_precision_are_distinguished(shipped, tmp_path):
    remaining = np.concatenate([ROWS[10:], ROWS[:9] * np.float32(1 + 2**-20)])
    save_file({"keys": remaining}, tmp_path / "memory.safetensors")
    (tmp_path / "half").write_bytes(
        remaining.astype("<f2").tobytes() + bfloat16(remaining).tobytes()
    )
    near = replace(shipped, remaining=remaining)
    assert (storage(near).rows, storage(near).of) == (0, 10)
    (tmp_path / "leak").write_bytes(ROWS[:2].tobytes())
    assert storage(near).rows == 2


def test_the_first_eight_numbers_are_enough_and_seven_are_not(shipped, tmp_path):
    leak = tmp_path / "leak"
    leak.write_bytes(ROWS[3, :8].tobytes())
    assert storage(shipped).rows == 1
    leak.write_bytes(ROWS[3, :7].tobytes() + b"....")
    assert storage(shipped).rows == 0


@pytest.mark.parametrize("start", range(60, 101, 5))
def test_a_row_across_chunks_is_found(start, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 50)
    trace = {extract_traces(ROWS[3])[0]}
    for matrix, columns in ((ROWS[3], ()), (ROWS[:4].T, (2, 4))):
        (tmp_path / "leak").write_bytes(b"\0" * start + matrix.tobytes() + b"\0" * 99)
        assert search_file(tmp_path / "leak", trace, columns) == trace
    assert not search_file(tmp_path / "leak", trace, (2, 3))


def test_a_deleted_row_that_equals_a_kept_one_is_left_out(shipped):
    finding = storage(replace(shipped, deleted=np.concatenate([ROWS[:9], ROWS[20:21]])))
    assert (finding.rows, finding.of) == (0, 9)


def test_rows_too_short_to_be_recognized_are_refused(shipped):
    refused = storage(replace(shipped, deleted=ROWS[:10, :4], remaining=ROWS[10:, :4]))
    assert isinstance(refused, NoFinding)
    assert "4 numbers" in refused.why


def test_ids_that_the_memory_still_lists_are_named(shipped):
    assert storage(replace(shipped, listed_ids=np.array([3, 5, 20]))).ids == (3, 5)


def test_single_files_are_searched(shipped, tmp_path):
    (tmp_path / "leak").write_bytes(ROWS[3].tobytes())
    memory = tmp_path / "memory.safetensors"
    assert storage(replace(shipped, files=(memory,))).rows == 0
    assert storage(replace(shipped, files=(memory, tmp_path / "leak"))).rows == 1


def test_no_finding_is_given_if_remaining_rows_are_not_found(shipped, tmp_path):
    save_file({"keys": 2 * ROWS[10:]}, tmp_path / "memory.safetensors")
    refused = storage(shipped)
    assert isinstance(refused, NoFinding)
    assert "30 of 30" in refused.why
    assert isinstance(storage(replace(shipped, remaining=ROWS[:0])), NoFinding)


def test_missing_files_are_named(shipped, tmp_path):
    with pytest.raises(FileNotFoundError, match="away"):
        storage(replace(shipped, files=(tmp_path / "away",)))


def test_a_trace_has_enough_different_numbers():
    row = np.array([0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5], dtype=np.float32)
    part = row[5:]  # 1, 1, 1, 1, 2, 3, 4, 5: five differ
    assert extract_traces(row)[:3] == [
        part.tobytes(),
        part.astype(float).tobytes(),
        part.astype(np.float16).tobytes(),
    ]
    row[-1] = 4
    # four: too few in half precision
    assert extract_traces(row) == [row[4:12].tobytes(), row[4:12].astype(float).tobytes()]
    for hopeless in (np.zeros(20), np.ones(20), np.arange(7.0)):
        with pytest.raises(ValueError, match="identify it"):
            extract_traces(hopeless)


def test_bfloat16_traces_are_rounded_to_even():
    ties = (np.arange(0x3F800000, 0x3F880000, 0x10000, "<u4") + 0x8000).view("<f4")
    assert bfloat16(ties).tobytes() in extract_traces(ties)
    assert bfloat16(-ties).tobytes() in extract_traces(-ties)


def test_a_sparse_row_needs_two_numbers_that_are_not_0():
    row = np.zeros(40, dtype=np.float32)
    row[[9, 20, 23]] = 0.5, 0.25, 0.75
    assert extract_traces(row)[0] == row[20:28].tobytes()
    with pytest.raises(ValueError, match="identify it"):
        extract_traces(np.where(row == 0.5, row, 0))


def test_a_file_shorter_than_a_trace_contains_none(tmp_path):
    for size in range(6):
        (tmp_path / "short").write_bytes(ROWS[0].tobytes()[:size])
        assert search_file(tmp_path / "short", {*extract_traces(ROWS[0])}) == set()
