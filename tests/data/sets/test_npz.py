"""NPZ archives in the MedMNIST layout: which arrays serve as which split, and what is wrong with them."""

import numpy as np
import pytest

from munkey.data.prepared import prepare
from munkey.data.registry import DATASETS
from munkey.data.sets import npz
from munkey.data.source import SPLITS, SourceError
from tests.data.inputs import RNG, counts, loaded, settings


def archive(path, sizes, dtype=np.uint8, shape=(6, 6, 3), classes=3):
    """Write an archive with `sizes` random images by split, and return its arrays."""
    arrays = {}
    for split, count in sizes.items():
        pixels = RNG.integers(0, 256, (count, *shape), dtype=np.uint8)
        arrays[f"{split}_images"] = pixels if dtype == np.uint8 else (pixels / 255).astype(dtype)
        arrays[f"{split}_labels"] = (np.arange(count) % classes)[:, None].astype(np.uint8)
    np.savez_compressed(path, **arrays)
    return arrays


@pytest.mark.parametrize("shape", [(6, 6, 3), (6, 6)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_npz_in_the_medmnist_layout(tmp_path, shape, dtype, monkeypatch):
    monkeypatch.setattr(npz, "BLOCK", 500)  # several blocks
    arrays = archive(tmp_path / "x.npz", {"train": 9, "val": 6, "test": 6}, dtype, shape)
    dataset = loaded(DATASETS["npz"].load(settings(tmp_path / "x.npz")), tmp_path / "out")
    expected = np.concatenate([arrays[f"{split}_images"] for split in SPLITS])
    if dtype != np.uint8:
        expected = np.rint(expected * 255).astype(np.uint8)
    np.testing.assert_array_equal(dataset.images, expected if len(shape) == 3 else np.repeat(expected[..., None], 3, 3))
    assert counts(dataset.splits) == [9, 6, 6]
    assert dataset.labels.tolist() == [i % 3 for n in (9, 6, 6) for i in range(n)]


def test_nan_images_are_named(tmp_path):
    arrays = archive(tmp_path / "x.npz", {"train": 6, "val": 3, "test": 3}, np.float32)
    arrays["train_images"][[1, 4], 0, 0, 0] = np.nan
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(SourceError, match=r"(?s)image 1 has pixels that are not finite.*image 4 has"):
        loaded(DATASETS["npz"].load(settings(tmp_path / "x.npz")), tmp_path / "out")


def test_missing_arrays_are_named(tmp_path):
    np.savez(tmp_path / "x.npz", train_images=np.zeros((3, 2, 2), np.uint8))
    with pytest.raises(SourceError, match=r"(?s)train_labels is missing.*test_images is missing"):
        DATASETS["npz"].load(settings(tmp_path / "x.npz"))


def test_pathmnist_s_val_serves_as_val_and_test(tmp_path):
    archive(tmp_path / "pathmnist_224.npz", {"train": 12, "val": 30, "test": 9})
    source = npz.read_archive(tmp_path / "pathmnist_224.npz", {"train": "train", "test": "val"}, list("abc"), 12)
    assert counts(source.splits) == [12, 12, 18]
    assert sum(len(block) for block in source.images) == 42


def test_labels_out_of_range_and_nan_in_any_part_are_reported_together(tmp_path):
    arrays = {}
    for seed, split in enumerate(SPLITS):
        arrays[f"{split}_images"] = np.random.default_rng(seed).random((4, 3, 3), dtype=np.float32)
        arrays[f"{split}_labels"] = np.array([0, 1, 0, -1])
    arrays["train_images"][2, 0, 0] = np.nan
    arrays["test_images"][3, 1, 1] = np.inf
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(SourceError) as refused:
        prepare(DATASETS["npz"].load(settings(tmp_path / "x.npz")), tmp_path / "out")
    faults = "\n".join(refused.value.faults)
    assert "labels run from -1 to 1" in faults
    assert "train_images: image 2 has pixels that are not finite" in faults
    assert "test_images: image 3 has pixels that are not finite" in faults


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_archive_is_named_and_its_owner_is_not_told_to_delete_it(save, tmp_path):
    """Cut anywhere, or with a byte flipped anywhere."""
    path, rng = tmp_path / "own.npz", np.random.default_rng(0)
    arrays = {f"{split}_images": rng.integers(0, 256, (4, 5, 5, 3), np.uint8) for split in SPLITS}
    arrays |= {f"{split}_labels": np.arange(4) % 2 for split in SPLITS}
    save(path, **arrays)
    whole = path.read_bytes()
    damaged = [whole[:cut] for cut in range(0, len(whole), 97)]
    for position in rng.integers(0, len(whole), 200):
        damaged.append(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
    refused = [error for content in damaged if (error := refusal(path, content))]
    assert len(refused) > 150
    assert all("own.npz" in said and "delete" not in said.lower() for said in refused)


def refusal(path, content):
    """What is said of a content that is refused."""
    path.write_bytes(content)
    try:
        list(DATASETS["npz"].load(settings(path)).blocks())
    except SourceError as error:
        return str(error)
