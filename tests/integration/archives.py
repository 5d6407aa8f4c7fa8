"""The paper's data sets and encoders, small, in the files and the places that their downloads would have.

Data sets: scanned digits in the formats of the published archives, with the labels of as many classes. Encoders: of the
published kinds, with random weights, in the cache of the hub under the published revisions.
"""

import hashlib
import io
import json
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from medmnist import INFO
from PIL import Image
from sklearn.datasets import load_digits

from munkey.data.sizes import Size
from munkey.data.splits import split_held_out
from munkey.encoders.registry import ENCODERS
from tests.encoders.inputs import tiny

SIZES = {
    "bloodmnist": Size(48, 16, 16, 224, 8),
    "cifar10": Size(50, 20, 30, 32, 10),
    "cifar100": Size(200, 100, 150, 32, 100),
    "dermamnist": Size(49, 14, 14, 224, 7),
    "pathmnist": Size(63, 18, 27, 224, 9),
    "tinyimagenet": Size(400, 200, 300, 64, 200),
}
ENCODER_FAMILIES = {"vit-b16": "vit", "dinov2": "dinov2", "clip": "clip"}
# Dropped among the readers of the project under test, this tells them what is in the archives made here.
FACTS = '''"""What the archives of a test hold, instead of the published ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from medmnist import INFO
from torchvision import datasets

from munkey.data.sets import tinyimagenet
from munkey.data.sizes import SIZES, Size

facts = json.loads(Path("data/facts.json").read_text())
SIZES.update({name: Size(*size) for name, size in facts["sizes"].items()})
for name in ("bloodmnist", "dermamnist", "pathmnist"):
    INFO[name]["MD5_224"] = facts["md5"][f"{name}_224.npz"]
for reader in (datasets.CIFAR10, datasets.CIFAR100):
    reader.tgz_md5 = facts["md5"][reader.filename]
    reader.meta = reader.meta | {"md5": facts["md5"][reader.meta["filename"]]}
    for part in (reader.train_list, reader.test_list):
        part[:] = [[name, facts["md5"][name]] for name, _ in part]
tinyimagenet.ARCHIVE = replace(tinyimagenet.ARCHIVE, md5=facts["md5"][tinyimagenet.ARCHIVE.name])
'''


class Archives(NamedTuple):
    """md5: of each archive and of each file in CIFAR's, by name."""

    md5: dict[str, str]


def archives(folder: Path) -> Archives:
    """Write all six archives."""
    md5 = _cifar(folder / "cifar-10-python.tar.gz", "cifar10")
    md5 |= _cifar(folder / "cifar-100-python.tar.gz", "cifar100")
    _tinyimagenet(folder / "tiny-imagenet-200.zip")
    for name in ("bloodmnist", "dermamnist", "pathmnist"):
        _medmnist(folder / f"{name}_224.npz", name)
    written = [path for path in folder.iterdir() if path.suffix in (".gz", ".zip", ".npz")]
    return Archives(md5 | {path.name: md5_of(path.read_bytes()) for path in written})


def archives_in(project: Path) -> None:
    """All six archives in the folder `data` of a project, with a module that tells its readers their contents."""
    data = project / "data"
    (data / "facts.json").write_text(json.dumps({"sizes": SIZES, "md5": archives(data).md5}))
    (project / "src/munkey/data/sets/archives_of_a_test.py").write_text(FACTS)


def encoders_in(cache: Path) -> None:
    """The paper's encoders in a cache of the hub (HF_HOME), each as the revision that is pinned."""
    for name, family in ENCODER_FAMILIES.items():
        entry = ENCODERS[name]
        model_folder = f"models--{str(entry.hub).replace('/', '--')}"
        snapshot = cache / "hub" / model_folder / "snapshots" / str(entry.revision)
        model, processor, _ = tiny(family)
        model.save_pretrained(snapshot)
        processor.save_pretrained(snapshot)


def md5_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def pictures(count: int, side: int) -> np.ndarray:
    """Different digits: (count, side, side, 3) uint8."""
    scans = np.round(load_digits().images[:count] * (255 / 16)).astype(np.uint8)
    resized = []
    for scan in scans:
        resized.append(np.asarray(Image.fromarray(scan).convert("RGB").resize((side, side))))
    return np.stack(resized)


def splits_held_out(name: str) -> np.ndarray:
    """val and test, as the published parts are split: an NPZ file under its own name."""
    size = SIZES[name]
    drawn_for = f"{name}_224" if name in INFO else name
    return split_held_out(drawn_for, size.val + size.test, size.val)


def _labels_of_train(size: Size) -> np.ndarray:
    return np.arange(size.train) % size.classes


