"""MNIST-format files, gzipped or not, read exactly; missing and truncated ones are named."""

import gzip
import re

import numpy as np
import pytest

from munkey.data import arrays
from munkey.data.registry import DATASETS
from munkey.data.source import SourceError
from tests.data.inputs import counts, loaded, settings


def write_idx(folder, ending):
    """Write the four files of an MNIST of 12 and 20 images; returns all images."""
    opener = gzip.open if ending else open
    generator = np.random.default_rng(0)
    pixels = []
    for part, count in {"train": 12, "t10k": 20}.items():
        pixels.append(generator.integers(0, 256, (count, 5, 4), dtype=np.uint8))
        labels = (np.arange(count) % 2).astype(np.uint8)
        for content, array in {
            "images-idx3-ubyte": pixels[-1],
            "labels-idx1-ubyte": labels,
        }.items():
            with opener(folder / f"{part}-{content}{ending}", "wb") as file:
                file.write(bytes([0, 0, 8, array.ndim]))
                file.write(np.array(array.shape, ">u4").tobytes() + array.tobytes())
    return np.concatenate(pixels)


@pytest.mark.parametrize("ending", [".gz", ""])
def test_idx_files_of_mnist_are_read_exactly(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK", 7 * 5 * 4)  # several blocks
    pixels = write_idx(tmp_path, ending)
    dataset = loaded(DATASETS["idx"].load(settings(tmp_path)), tmp_path / "out")
    np.testing.assert_array_equal(dataset.images[..., 0], pixels)
    assert counts(dataset.splits) == [12, 8, 12]
    (tmp_path / f"train-images-idx3-ubyte{ending}").unlink()
    with pytest.raises(SourceError, match=r"train-images-idx3-ubyte\[\.gz\] is missing"):
        DATASETS["idx"].load(settings(tmp_path))


def refusal(folder, **kind):
    """What is said of files that are refused."""
    with pytest.raises(SourceError) as refused:
        loaded(DATASETS["idx"].load(settings(folder, **kind)), folder / "out")
    assert "elete" not in str(refused.value)
    assert not list(folder.glob("out/*"))
    return str(refused.value)


def header(*shape, magic=(0, 0, 8)):
    return bytes([*magic, len(shape)]) + np.array(shape, ">u4").tobytes()


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("t10k-images-idx3", lambda c: c[:-20], r"ends too early for \(20, 5, 4\)"),
        ("t10k-labels-idx1", lambda c: c[:-1], r"ends too early for \(20,\)"),
        ("train-images-idx3", lambda c: b"", r"is not an IDX file"),
        ("train-images-idx3", lambda c: c[:9], r"ends within its header"),
        (
            "train-images-idx3",
            lambda c: bytes([0, 0, 13]) + c[3:],
            r"an IDX file of unsigned bytes",
        ),
        (
            "train-images-idx3",
            lambda c: header(12, 5, 5) + c[16:],
            r"ends too early for \(12, 5, 5\)",
        ),
        (
            "train-images-idx3",
            lambda c: header(12, 5, 3) + c[16:],
            r"has more data than \(12, 5, 3\)",
        ),
        (
            "train-images-idx3",
            lambda c: header(11, 5, 4) + c[16:-20],
            r"\(11, 5, 4\) and .*labels-idx1.* \(12,\) differ",
        ),
        (
            "train-images-idx3",
            lambda c: header(0, 5, 4),
            r"contains no images, its shape is \(0, 5, 4\)",
        ),
        (
            "train-images-idx3",
            lambda c: header(12, 0, 4),
            r"contains no images, its shape is \(12, 0, 4\)",
        ),
        (
            "train-images-idx3",
            lambda c: header(12, 2**32 - 1, 2**32 - 1) + c[16:],
            r"unpacks to 221,|a picture may have",
        ),
    ],
)
@pytest.mark.parametrize("ending", [".gz", ""])
def test_files_that_cannot_be_used_are_named(tmp_path, file, change, message, ending):
    write_idx(tmp_path, ending)
    path = tmp_path / f"{file}-ubyte{ending}"
    opener = gzip.open if ending else open
    with opener(path, "rb") as whole:
        content = change(whole.read())
    with opener(path, "wb") as changed:
        changed.write(content)
    message_of_refusal = refusal(tmp_path, size=3)
    assert re.search(message, message_of_refusal)
    assert file in message_of_refusal


def test_damaged_gzip_is_named(tmp_path):
    write_idx(tmp_path, ".gz")
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[100] ^= 255  # within the pixels
    for damaged in (whole[:-20], b"no gzip", bytes(flipped)):
        path.write_bytes(damaged)
        assert re.search(r"t10k-images-idx3-ubyte\.gz: cannot be read \(", refusal(tmp_path))


def test_images_of_other_sizes_need_a_storage_size(tmp_path):
    write_idx(tmp_path, "")
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(header(20, 4, 5) + path.read_bytes()[16:])
    assert re.search(r"differ in size, .*\(5, 4\) px .*\(4, 5\) px; set source", refusal(tmp_path))
