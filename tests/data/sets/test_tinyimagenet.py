"""Tiny ImageNet, zipped or unpacked: val has a layout of its own."""

import zipfile

import numpy as np
import pytest

from munkey.data.download import PublishedFile
from munkey.data.registry import DATASETS
from munkey.data.sets import tinyimagenet
from munkey.data.sizes import SIZES, Size
from munkey.data.source import SourceError
from tests.data.inputs import counts, picture, settings


def small(tmp_path):
    """A folder in the layout of Tiny ImageNet, with 6 pictures of train, 10 of val and 10 of test."""
    root = tmp_path / tinyimagenet.NAME
    wnids = ["n02", "n01"]
    for wnid in wnids:
        for i in range(3):
            picture(
                root / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", mode="L" if i == 0 else "RGB"
            )
    for i in range(10):
        picture(root / "val" / "images" / f"val_{i}.JPEG")
        picture(root / "test" / "images" / f"test_{i}.JPEG")
    (root / "wnids.txt").write_text("\n".join(wnids))
    lines = [f"val_{i}.JPEG\t{wnids[i % 2]}\t0\t0\t9\t9" for i in range(10)]
    (root / "val/val_annotations.txt").write_text("\n".join(lines))
    return root


def in_zip(root):
    """The same folder in an archive."""
    with zipfile.ZipFile(root.parent / "t.zip", "w") as archive:
        for path in sorted(root.rglob("*")):
            archive.write(path, path.relative_to(root.parent))
    return root.parent / "t.zip"


@pytest.mark.parametrize("zipped", [True, False])
def test_tiny_imagenet_is_read_with_its_own_layout_of_val(tmp_path, zipped):
    root = small(tmp_path)
    source = tinyimagenet.read_zip(in_zip(root)) if zipped else tinyimagenet.read_folder(root)
    assert source.classes == ["n01", "n02"]
    assert source.labels.tolist() == [0, 0, 0, 1, 1, 1] + [1, 0] * 5
    assert counts(source.splits) == [6, 4, 6]
    assert np.concatenate(list(source.images)).shape == (16, 6, 8, 3)
    folder = tinyimagenet.NAME
    assert source.names[2] == f"{folder}/train/n01/images/n01_2.JPEG"
    assert source.names[3] == f"{folder}/train/n02/images/n02_0.JPEG"
    assert source.names[6:] == [f"{folder}/val/images/val_{i}.JPEG" for i in range(10)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda root: (root / "wnids.txt").unlink(),
            r"tiny-imagenet-200: cannot be read \(FileNotFoundError.*wnids",
        ),
        (
            lambda root: (root / "wnids.txt").write_bytes(b"\xff"),
            r"tiny-imagenet-200: cannot be read \(UnicodeDecode",
        ),
        (
            lambda root: (root / "wnids.txt").write_text("n01"),
            r"train/n02/images/n02_0\.JPEG: does not belong to a class",
        ),
        (
            lambda root: (root / "val/val_annotations.txt").write_text(""),
            r"val/images/val_0\.JPEG: does not belong to a class",
        ),
        (
            lambda root: (root / "val/val_annotations.txt").write_text("x"),
            r"tiny-imagenet-200: cannot be read \(Value",
        ),
    ],
)
def test_faults_of_an_unpacked_folder_are_named(tmp_path, change, message):
    change(small(tmp_path))
    with pytest.raises(SourceError, match=message):
        tinyimagenet.read_folder(tmp_path / tinyimagenet.NAME)


@pytest.mark.parametrize("unpacked", [True, False])
def test_an_unpacked_folder_replaces_the_archive_and_other_numbers_of_images_are_refused(
    unpacked, tmp_path, monkeypatch
):
    archive = in_zip(small(tmp_path))
    monkeypatch.setattr(PublishedFile, "obtain", None if unpacked else lambda _, **__: archive)
    monkeypatch.setattr(tinyimagenet, "FOLDER", tmp_path if unpacked else tmp_path / "none")
    with pytest.raises(ValueError, match="tinyimagenet should have"):
        DATASETS["tinyimagenet"].load(settings())
    monkeypatch.setitem(SIZES, "tinyimagenet", Size(6, 4, 6, 6, 2))
    assert counts(DATASETS["tinyimagenet"].load(settings()).splits) == [6, 4, 6]
