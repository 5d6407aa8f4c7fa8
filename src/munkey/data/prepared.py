"""The prepared form of a data set, which every later stage reads.

A folder with `images.npy` (uint8, N x H x W x 3, memory-mapped when it is read), `samples.csv` (id,
split, label, for picture files name and, where they are known, unit) and `classes.json`.
"""

import hashlib
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
from munkey.data.intake.copies import conflicting_copies_warning
from munkey.data.intake.unit_names import large_units_warning, unit_names
from munkey.data.source import SPLITS, Source, SourceError, find_image_faults

WAYS_OUT = (
    "Three ways out: add images; leave such classes out (source.only names those to be used); or divide the images"
    " otherwise (source.split, or splits of your own: docs/data.md)"
)
MOST_CLASSES = 25_000  # ImageNet-21k has 21,841


@dataclass(frozen=True)
class Dataset:
    """A prepared data set. The ids ascend; row i of every array belongs to ids[i].

    Attributes
    ----------
    images
        (N, H, W, 3) uint8, memory-mapped.
    ids, labels
        (N,) int64.
    splits
        (N,) str.
    units
        The person, lesion, … of each sample, None if unknown; None for a data set without
        units.
    """

    images: np.ndarray
    ids: np.ndarray
    labels: np.ndarray
    splits: np.ndarray
    classes: list[str]
    units: tuple[str | None, ...] | None = None

    def get_ids(self, split: str) -> np.ndarray:
        """Sorted sample ids of a split."""
        return self.ids[self.splits == split]

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Row numbers of sample ids. Raises KeyError for an id that is not in the data set."""
        return find_rows(self.ids, ids)


def prepare(
    source: Source,
    folder: str | Path,
    report: Report = print,
    *,
    min_train: int = 1,
    max_train: int | None = None,
) -> None:
    """Check a source and write its prepared form, one block of images at a time.

    Raises SourceError that lists everything wrong with the source. Reports a warning with the
    number of images that occur in two splits, because no test can tell whether those are forgotten.
    A killed process leaves no file that looks complete.

    Parameters
    ----------
    min_train
        The fewest training samples with which enough neighbors remain after forgetting.
    max_train
        The most training samples that the head can be fitted to.
    """
    folder = Path(folder)
    if source.units is not None:
        source = replace(source, units=unit_names(source.units))
    faults = _find_label_faults(source, min_train, max_train)
    if faults:
        faults += find_image_faults(source.blocks())
        raise SourceError("the data set cannot be used", faults)
    # A preparation that was killed may have left up to 15 GB in a temporary file.
    for leftover in folder.glob(".images.npy.*.npy"):
        leftover.unlink()
    with atomic_with_checksum(folder / "images.npy") as temporary:
        digests = _write_images(source, temporary)
    for warning in _find_suspicious_samples(source, digests):
        report(f"WARNING: {warning}")
    write_csv(folder / "samples.csv", _make_sample_rows(source))
    write_json(folder / "classes.json", source.classes)


def _find_suspicious_samples(source: Source, digests: np.ndarray) -> list[str]:
    """Return warnings about copies of images and about large units, which may be mistakes."""
    names = source.names or [f"image {number}" for number in range(len(digests))]
    classes = [source.classes[label] for label in source.labels.tolist()]
    contents = digests.tolist()
    warnings = [conflicting_copies_warning(contents, classes, "class", names)]
    if source.units is not None:
        warnings.append(conflicting_copies_warning(contents, source.units, "unit", names))
        warnings.append(large_units_warning(source.units))
    duplicates = _count_duplicates_across_splits(digests, source.splits)
    if duplicates:
        warnings.append(
            f"{duplicates} images of val or test occur in another split too, pixel by pixel:"
            " they say nothing about forgetting"
        )
    return [warning for warning in warnings if warning]


def _make_sample_rows(source: Source) -> list[dict[str, object]]:
    """Return the rows of samples.csv."""
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
    """Open a prepared data set, checked in full, without keeping its images in memory.

    Raises DamagedFileError.
    """
    folder = Path(folder)
    samples = read_csv(folder / "samples.csv")
    images = map_npy(folder / "images.npy")
    if len(images) != len(samples):
        raise DamagedFileError(
            folder / "images.npy", f"holds {len(images)} images, samples.csv {len(samples)}"
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


def _find_label_faults(source: Source, min_train: int, max_train: int | None) -> list[str]:
    """Return faults in the labels and splits of a source."""
    labels = source.labels
    splits = source.splits
    classes = source.classes
    if len(labels) != len(splits):
        raise ValueError(f"{len(labels)} labels and {len(splits)} splits: must be equal in number")
    if len(classes) > MOST_CLASSES:
        return [
            f"{len(classes):,} classes are too many, {MOST_CLASSES:,} may be: are the labels classes at all?"
        ]
    if len(classes) == 1:
        return [
            f"one class, {classes[0]!r}, is nothing to learn: is source.path the folder of the classes' folders?"
        ]
    faults = []
    split_names = set(splits.tolist())
    if not split_names <= set(SPLITS):
        faults.append(f"splits must be {', '.join(SPLITS)}, not {', '.join(sorted(split_names))}")
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(classes):
        faults.append(
            f"labels run from {labels.min()} to {labels.max()}, but there are {len(classes)} classes: they must be"
            f" numbered 0 to {len(classes) - 1} without gaps"
        )
    if not faults:
        faults += _find_missing_classes(labels, splits, classes)
    if not faults and np.bincount(labels[splits == "test"]).max() < 2:
        faults.append(
            "split 'test' has one image of each class: the membership attack needs two of at least one class"
        )
    count = int((splits == "train").sum())
    if count < min_train:
        faults.append(
            f"{count} training samples; keys.depth and forget.rates need at least {min_train}"
        )
    if max_train is not None and count > max_train:
        faults.append(
            f"{count:,} training samples; the head that munkey.head names takes at most"
            f" {max_train:,}: set it to lda"
        )
    return faults


def _find_missing_classes(labels: np.ndarray, splits: np.ndarray, classes: list[str]) -> list[str]:
    """Return faults: classes without an image in some split. The first one also says what to do."""
    faults = []
    for label, name in enumerate(classes):
        splits_of_class = splits[labels == label]
        missing_splits = [repr(split) for split in SPLITS if split not in splits_of_class]
        if len(splits_of_class) == 0:
            faults.append(f"class {name!r} has no image")
        elif missing_splits:
            count = pluralize(len(splits_of_class), "image")
            faults.append(
                f"no image of class {name!r} in split {' and '.join(missing_splits)}: it has {count} in all"
            )
    if faults:
        faults[0] += f". {WAYS_OUT}"
    return faults


def _write_images(source: Source, path: Path) -> np.ndarray:
    """Write the images as an .npy file. Returns a digest of each image: (N,) bytes."""
    count = len(source.labels)
    with path.open("wb") as file:
        digests = []
        shape: tuple[int, ...] | None = None
        for block in source.blocks():
            is_rgb = block.dtype == np.uint8 and block.ndim == 4 and block.shape[-1] == 3
            if not is_rgb or shape not in (None, block.shape[1:]):
                raise ValueError(
                    f"images must be (N, H, W, 3) uint8, not {block.shape} {block.dtype}; all alike"
                )
            if shape is None:
                # The size of the images is known from the first block, their number from the labels.
                shape = block.shape[1:]
                header = {"descr": "|u1", "fortran_order": False, "shape": (count, *shape)}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(block).data)
            for image in block:
                digests.append(hashlib.blake2b(image.tobytes(), digest_size=8).digest())
    if len(digests) != count:
        raise ValueError(
            f"{len(digests)} images, {count} labels and {len(source.splits)} splits: must be equal in number"
        )
    return np.array(digests)


def _count_duplicates_across_splits(digests: np.ndarray, splits: np.ndarray) -> int:
    """Count the images of val that occur in train, and those of test that occur in train or val."""
    earlier_digests: set[bytes] = set()
    duplicates = 0
    for split in SPLITS:
        split_digests = digests[splits == split].tolist()
        for digest in split_digests:
            if digest in earlier_digests:
                duplicates += 1
        earlier_digests.update(split_digests)
    return duplicates
