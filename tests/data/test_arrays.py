"""Whatever is damaged in a file of arrays, it is read or refused by name: no library's error comes through."""

import contextlib
import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from munkey.data.arrays import ArrayHeader
from munkey.data.registry import DATASETS
from munkey.data.source import SPLITS, SourceError
from tests.data.inputs import loaded, settings


def test_an_array_is_read_in_blocks_of_whole_rows(monkeypatch):
    monkeypatch.setattr("munkey.data.arrays.BLOCK", 50)
    rows = np.arange(9 * 10, dtype=np.int16).reshape(9, 10)
    blocks = list(
        ArrayHeader("x", rows.shape, rows.dtype, rows.nbytes).read_blocks(
            io.BytesIO(rows.tobytes())
        )
    )
    assert [len(block) for block in blocks] == [2, 2, 2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(blocks), rows)


@pytest.mark.parametrize(
    ("change", "message"), [(-1, "x: ends too early for"), (1, "x: has more data than")]
)
def test_less_or_more_data_than_the_header_says_is_refused(change, message):
    with pytest.raises(SourceError, match=rf"{message} \(3, 4\) uint8"):
        list(
            ArrayHeader("x", (3, 4), np.dtype(np.uint8), 12).read_blocks(
                io.BytesIO(bytes(12 + change))
            )
        )


def damaged(content: bytes, generator: np.random.Generator) -> bytes:
    """Some bytes changed, or the end cut off."""
    changed = bytearray(content)
    for place in generator.integers(0, min(len(content), 200), generator.integers(1, 6)):
        changed[place] = generator.integers(0, 256)
    return bytes(
        changed[: generator.integers(0, len(content))] if generator.random() < 0.2 else changed
    )


def arrays(kind: np.dtype) -> dict[str, np.ndarray]:
    by_name = {}
    for split in SPLITS:
        by_name[f"{split}_images"] = np.zeros((6, 5, 4), kind)
        by_name[f"{split}_labels"] = np.arange(6) % 2
    return by_name


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


def bomb(path: Path, **shapes: tuple[int, ...]) -> None:
    """An archive of zeros, of which its headers say that it holds far more."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, shape in shapes.items():
            header = io.BytesIO()
            kind = {
                "descr": "<U1000" if name.endswith("units") else "|u1",
                "fortran_order": False,
                "shape": shape,
            }
            np.lib.format.write_array_header_1_0(header, kind)
            archive.writestr(f"{name}.npy", header.getvalue() + bytes(2**20))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("train_images", (30_000, 100, 100)),
        ("train_images", (2, 20_000, 20_000)),
        ("train_labels", (10**10,)),
    ],
)
def test_an_archive_that_unpacks_to_gigabytes_is_refused_by_its_headers(
    name, shape, tmp_path, monkeypatch
):
    parts = {}
    for split in SPLITS:
        parts[f"{split}_images"] = (6, 5, 4)
        parts[f"{split}_labels"] = (6,)
    bomb(tmp_path / "x.npz", **parts | {name: shape})
    monkeypatch.setattr(ArrayHeader, "read_blocks", lambda *_: pytest.fail("was unpacked"))
    with pytest.raises(SourceError, match=rf"{name}: \({shape[0]},.* unpacks to .* bytes from"):
        DATASETS["npz"].load(settings(tmp_path / "x.npz"))


def test_units_that_unpack_to_gigabytes_are_refused_by_their_header(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", **arrays(np.uint8))
    with zipfile.ZipFile(tmp_path / "x.npz", "a", zipfile.ZIP_DEFLATED) as archive:
        for split in SPLITS:
            header = io.BytesIO()
            kind = {"descr": "<U100000000", "fortran_order": False, "shape": (6,)}
            np.lib.format.write_array_header_1_0(header, kind)
            archive.writestr(f"{split}_units.npy", header.getvalue() + bytes(2**20))
    with pytest.raises(SourceError, match=r"train_units: .* 2,400,000,000 bytes"):
        DATASETS["npz"].load(settings(tmp_path / "x.npz"))


def test_a_gzipped_file_that_unpacks_to_gigabytes_is_refused_by_its_header(tmp_path):
    for part in ("train", "t10k"):
        shape = np.array([10**6, 100, 100], dtype=">u4").tobytes()
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(b"\0\0\x08\x03" + shape + bytes(2**20))
        )
        shape = np.array([10**6], dtype=">u4").tobytes()
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(b"\0\0\x08\x01" + shape + bytes(2**20))
        )
    with pytest.raises(SourceError, match=r"unpacks to 10,000,000,000 bytes from"):
        DATASETS["idx"].load(settings(tmp_path))


def test_stored_zeros_are_refused_only_if_they_unpack_to_200_times_as_many(monkeypatch):
    monkeypatch.setattr("munkey.data.arrays.MAX_UNPACKED", 100)
    ArrayHeader("x", (10, 10, 10), np.dtype(np.uint8), 1000).require_plausible_size()
    ArrayHeader("x", (10, 10, 10), np.dtype(np.uint8), 5).require_plausible_size()
    with pytest.raises(SourceError, match="1,000 bytes from 4, more than 200 times"):
        ArrayHeader("x", (10, 10, 10), np.dtype(np.uint8), 4).require_plausible_size()
