"""The prepared form of a data set, which all later stages read.

A folder with `images.npy` (uint8, N x H x W x 3, memory-mapped), `samples.csv` (id, split, label,
the picture's name, and the unit) and `classes.json`.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from munkey.core.console import Report, pluralize
from munkey.core.files import (
    DamagedFileError,
    atomic_with_checksum,
    map_npy,
    read_csv,
    read_json,
    write_csv,
    write_json,
)
from munkey.core.ids import find_rows
from munkey.data.intake.copies import format_conflicting_copies_warning
from munkey.data.intake.unit_names import (
    format_large_units_warning,
    format_similar_names_warning,
    normalize_name,
    unit_names,
)
from munkey.data.source import SPLITS, Source, SourceError, find_image_faults

FEW_IMAGES_ADVICE = (
    "Add images; omit such classes (source.only lists the classes to use); or split the images"
    " differently (source.split, or your own splits: docs/data.md)"
)
MAX_CLASSES = 25_000  # ImageNet-21k has 21,841


@dataclass(frozen=True)
class Dataset:
    """A prepared data set. The ids are ascending, and row i of every array belongs to ids[i].

    Attributes
    ----------
    images
        (N, H, W, 3) uint8, memory-mapped.
    ids, labels
        (N,) int64.
    splits
        (N,) str.
    units
        The unit of each sample, or None; None instead of a tuple for a data set without units.
    """

    images: np.ndarray
    ids: np.ndarray
    labels: np.ndarray
    splits: np.ndarray
    classes: list[str]
    units: tuple[str | None, ...] | None = None

    def get_ids(self, split: str) -> np.ndarray:
        """Return the sorted sample ids of a split."""
        return self.ids[self.splits == split]

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Return the row numbers of sample ids. Raises KeyError for an unknown id."""
        return find_rows(self.ids, ids)


def prepare(
    source: Source,
    folder: str | Path,
    report: Report = print,
    *,
    min_train: int = 1,
    max_train: Mapping[str, int] | None = None,
) -> None:
    """Check a source and write its prepared form, one block of images at a time.

    Raises SourceError with all faults of the source, and ValueError if its arrays differ in length,
    or images in size or channels. Reports warnings about large units, similar names, and copies of
    an image in different classes, units or splits. A killed process leaves no file that looks
    complete.

    Parameters
    ----------
    min_train
        The smallest number of training samples, for neighbors.
    max_train
        Largest numbers of training samples, by what a message says of each.
    """
    folder = Path(folder)
    if source.units is not None:
        source = replace(source, units=unit_names(source.units))
    source = replace(source, classes=[normalize_name(name) for name in source.classes])
    faults = _find_repeated_classes(source.classes)
    faults += _find_label_faults(source, min_train, max_train or {})
    if faults:
        faults += find_image_faults(source.blocks())
        raise SourceError("the data set cannot be used", faults)
    # A killed preparation may have left up to 15 GB in a temporary file.
    for leftover in folder.glob(".images.npy.*.npy"):
        leftover.unlink()
    with atomic_with_checksum(folder / "images.npy") as temporary:
        digests = _write_images(source, temporary)
        # A process killed from here on must not leave new images beside the samples of old ones.
        (folder / "samples.csv").unlink(missing_ok=True)
    for warning in _find_suspicious_samples(source, digests):
        report(f"WARNING: {warning}")
    write_csv(folder / "samples.csv", _make_sample_rows(source))
    write_json(folder / "classes.json", source.classes)


def _find_suspicious_samples(source: Source, digests: np.ndarray) -> list[str]:
    """Return warnings about copies, similar names, and large units, which may be mistakes."""
    names = source.names or [f"image {number}" for number in range(len(digests))]
    classes = [source.classes[label] for label in source.labels.tolist()]
    contents = digests.tolist()
    warnings = [
        format_conflicting_copies_warning(contents, classes, "class", names),
        format_similar_names_warning(source.classes, "classes"),
    ]
    if source.units is not None:
        present_units = [unit for unit in source.units if unit is not None]
        warnings.append(format_similar_names_warning(present_units, "units"))
        warnings.append(format_conflicting_copies_warning(contents, source.units, "unit", names))
        warnings.append(format_large_units_warning(source.units))
    duplicates = _count_duplicates_across_splits(digests, source.splits)
    if duplicates:
        warnings.append(
            f"{duplicates} images of val or test also occur in another split, pixel by pixel,"
            " so they show nothing about forgetting"
        )
    return [warning for warning in warnings if warning]


def _make_sample_rows(source: Source) -> list[dict[str, object]]:
    """Make the rows of samples.csv."""
    rows = []
    for position, label in enumerate(source.labels.tolist()):
        row: dict[str, object] = {
            "id": position,
            "split": str(source.splits[position]),
            "label": label,
        }
        if source.names is not None:
            row["name"] = source.names[position]
        if source.units is not None:
            row["unit"] = source.units[position] or ""
        rows.append(row)
    return rows


