"""Whatever is damaged in a file of arrays, it is read or refused by name: no library's error comes through."""

import contextlib
import io
import zipfile

import numpy as np
import pytest

from munkey.data.arrays import Stored
from munkey.data.registry import DATASETS
from munkey.data.source import SPLITS, SourceError
from tests.data.inputs import loaded, settings


def test_an_array_is_read_in_blocks_of_whole_rows(monkeypatch):
    monkeypatch.setattr("munkey.data.arrays.BLOCK", 50)
    rows = np.arange(9 * 10, dtype=np.int16).reshape(9, 10)
    blocks = list(Stored("x", rows.shape, rows.dtype).blocks(io.BytesIO(rows.tobytes())))
    assert [len(block) for block in blocks] == [2, 2, 2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(blocks), rows)


@pytest.mark.parametrize(("change", "message"), [(-1, "x: ends too early for"), (1, "x: goes on after")])
def test_less_or_more_than_the_header_says_is_refused(change, message):
    with pytest.raises(SourceError, match=rf"{message} \(3, 4\) uint8"):
        list(Stored("x", (3, 4), np.dtype(np.uint8)).blocks(io.BytesIO(bytes(12 + change))))


def damaged(content: bytes, generator: np.random.Generator) -> bytes:
    """Some bytes changed, or the end cut off."""
    changed = bytearray(content)
    for place in generator.integers(0, min(len(content), 200), generator.integers(1, 6)):
        changed[place] = generator.integers(0, 256)
    return bytes(changed[: generator.integers(0, len(content))] if generator.random() < 0.2 else changed)


def arrays(kind: np.dtype) -> dict[str, np.ndarray]:
    images = {f"{split}_images": np.zeros((6, 5, 4), kind) for split in SPLITS}
    return images | {f"{split}_labels": np.arange(6) % 2 for split in SPLITS}


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_archive_is_read_or_refused(tmp_path, seed, save):
    generator = np.random.default_rng(seed)
    save(tmp_path / "x.npz", **arrays(np.uint8))
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = generator.choice(sorted(members))
    with zipfile.ZipFile(tmp_path / "y.npz", "w") as archive:  # whole, with a damaged array
        for each, content in members.items():
            archive.writestr(each, damaged(content, generator) if each == name else content)
    (tmp_path / "x.npz").write_bytes(damaged((tmp_path / "x.npz").read_bytes(), generator))
    for path in (tmp_path / "x.npz", tmp_path / "y.npz"):
        with contextlib.suppress(SourceError):
            loaded(DATASETS["npz"].load(settings(path)), tmp_path / "out")