def _labels_held_out(name: str) -> np.ndarray:
    """The labels of val and test, so that each class is in both."""
    size = SIZES[name]
    splits = splits_held_out(name)
    labels = np.empty(len(splits), dtype=int)
    for split in ("val", "test"):
        labels[splits == split] = np.arange((splits == split).sum()) % size.classes
    return labels


class CifarLayout(NamedTuple):
    """The members of CIFAR's archive, and their keys of labels and of names of classes."""

    folder: str
    batches: tuple[str, ...]
    test: str
    meta: str
    labels: str
    names: str


CIFAR_LAYOUTS = {
    "cifar10": CifarLayout(
        "cifar-10-batches-py",
        ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"),
        *("test_batch", "batches.meta", "labels", "label_names"),
    ),
    "cifar100": CifarLayout(
        "cifar-100-python",
        ("train",),
        *("test", "meta", "fine_labels", "fine_label_names"),
    ),
}


def _cifar(path: Path, name: str) -> dict[str, str]:
    """Write an archive of pickled rows of 3,072 numbers, red first, and return the md5 of its members."""
    layout = CIFAR_LAYOUTS[name]
    size = SIZES[name]
    rows = pictures(size.images, size.side).transpose(0, 3, 1, 2).reshape(size.images, -1)
    labels = np.concatenate([_labels_of_train(size), _labels_held_out(name)])
    parts = np.array_split(np.arange(size.train), len(layout.batches))
    parts.append(np.arange(size.train, size.images))
    has_superclasses = name == "cifar100"  # of five classes each
    members: dict[str, dict[str, object]] = {}
    for member, part in zip([*layout.batches, layout.test], parts, strict=True):
        members[member] = {"data": rows[part], layout.labels: labels[part].tolist()}
        if has_superclasses:
            members[member]["coarse_labels"] = (labels[part] // 5).tolist()
    members[layout.meta] = {layout.names: [f"class {label}" for label in range(size.classes)]}
    if has_superclasses:
        superclasses = [f"superclass {number}" for number in range(20)]
        members[layout.meta]["coarse_label_names"] = superclasses
    contents = {member: pickle.dumps(content, protocol=2) for member, content in members.items()}
    with tarfile.open(path, "w:gz") as archive:
        for member, content in contents.items():
            entry = tarfile.TarInfo(f"{layout.folder}/{member}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return {member: md5_of(content) for member, content in contents.items()}


def _tinyimagenet(path: Path) -> None:
    """JPEG files in folders of classes; those of val in one folder, with their classes in a table."""
    size = SIZES["tinyimagenet"]
    root = "tiny-imagenet-200"
    classes = [f"n{label:08}" for label in range(size.classes)]
    drawn = iter(pictures(size.images + 1, size.side))
    with zipfile.ZipFile(path, "w") as archive:

        def add(name: str) -> None:
            jpeg = io.BytesIO()
            Image.fromarray(next(drawn)).save(jpeg, "JPEG")
            archive.writestr(f"{root}/{name}", jpeg.getvalue())

        archive.writestr(f"{root}/wnids.txt", "\n".join(classes))
        for number, label in enumerate(_labels_of_train(size)):
            add(f"train/{classes[label]}/images/{classes[label]}_{number}.JPEG")
        in_val = sorted(f"val_{number}.JPEG" for number in range(size.val + size.test))
        lines = [
            f"{name}\t{classes[label]}\t0\t0\t63\t63"
            for name, label in zip(in_val, _labels_held_out("tinyimagenet"), strict=True)
        ]
        archive.writestr(f"{root}/val/val_annotations.txt", "\n".join(lines))
        for name in in_val:
            add(f"val/images/{name}")
        add("test/images/test_0.JPEG")  # without a label


def _medmnist(path: Path, name: str) -> None:
    """Arrays of images and of labels, a column, for each split. PathMNIST's val is what becomes val and test."""
    size = SIZES[name]
    assert size.classes == len(INFO[name]["label"])
    labels = {"train": _labels_of_train(size), "val": np.arange(size.val) % size.classes}
    labels["test"] = np.arange(size.test) % size.classes
    if name == "pathmnist":
        labels |= {"val": _labels_held_out(name), "test": labels["test"][:1]}
    parts = np.split(
        pictures(sum(map(len, labels.values())), size.side),
        np.cumsum(list(map(len, labels.values()))),
    )
    arrays = {f"{split}_images": part for split, part in zip(labels, parts, strict=False)}
    np.savez_compressed(
        path, **arrays, **{f"{split}_labels": each[:, None] for split, each in labels.items()}
    )
