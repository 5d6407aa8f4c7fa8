"""BloodMNIST, PathMNIST and DermaMNIST at 224 px (Yang et al. 2023): archives and facts from the medmnist package."""

from munkey.data.download import PublishedFile
from munkey.data.registry import dataset
from munkey.data.sets.npz import read_archive
from munkey.data.source import Source
from munkey.data.splits import expect
from munkey.settings import SourceSettings


@dataset("bloodmnist", "BloodMNIST: 11,959 / 1,712 / 3,421 images, 224x224 px, 8 classes", train=11_959)
def bloodmnist(settings: SourceSettings) -> Source:
    return _read("bloodmnist", train=11_959, val=1_712, test=3_421)


@dataset("dermamnist", "DermaMNIST: 7,007 / 1,003 / 2,005 images, 224x224 px, 7 classes", train=7_007)
def dermamnist(settings: SourceSettings) -> Source:
    return _read("dermamnist", train=7_007, val=1_003, test=2_005)


@dataset(
    "pathmnist",
    "PathMNIST: 89,996 / 4,000 / 6,004 images, 224x224 px, 9 classes; val and test from its val split",
    train=89_996,
)
def pathmnist(settings: SourceSettings) -> Source:
    """Its own test split comes from other clinics and stays unused (app. B.1)."""
    return _read("pathmnist", {"train": "train", "test": "val"}, train=89_996, val=4_000, test=6_004)


def _read(name: str, arrays: dict[str, str] | None = None, **counts: int) -> Source:
    """Read a data set, downloading it first if need be. arrays: as for `read_archive`; counts: images by split."""
    from medmnist import INFO

    info = INFO[name]
    unpacked = sum(info["n_samples"].values()) * 224 * 224 * 3 / 2**30
    file = PublishedFile(info["url_224"], f"{name}_224.npz", info["MD5_224"], f"{unpacked:.1f} GiB unpacked")
    classes = [info["label"][str(label)] for label in range(len(info["label"]))]
    source = read_archive(file.obtain(), arrays, classes, counts["val"])
    expect(name, source.splits, **counts)
    return source