def load(folder: str | Path) -> Dataset:
    """Check and open a prepared data set, with its images memory-mapped.

    Raises DamagedFileError if a file was changed or the files are inconsistent.
    """
    folder = Path(folder)
    samples = read_csv(folder / "samples.csv")
    images = map_npy(folder / "images.npy")
    if len(images) != len(samples):
        raise DamagedFileError(
            folder / "images.npy", f"has {len(images)} images, but samples.csv has {len(samples)}"
        )
    units = None
    if "unit" in samples[0]:
        units = tuple(sample["unit"] or None for sample in samples)
    return Dataset(
        images=images,
        ids=np.array([int(sample["id"]) for sample in samples], dtype=np.int64),
        labels=np.array([int(sample["label"]) for sample in samples], dtype=np.int64),
        splits=np.array([sample["split"] for sample in samples]),
        classes=read_json(folder / "classes.json"),
        units=units,
    )


def _find_repeated_classes(classes: list[str]) -> list[str]:
    """Find names that several classes have, once they are normalized."""
    faults = []
    for name, count in Counter(classes).items():
        if count > 1:
            faults.append(f"{count} classes are named {name!r}, but for the Unicode form or spaces")
    return faults


def _find_label_faults(source: Source, min_train: int, max_train: Mapping[str, int]) -> list[str]:
    """Find faults in the labels and splits of a source; too many classes, or one, hide all others."""
    labels = source.labels
    splits = source.splits
    classes = source.classes
    if len(labels) != len(splits):
        raise ValueError(f"{len(labels)} labels and {len(splits)} splits: must be equal in number")
    if len(classes) > MAX_CLASSES:
        return [
            f"{len(classes):,} classes, but at most {MAX_CLASSES:,} are allowed: are the labels really classes?"
        ]
    if len(classes) == 1:
        return [
            f"only one class, {classes[0]!r}: is source.path the folder that contains the class folders?"
        ]
    faults = []
    split_names = set(splits.tolist())
    if not split_names <= set(SPLITS):
        faults.append(f"splits must be {', '.join(SPLITS)}, not {', '.join(sorted(split_names))}")
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(classes):
        advice = ""
        if labels.min() > 0 and labels.max() - labels.min() < len(classes):
            advice = f"; if they begin at {labels.min()}, set source.first_label to {labels.min()}"
        faults.append(
            f"labels range from {labels.min()} to {labels.max()}, but there are {len(classes)} classes: they must be"
            f" numbered 0 to {len(classes) - 1} without gaps{advice}"
        )
    if not faults:
        faults += _find_missing_classes(labels, splits, classes)
    if not faults and np.bincount(labels[splits == "test"]).max() < 2:
        faults.append(
            "split 'test' has only one image of each class: the membership attack needs two of at least one class"
        )
    count = int((splits == "train").sum())
    if count < min_train:
        faults.append(
            f"{count} training samples; keys.depth and forget.rates need at least {min_train}"
        )
    for reason, limit in max_train.items():
        if count > limit:
            faults.append(f"{count:,} training samples; {reason}")
    return faults


def _find_missing_classes(labels: np.ndarray, splits: np.ndarray, classes: list[str]) -> list[str]:
    """Find classes without an image in some split. The first fault also says what to do."""
    faults = []
    for label, name in enumerate(classes):
        splits_of_class = splits[labels == label]
        missing_splits = [repr(split) for split in SPLITS if split not in splits_of_class]
        if len(splits_of_class) == 0:
            faults.append(f"class {name!r} has no image")
        elif missing_splits:
            count = pluralize(len(splits_of_class), "image")
            faults.append(
                f"no image of class {name!r} in split {' and '.join(missing_splits)}: it has {count} in total"
            )
    if faults:
        faults[0] += f". {FEW_IMAGES_ADVICE}"
    return faults


def _write_images(source: Source, path: Path) -> np.ndarray:
    """Write the images, (N, H, W, 3) uint8 of one size, and return a digest of each: (N,) uint64."""
    count = len(source.labels)
    image_shape: tuple[int, ...] | None = None
    digests = []
    with path.open("wb") as file:
        for block in source.blocks():
            if block.dtype != np.uint8 or block.ndim != 4 or block.shape[-1] != 3:
                raise ValueError(
                    f"images must be (N, H, W, 3) uint8, not {block.shape} {block.dtype}"
                )
            if image_shape is None:
                # The first block determines the images' size, and the labels their number.
                image_shape = block.shape[1:]
                header = {"descr": "|u1", "fortran_order": False, "shape": (count, *image_shape)}
                np.lib.format.write_array_header_1_0(file, header)
            if block.shape[1:] != image_shape:
                raise ValueError(
                    f"images must have one size: the first is {image_shape}, but another is"
                    f" {block.shape[1:]}"
                )
            file.write(np.ascontiguousarray(block).data)
            for image in block:
                digest = hashlib.blake2b(image.tobytes(), digest_size=8).digest()
                digests.append(int.from_bytes(digest, "little"))
    if len(digests) != count:
        raise ValueError(f"{len(digests)} images and {count} labels: must be equal in number")
    return np.array(digests, dtype=np.uint64)


def _count_duplicates_across_splits(digests: np.ndarray, splits: np.ndarray) -> int:
    """Count images of val that occur in train, and images of test that occur in train or val."""
    earlier_digests: set[int] = set()
    duplicates = 0
    for split in SPLITS:
        split_digests = digests[splits == split].tolist()
        for digest in split_digests:
            if digest in earlier_digests:
                duplicates += 1
        earlier_digests.update(split_digests)
    return duplicates
