"""MNIST-format files, gzipped or not, read exactly; missing and truncated ones are named."""

import gzip

import numpy as np
import pytest

from munkey.data.registry import DATASETS
from munkey.data.sets import idx
from munkey.data.source import SourceError
from tests.data.inputs import RNG, counts, loaded, settings


def write_idx(folder, ending):
    """Write the four files of an MNIST of 12 and 20 images; returns all images."""
    opener, pixels = gzip.open if ending else open, []
    for part, count in {"train": 12, "t10k": 20}.items():
        pixels.append(RNG.integers(0, 256, (count, 5, 4), dtype=np.uint8))
        labels = (np.arange(count) % 2).astype(np.uint8)
        for content, array in {"images-idx3-ubyte": pixels[-1], "labels-idx1-ubyte": labels}.items():
            with opener(folder / f"{part}-{content}{ending}", "wb") as file:
                file.write(bytes([0, 0, 8, array.ndim]))
                file.write(np.array(array.shape, ">u4").tobytes() + array.tobytes())
    return np.concatenate(pixels)


@pytest.mark.parametrize("ending", [".gz", ""])
def test_idx_as_mnist_ships_it(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(idx, "BLOCK", 7)  # several blocks
    pixels = write_idx(tmp_path, ending)
    dataset = loaded(DATASETS["idx"].load(settings(tmp_path)), tmp_path / "out")
    np.testing.assert_array_equal(dataset.images[..., 0], pixels)
    assert counts(dataset.splits) == [12, 8, 12]
    (tmp_path / f"train-images-idx3-ubyte{ending}").unlink()
    with pytest.raises(SourceError, match=r"train-images-idx3-ubyte\[\.gz\] is missing"):
        DATASETS["idx"].load(settings(tmp_path))


@pytest.mark.parametrize("ending", [".gz", ""])
def test_a_truncated_idx_file_is_named(tmp_path, ending):
    write_idx(tmp_path, ending)
    path = tmp_path / f"t10k-images-idx3-ubyte{ending}"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SourceError, match=r"(?s)t10k-images-idx3-ubyte.*(ends too early|truncated).*whole copy"):
        list(DATASETS["idx"].load(settings(tmp_path)).blocks())


def test_a_gzipped_file_that_is_damaged_anywhere_is_named_and_its_owner_is_not_told_to_delete_it(tmp_path):
    write_idx(tmp_path, ".gz")
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    flipped = [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in range(0, len(whole), 3)]
    cut = [whole[:kept] for kept in range(0, len(whole), 29)]
    refused = [error for content in [*cut, *flipped] if (error := refusal(path, content))]
    assert len(refused) > 0.9 * len(cut + flipped)
    assert all(path.name in said and "whole copy" in said and "delete" not in said.lower() for said in refused)


def refusal(path, content):
    """What is said of a content that is refused."""
    path.write_bytes(content)
    try:
        list(DATASETS["idx"].load(settings(path.parent)).blocks())
    except SourceError as error:
        return str(error)


@pytest.mark.parametrize("kept", [0, 3, 9])
def test_a_file_that_ends_in_its_header_is_named(kept, tmp_path):
    write_idx(tmp_path, "")
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(SourceError, match="train-images-idx3-ubyte"):
        list(DATASETS["idx"].load(settings(tmp_path)).blocks())
