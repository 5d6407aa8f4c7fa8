"""BloodMNIST, PathMNIST and DermaMNIST at 224 px (Yang et al. 2023): archives and facts from the medmnist package."""

from typing import TYPE_CHECKING

from munkey.data import Source, dataset
from munkey.data.download import obtain
from munkey.data.npz import read_archive
from munkey.data.splits import expect

if TYPE_CHECKING:
    from munkey.params import SourceParams


@dataset("bloodmnist", "BloodMNIST: 11,959 / 1,712 / 3,421 images, 224x224 px, 8 classes")
def bloodmnist(source: "SourceParams") -> Source:
    return _read("bloodmnist", train=11_959, val=1_712, test=3_421)


@dataset("dermamnist", "DermaMNIST: 7,007 / 1,003 / 2,005 images, 224x224 px, 7 classes")
def dermamnist(source: "SourceParams") -> Source:
    return _read("dermamnist", train=7_007, val=1_003, test=2_005)


@dataset(
    "pathmnist", "PathMNIST: 89,996 / 4,000 / 6,004 images, 224x224 px, 9 classes; val and test from its val split"
)
def pathmnist(source: "SourceParams") -> Source:
    """Its own test split comes from other clinics and stays unused (app. B.1)."""
    return _read("pathmnist", {"train": "train", "test": "val"}, train=89_996, val=4_000, test=6_004)


def _read(name: str, parts: dict[str, str] | None = None, **counts: int) -> Source:
    from medmnist import INFO

    info = INFO[name]
    unpacked = sum(info["n_samples"].values()) * 224 * 224 * 3 / 2**30
    path = obtain(info["url_224"], f"{name}_224.npz", info["MD5_224"], f"{unpacked:.1f} GiB unpacked")
    found = read_archive(path, parts, [info["label"][str(label)] for label in range(len(info["label"]))], counts["val"])
    expect(name, found.splits, **counts)
    return found
