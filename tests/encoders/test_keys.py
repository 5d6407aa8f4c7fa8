"""Keys are the encoder's features at unit norm, one per image; what cannot be a key is refused."""

import numpy as np
import pytest
import torch

from munkey.core import files
from munkey.core.files import DamagedFileError, write_npz
from munkey.encoders import keys
from tests.conftest import unit_rows

IMAGES = np.random.default_rng(0).integers(0, 256, (10, 4, 4, 3), dtype=np.uint8)


def mean_color(images):
    """An encoder that one can do by hand: mean red, green and blue."""
    return images.mean(dim=(2, 3))


def extracted(encode=mean_color, batch_size=4, images=IMAGES):
    return keys.extract(encode, images, batch_size, "cpu", show_progress=lambda batches: batches)


def test_keys_are_the_features_at_unit_norm():
    features = (IMAGES / 255).mean(axis=(1, 2))
    expected = features / np.linalg.norm(features, axis=1, keepdims=True)
    extracted_keys = extracted()
    assert extracted_keys.dtype == np.float32
    np.testing.assert_allclose(extracted_keys, expected, rtol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 3, 10, 64])
def test_keys_do_not_depend_on_the_size_of_batches(batch_size):
    np.testing.assert_allclose(extracted(batch_size=batch_size), extracted(), rtol=1e-6)


def test_read_only_mapped_images_give_no_warning(tmp_path):
    np.save(tmp_path / "images.npy", IMAGES)
    np.testing.assert_array_equal(
        extracted(images=np.load(tmp_path / "images.npy", mmap_mode="r")), extracted()
    )


def test_a_small_batch_is_padded_so_that_all_batches_have_the_same_size():
    sizes = []

    def encode(batch):
        sizes.append(len(batch))
        return mean_color(batch)

    assert len(extracted(encode, batch_size=keys.MIN_BATCH, images=IMAGES[:3])) == 3
    assert len(
        extracted(encode, batch_size=keys.MIN_BATCH, images=np.concatenate([IMAGES] * 4))
    ) == 4 * len(IMAGES)
    assert set(sizes) == {keys.MIN_BATCH}


def test_extraction_does_not_change_the_images():
    before = IMAGES.copy()
    extracted(lambda images: mean_color(images.mul_(2)))
    np.testing.assert_array_equal(IMAGES, before)


@pytest.mark.parametrize("bad", [0.0, torch.nan, torch.inf])
def test_an_image_without_a_usable_key_is_named(bad):
    images = IMAGES.copy()
    images[7] = 0

    def encode(batch):
        features = mean_color(batch)
        features[features.sum(dim=1) == 0] = bad
        return features

    with pytest.raises(ValueError, match=r"no usable key .* rows \[7\]"):
        extracted(encode, images=images)


def test_keys_are_read_by_id(tmp_path):
    stored = unit_rows(4, 6)
    keys.write(tmp_path / "keys.npz", np.array([2, 3, 5, 7]), stored)
    ids, vectors = keys.read(tmp_path / "keys.npz", np.array([7, 2]))
    assert ids.tolist() == [7, 2]
    np.testing.assert_array_equal(vectors, stored[[3, 0]])
    ids, vectors = keys.read(tmp_path / "keys.npz")
    assert ids.tolist() == [2, 3, 5, 7]
    np.testing.assert_array_equal(vectors, stored)
    with pytest.raises(KeyError, match="4"):
        keys.read(tmp_path / "keys.npz", np.array([2, 4]))


@pytest.mark.parametrize(
    "arrays",
    [
        {"ids": np.arange(4), "keys": 2 * unit_rows(4, 6)},
        {"ids": np.arange(4), "keys": unit_rows(3, 6)},
        {"ids": np.arange(4), "keys": np.full((4, 6), np.nan)},
    ],
    ids=["not of unit norm", "one too few", "not finite"],
)
def test_a_file_without_unit_vectors_is_refused(tmp_path, arrays):
    write_npz(tmp_path / "keys.npz", arrays)
    with pytest.raises(DamagedFileError, match=r"keys\.npz: .*unit vector"):
        keys.read(tmp_path / "keys.npz")


def test_an_interrupted_extraction_resumes_and_gives_the_same_bytes(tmp_path, monkeypatch):
    """Blocks of two batches of one image, cut in the third: what is written stays as it is, nothing is repeated."""
    monkeypatch.setattr(keys, "BLOCK", 2)
    encoded = []

    def cut(batch):
        if len(encoded) == 5:
            raise KeyboardInterrupt
        encoded.append(batch)
        return mean_color(batch)

    with pytest.raises(KeyboardInterrupt):
        keys.extract(cut, IMAGES, 1, "cpu", list, tmp_path)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("[0-9]*.npy")}
    assert sorted(path.name for path in stamps) == ["0.npy", "2.npy"]
    starts = []
    resumed = keys.extract(
        mean_color,
        IMAGES,
        1,
        "cpu",
        lambda batch_starts: starts.extend(batch_starts) or batch_starts,
        tmp_path,
    )
    assert starts == [4, 5, 6, 7, 8, 9]
    assert resumed.tobytes() == extracted(batch_size=1).tobytes()
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_a_damaged_block_of_an_interrupted_extraction_is_computed_again(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(keys, "BLOCK", 1)
    first = keys.extract(mean_color, IMAGES, 4, "cpu", list, tmp_path)
    # so that it shows what was taken from a block
    files.write_npy(tmp_path / "0.npy", np.ones((4, 3), np.float32))
    (tmp_path / "4.npy").write_bytes((tmp_path / "4.npy").read_bytes()[:-1] + b"?")
    encoded = []
    again = keys.extract(
        mean_color, IMAGES, 4, "cpu", lambda starts: encoded.extend(starts) or starts, tmp_path
    )
    assert encoded == [4]
    assert "4.npy is damaged" in capsys.readouterr().out
    np.testing.assert_array_equal(again[4:], first[4:])
    np.testing.assert_allclose(again[:4], 3**-0.5)
    assert files.read_npy(tmp_path / "4.npy").shape == (4, 3)
