"""Every published data set, from a file in its published format to prepared pictures, by the job that reads it.

The archives are small, of scanned digits (tests/integration/archives.py); what the readers know of the published ones,
their sizes and checksums, is changed to fit.
"""

import io
import shutil
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medmnist import INFO
from torchvision import datasets

from munkey.data import sizes
from munkey.data.prepared import Dataset, load
from munkey.data.sets import tinyimagenet
from munkey.data.source import SourceError
from munkey.experiment.params.load import ParamsError
from munkey.experiment.params.load import load as load_params
from munkey.jobs.data import data
from munkey.settings import SourceSettings
from tests.integration.archives import SIZES, Archives, archives, md5_of, pictures, splits_held_out

FILES = {
    "bloodmnist": "bloodmnist_224.npz",
    "cifar10": "cifar-10-python.tar.gz",
    "cifar100": "cifar-100-python.tar.gz",
    "dermamnist": "dermamnist_224.npz",
    "pathmnist": "pathmnist_224.npz",
    "tinyimagenet": "tiny-imagenet-200.zip",
}
EACH = pytest.mark.parametrize("name", FILES)


@pytest.fixture(scope="module")
def all_archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Archives]:
    """A folder with all archives, and what is in them."""
    folder = tmp_path_factory.mktemp("published")
    return folder, archives(folder)


@pytest.fixture
def published(
    all_archives: tuple[Path, Archives], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder `data` of a project with the archives, which its readers take for the published ones."""
    folder, facts = all_archives
    shutil.copytree(folder, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    for name, size in SIZES.items():
        monkeypatch.setitem(sizes.SIZES, name, size)
    for name in ("bloodmnist", "dermamnist", "pathmnist"):
        monkeypatch.setitem(INFO[name], "MD5_224", facts.md5[FILES[name]])
    for reader in (datasets.CIFAR10, datasets.CIFAR100):
        monkeypatch.setattr(reader, "tgz_md5", facts.md5[reader.filename])
        monkeypatch.setattr(
            reader, "meta", reader.meta | {"md5": facts.md5[reader.meta["filename"]]}
        )
        for part in ("train_list", "test_list"):
            members = [[member, facts.md5[member]] for member, _ in getattr(reader, part)]
            monkeypatch.setattr(reader, part, members)
    archive = replace(tinyimagenet.ARCHIVE, md5=facts.md5[FILES["tinyimagenet"]])
    monkeypatch.setattr(tinyimagenet, "ARCHIVE", archive)
    return tmp_path / "data"


def prepared(config: dict[str, Any], name: str, folder: Path, **changes: str) -> Dataset:
    """A data set after the job that reads it."""
    source = SourceSettings(**config["source"] | changes)
    data(folder / "images.npy", name, source, config | {"datasets": [name]})
    return load(folder)


def order_of(name: str) -> list[int]:
    """Which of the drawn pictures each sample is, in the order of the samples: Tiny ImageNet's are sorted by path."""
    size = SIZES[name]
    if name != "tinyimagenet":
        return list(range(size.images))
    train = sorted(range(size.train), key=lambda number: (number % size.classes, str(number)))
    val = sorted(range(size.val + size.test), key=lambda number: f"val_{number}.JPEG")
    return [*train, *(size.train + place for place in range(len(val)))]


@EACH
def test_a_file_in_the_published_format_is_read_with_its_pictures_labels_and_splits(
    name: str, published: Path, config: dict[str, Any], tmp_path: Path
):
    dataset = prepared(config, name, tmp_path / "prepared")
    size = SIZES[name]
    assert dataset.images.shape == (size.images, size.side, size.side, 3)
    for split in ("train", "val", "test"):
        count = getattr(size, split)
        labels = np.sort(dataset.labels[dataset.splits == split])
        assert np.array_equal(labels, np.sort(np.arange(count) % size.classes)), split
    assert len(dataset.classes) == size.classes
    drawn = pictures(size.images, size.side)[order_of(name)].astype(int)
    apart = np.abs(dataset.images.astype(int) - drawn).mean(axis=(1, 2, 3))
    assert apart.max() < (5 if name == "tinyimagenet" else 1e-9)  # JPEG loses something
    train = np.array(order_of(name))[dataset.splits == "train"]
    assert np.array_equal(dataset.labels[dataset.splits == "train"], train % size.classes)
    if name not in ("bloodmnist", "dermamnist"):  # which come with three splits
        assert np.array_equal(dataset.splits[size.train :], splits_held_out(name))


def packed_anew(path: Path) -> None:
    """Pack an archive again, otherwise: the same content, another checksum."""
    if path.suffix == ".npz":
        with np.load(path) as archive:
            np.savez(path, **archive)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in contents.items():
                archive.writestr(name, content)
    else:
        packed_with(path)


def packed_with(path: Path, **changes: bytes) -> None:
    """Pack an archive of CIFAR again, in another folder and with other contents of these members."""
    with tarfile.open(path) as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive}
    with tarfile.open(path, "w:xz") as archive:
        for name, published in members.items():
            content = changes.get(Path(name).name, published)
            entry = tarfile.TarInfo(f"./mine/{Path(name).name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


@EACH
def test_a_repacked_copy_is_read_if_its_checksum_is_set(
    name: str, published: Path, config: dict[str, Any], tmp_path: Path
):
    expected = prepared(config, name, tmp_path / "expected")
    for unpacked in ("cifar-10-batches-py", "cifar-100-python"):
        shutil.rmtree(published / unpacked, ignore_errors=True)
    copy = published / FILES[name]
    packed_anew(copy)
    md5 = md5_of(copy.read_bytes())
    content = copy.read_bytes()
    if not name.startswith("cifar"):
        with pytest.raises(ValueError, match=rf"source\.md5 .*{md5}"):
            prepared(config, name, tmp_path / "refused")
    dataset = prepared(config, name, tmp_path / "taken", md5=md5)
    assert np.array_equal(dataset.images, expected.images)
    assert np.array_equal(dataset.labels, expected.labels)
    assert copy.read_bytes() == content
    with pytest.raises(ValueError, match=f"its md5 is not {'0' * 32}"):
        prepared(config, name, tmp_path / "another", md5="0" * 32)
    copy.rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match=r"source\.md5 to null"):
        prepared(config, name, tmp_path / "absent", md5=md5)


def test_a_copy_of_cifar_with_other_content_is_refused(published, config, tmp_path):
    copy = published / FILES["cifar10"]
    packed_with(copy, data_batch_3=b"anything")
    with pytest.raises(SourceError, match="data_batch_3: its md5 is not"):
        prepared(config, "cifar10", tmp_path / "refused", md5=md5_of(copy.read_bytes()))
    assert not (published / "cifar-10-batches-py").exists()


def test_a_checksum_is_refused_for_a_data_set_without_a_published_file(config):
    config["source"]["md5"] = "0" * 32
    with pytest.raises(ParamsError, match=r"source\.md5 = '0+': digits"):
        load_params(config)
