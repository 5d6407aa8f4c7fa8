"""BloodMNIST, PathMNIST and DermaMNIST at 224 px (Yang et al. 2023), from the medmnist package."""

from functools import partial

from munkey.data.download import PublishedFile
from munkey.data.registry import dataset
from munkey.data.sets.npz import read_archive
from munkey.data.sizes import SIZES
from munkey.data.source import Source
from munkey.data.splits import require_published_sizes
from munkey.settings import SourceSettings


def _make_archive(name: str) -> PublishedFile:
    from medmnist import INFO

    info = INFO[name]
    unpacked_bytes = sum(info["n_samples"].values()) * SIZES[name].picture_bytes
    size = f"{unpacked_bytes / 2**30:.1f} GiB unpacked"
    return PublishedFile(
        url=info["url_224"], name=f"{name}_224.npz", md5=info["MD5_224"], size=size
    )


@dataset(
    "bloodmnist",
    "BloodMNIST: 11,959 / 1,712 / 3,421 images, 224x224 px, 8 classes",
    archive=partial(_make_archive, "bloodmnist"),
)
def bloodmnist(settings: SourceSettings) -> Source:
    return _read("bloodmnist", settings)


@dataset(
    "dermamnist",
    "DermaMNIST: 7,007 / 1,003 / 2,005 images, 224x224 px, 7 classes",
    archive=partial(_make_archive, "dermamnist"),
)
def dermamnist(settings: SourceSettings) -> Source:
    return _read("dermamnist", settings)


@dataset(
    "pathmnist",
    "PathMNIST: 89,996 / 4,000 / 6,004 images, 224x224 px, 9 classes; val and test from its val split",
    archive=partial(_make_archive, "pathmnist"),
)
def pathmnist(settings: SourceSettings) -> Source:
    """Read train and val. The test split comes from other clinics and stays unused (app. B.1)."""
    return _read("pathmnist", settings, {"train": "train", "test": "val"})


def _read(name: str, settings: SourceSettings, arrays: dict[str, str] | None = None) -> Source:
    """Read a data set, after downloading it. `arrays`: the prefix of each split's arrays."""
    from medmnist import INFO

    labels = INFO[name]["label"]
    classes = [labels[str(label)] for label in range(len(labels))]
    path = _make_archive(name).obtain(own_md5=settings.md5)
    source = read_archive(path, arrays, classes, SIZES[name].val)
    require_published_sizes(name, source.splits)
    return source
