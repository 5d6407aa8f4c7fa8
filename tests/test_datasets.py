"""Published and own data sets, read from small files in their real formats."""

import gzip
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from munkey import data
from munkey.data import DATASETS, SourceError, download, medmnist, npz, pictures, splits, tinyimagenet
from munkey.data.cifar import combine
from munkey.data.download import MissingDataError, obtain

RNG = np.random.default_rng(0)


def settings(path=None, size=None, shares=(0.6, 0.15, 0.25), limit=None):
    return SimpleNamespace(path=path and str(path), storage_size=size, split=list(shares), limit_per_class=limit)


def loaded(source, folder):
    data.prepare(source, folder)
    return data.load(folder)


def picture(path, size=(8, 6), mode="RGB", colour=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(pixels) if colour is None else Image.new("RGB", size, colour)
    image.convert(mode).save(path)


def folder_of(root, counts, **kind):
    for name, count in counts.items():
        for i in range(count):
            picture(root / name / f"{i:03d}.png", **kind)


def test_held_out_samples_are_split_40_to_60_the_same_every_time():
    first = splits.held_out("cifar10", 10_000)
    assert ((first == "val").sum(), (first == "test").sum()) == (4_000, 6_000)
    np.testing.assert_array_equal(first, splits.held_out("cifar10", 10_000))
    assert (splits.held_out("pathmnist", 10_004, 4_000) == "test").sum() == 6_004


def test_a_folder_of_classes_is_split_within_each_class(tmp_path):
    folder_of(tmp_path / "pets", {"cat": 20, "dog": 40})
    dataset = loaded(DATASETS["imagefolder"].load(settings(tmp_path / "pets")), tmp_path / "out")
    assert dataset.classes == ["cat", "dog"]
    assert dataset.images.shape == (60, 6, 8, 3)
    for label, count in ((0, 20), (1, 40)):
        counts = [int(((dataset.labels == label) & (dataset.splits == s)).sum()) for s in data.SPLITS]
        assert counts == [count * 0.6, count * 0.15, count * 0.25]


def test_pictures_are_in_name_order_and_exact(tmp_path):
    folder_of(tmp_path / "pets", {"cat": 12, "dog": 12})
    dataset = loaded(DATASETS["imagefolder"].load(settings(tmp_path / "pets", limit=10)), tmp_path / "out")
    assert len(dataset.ids) == 20
    expected = np.asarray(Image.open(tmp_path / "pets/dog/003.png"))
    np.testing.assert_array_equal(dataset.images[13], expected)


def test_split_folders_stand_and_a_missing_val_comes_from_test(tmp_path):
    for split, count in {"train": 6, "test": 10}.items():
        folder_of(tmp_path / "pets" / split, {"cat": count, "dog": count})
    dataset = loaded(DATASETS["imagefolder"].load(settings(tmp_path / "pets")), tmp_path / "out")
    assert [int((dataset.splits == s).sum()) for s in data.SPLITS] == [12, 8, 12]


@pytest.mark.parametrize(
    ("mode", "ending"), [("L", "png"), ("P", "gif"), ("RGBA", "png"), ("CMYK", "jpg"), ("1", "bmp")]
)
def test_any_colour_mode_becomes_rgb(tmp_path, mode, ending):
    path = tmp_path / f"red.{ending}"
    Image.new("RGB", (4, 4), (200, 0, 0)).convert(mode).save(path)
    (block,) = pictures.decode([str(path)], lambda name: open(name, "rb"), None)  # noqa: SIM115, PTH123
    assert block.shape == (1, 4, 4, 3)
    if mode not in ("1", "L"):
        np.testing.assert_allclose(block[0, 0, 0], [200, 0, 0], atol=12)


def test_transparent_becomes_white_and_16_bit_keeps_its_high_byte(tmp_path):
    Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.fromarray(np.full((2, 2), 0x1234, np.uint16)).save(tmp_path / "deep.png")
    names = [str(tmp_path / "clear.png"), str(tmp_path / "deep.png")]
    (block,) = pictures.decode(names, lambda name: open(name, "rb"), None)  # noqa: SIM115, PTH123
    assert block[0].min() == 255
    assert (block[1] == 0x12).all()


def test_mixed_sizes_need_a_storage_size(tmp_path):
    folder_of(tmp_path / "pets", {"cat": 8})
    folder_of(tmp_path / "pets", {"dog": 8}, size=(16, 4))
    with pytest.raises(SourceError, match=r"(?s)8 faults.*set source\.storage_size"):
        loaded(DATASETS["imagefolder"].load(settings(tmp_path / "pets")), tmp_path / "out")
    dataset = loaded(DATASETS["imagefolder"].load(settings(tmp_path / "pets", size=5)), tmp_path / "out")
    assert dataset.images.shape == (16, 5, 5, 3)


def test_all_corrupt_pictures_are_named_at_once_and_nothing_is_left(tmp_path):
    folder_of(tmp_path / "pets", {"cat": 8, "dog": 8})
    (tmp_path / "pets/cat/003.png").write_bytes(b"no picture")
    whole = (tmp_path / "pets/dog/005.png").read_bytes()
    (tmp_path / "pets/dog/005.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"(?s)2 faults.*cat/003\.png.*dog/005\.png"):
        loaded(DATASETS["imagefolder"].load(settings(tmp_path / "pets")), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_an_empty_class_is_named(tmp_path):
    folder_of(tmp_path / "pets", {"cat": 8})
    (tmp_path / "pets/dog").mkdir()
    (tmp_path / "pets/dog/readme.txt").write_text("soon")
    with pytest.raises(SourceError, match="dog: no picture"):
        DATASETS["imagefolder"].load(settings(tmp_path / "pets"))


def test_copies_across_splits_are_counted(tmp_path):
    for split, count in {"train": 4, "val": 3, "test": 3}.items():
        folder_of(tmp_path / "pets" / split, {"cat": count, "dog": count})
    for copy in ("val/cat/000.png", "test/dog/001.png"):
        (tmp_path / "pets" / copy).write_bytes((tmp_path / "pets/train/cat/002.png").read_bytes())
    said = []
    data.prepare(DATASETS["imagefolder"].load(settings(tmp_path / "pets")), tmp_path / "out", report=said.append)
    assert len(said) == 1 and said[0].startswith("WARNING: 2 images of val or test stand in another split too")


def archive(path, counts, dtype=np.uint8, shape=(6, 6, 3), classes=3, compress=True):
    arrays = {}
    for split, count in counts.items():
        pixels = RNG.integers(0, 256, (count, *shape), dtype=np.uint8)
        arrays[f"{split}_images"] = pixels if dtype == np.uint8 else (pixels / 255).astype(dtype)
        arrays[f"{split}_labels"] = (np.arange(count) % classes)[:, None].astype(np.uint8)
    (np.savez_compressed if compress else np.savez)(path, **arrays)
    return arrays


@pytest.mark.parametrize("shape", [(6, 6, 3), (6, 6)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_npz_in_the_medmnist_layout(tmp_path, shape, dtype, monkeypatch):
    monkeypatch.setattr(npz, "BLOCK", 500)  # several blocks
    arrays = archive(tmp_path / "x.npz", {"train": 9, "val": 6, "test": 6}, dtype, shape)
    dataset = loaded(DATASETS["npz"].load(settings(tmp_path / "x.npz")), tmp_path / "out")
    expected = np.concatenate([arrays[f"{s}_images"] for s in data.SPLITS])
    if dtype != np.uint8:
        expected = np.rint(expected * 255).astype(np.uint8)
    np.testing.assert_array_equal(dataset.images, expected if len(shape) == 3 else np.repeat(expected[..., None], 3, 3))
    assert [int((dataset.splits == s).sum()) for s in data.SPLITS] == [9, 6, 6]
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
    assert [int((source.splits == s).sum()) for s in data.SPLITS] == [12, 12, 18]
    assert sum(len(block) for block in source.images) == 42


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_as_mnist_ships_it(tmp_path, zipped):
    opener, ending = (gzip.open, ".gz") if zipped else (open, "")
    pixels, labels = {}, {}
    for part, count in {"train": 12, "t10k": 20}.items():
        pixels[part] = RNG.integers(0, 256, (count, 5, 4), dtype=np.uint8)
        labels[part] = (np.arange(count) % 2).astype(np.uint8)
        for what, array in {"images-idx3-ubyte": pixels[part], "labels-idx1-ubyte": labels[part]}.items():
            with opener(tmp_path / f"{part}-{what}{ending}", "wb") as file:
                file.write(bytes([0, 0, 8, array.ndim]))
                file.write(np.array(array.shape, ">u4").tobytes() + array.tobytes())
    dataset = loaded(DATASETS["idx"].load(settings(tmp_path)), tmp_path / "out")
    np.testing.assert_array_equal(dataset.images[..., 0], np.concatenate([pixels["train"], pixels["t10k"]]))
    assert [int((dataset.splits == s).sum()) for s in data.SPLITS] == [12, 8, 12]
    (tmp_path / f"train-images-idx3-ubyte{ending}").unlink()
    with pytest.raises(SourceError, match=r"train-images-idx3-ubyte\[\.gz\] is missing"):
        DATASETS["idx"].load(settings(tmp_path))


@pytest.mark.parametrize("zipped", [True, False])
def test_tiny_imagenet_with_its_odd_val_layout(tmp_path, zipped):
    root = tmp_path / tinyimagenet.NAME
    wnids = ["n02", "n01"]
    for wnid in wnids:
        for i in range(3):
            picture(root / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", mode="L" if i == 0 else "RGB")
    for i in range(10):
        picture(root / "val" / "images" / f"val_{i}.JPEG")
        picture(root / "test" / "images" / f"test_{i}.JPEG")
    (root / "wnids.txt").write_text("\n".join(wnids))
    lines = [f"val_{i}.JPEG\t{wnids[i % 2]}\t0\t0\t9\t9" for i in range(10)]
    (root / "val/val_annotations.txt").write_text("\n".join(lines))
    if zipped:
        with zipfile.ZipFile(tmp_path / "t.zip", "w") as made:
            for path in sorted(root.rglob("*")):
                made.write(path, path.relative_to(tmp_path))
        source = tinyimagenet.read_zip(tmp_path / "t.zip")
    else:
        source = tinyimagenet.read_folder(root)
    assert source.classes == ["n01", "n02"]
    assert source.labels.tolist() == [0, 0, 0, 1, 1, 1] + [1, 0] * 5
    assert [int((source.splits == s).sum()) for s in data.SPLITS] == [6, 4, 6]
    assert np.concatenate(list(source.images)).shape == (16, 6, 8, 3)


def test_cifar_s_two_parts_are_one_source():
    parts = [
        SimpleNamespace(data=RNG.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), targets=[i % 2 for i in range(n)])
        for n in (6, 10)
    ]
    parts[0].classes = ["cat", "dog"]
    source = combine("cifar10", *parts)
    assert [int((source.splits == s).sum()) for s in data.SPLITS] == [6, 4, 6]
    np.testing.assert_array_equal(np.concatenate(list(source.images))[:6], parts[0].data)


def test_wrong_counts_are_refused():
    with pytest.raises(ValueError, match=r"should have .*'train': 7007.* hold .*'train': 3"):
        splits.expect("dermamnist", np.array(["train"] * 3), train=7_007)


def test_without_a_network_one_message_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "FOLDER", tmp_path)
    url = "http://127.0.0.1:9/some.npz"
    with pytest.raises(MissingDataError) as caught:
        obtain(url, "some.npz", "0" * 32, "12 bytes", tmp_path)
    said = str(caught.value)
    assert all(
        word in said for word in (url, "12 bytes", "0" * 32, str(tmp_path / "some.npz"), "nothing else is needed")
    )
    (tmp_path / "some.npz").write_bytes(b"another")
    with pytest.raises(ValueError, match="its md5 is not"):
        obtain(url, "some.npz", "0" * 32, "12 bytes", tmp_path)


def test_the_medmnist_counts_are_those_of_its_package():
    from medmnist import INFO

    for name in ("bloodmnist", "dermamnist", "pathmnist"):
        counts = INFO[name]["n_samples"]
        described = DATASETS[name].description.replace(",", "")
        assert str(counts["train"]) in described
    assert INFO["pathmnist"]["n_samples"]["val"] == 4_000 + 6_004
    assert medmnist is not None
