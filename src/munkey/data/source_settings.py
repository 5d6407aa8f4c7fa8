"""Settings that any data set supports: class names, fewer samples, another size, alterations."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TypeVar

import numpy as np

from munkey.core.randomness import Stage
from munkey.data.decoding.picture_files import resize
from munkey.data.intake.unit_names import match_classes, normalize_name, suggest_names
from munkey.data.sizes import get_class_limit
from munkey.data.source import SPLITS, Source, SourceError
from munkey.data.splits import UNSPLIT, complete_splits
from munkey.settings import AlterSettings, SourceSettings

TextT = TypeVar("TextT", str, str | None)
# The unit of altered samples, and of the test samples that show whether forgetting corrected them.
ALTERED = "altered"
PATCH = 3 / 32  # side of the patch, relative to the picture's side
BRIGHTNESS = 1.15  # brightness factor of a near-duplicate


def apply_source_settings(source: Source, settings: SourceSettings) -> Source:
    """Apply source.classes, only, limit_per_class, val_from and storage_size.

    Raises SourceError if a setting does not fit the source.
    """
    if settings.first_label and source.classes[0] != str(settings.first_label):
        raise SourceError(
            "source.first_label", ["applies only to the numbered classes of NPZ and IDX files"]
        )
    if settings.classes is not None:
        _check_class_names(source.classes, settings.classes)
        class_names = [normalize_name(name) for name in settings.classes]
        for name, count in Counter(class_names).items():
            if count > 1:
                fault = f"two classes are named {name!r}, but for the Unicode form or spaces"
                raise SourceError("source.classes", [fault])
        source = replace(source, classes=class_names)
    if settings.only is not None:
        source = select_classes(source, settings.only)
    if settings.units is not None and source.units is None:
        raise SourceError(
            "source.units",
            ["applies only to image folders: this data set has no file paths to search"],
        )
    if settings.limit_per_class is not None:
        limits = {split: get_class_limit(settings, split) for split in SPLITS}
        source = limit_per_class(source, limits)
    if settings.val_from == "train":
        source = draw_val_from_train(source, settings.split)
    if settings.storage_size is not None:
        source = replace(source, images=_resize_images(source, settings.storage_size))
    return source


def _check_class_names(numbers: list[str], names: list[str]) -> None:
    """Raise SourceError unless the classes are numbers and there is one name for each."""
    if not all(number.isdecimal() for number in numbers):
        raise SourceError(
            "source.classes",
            [f"must be null: the classes already have names ({', '.join(numbers[:20])})"],
        )
    if len(numbers) != len(names):
        raise SourceError(
            "source.classes", [f"lists {len(names)} classes, but there are {len(numbers)} labels"]
        )


def limit_per_class(source: Source, limits: Mapping[str, int | None]) -> Source:
    """Keep the first samples of each class in each split, up to the split's limit, if it has one."""
    import pandas as pd

    samples = pd.DataFrame({"split": source.splits, "label": source.labels})
    number_in_class = samples.groupby(["split", "label"]).cumcount().to_numpy()
    # None, which means no limit, becomes NaN, and NaN infinity.
    limit_of_split = samples["split"].map(limits).astype(float).fillna(np.inf).to_numpy()
    return _select_samples(source, number_in_class < limit_of_split)


def draw_val_from_train(source: Source, shares: Sequence[float]) -> Source:
    """Draw val from the training samples, by class and whole units; the source's val becomes test.

    `shares` are those of train, val and test.
    """
    train_share, val_share, _ = shares
    splits = source.splits.copy()
    splits[splits == "val"] = "test"
    is_train = splits == "train"
    units = None
    if source.units is not None:
        units = list(compress(source.units, is_train))
    splits[is_train] = complete_splits(
        "val from train",
        [UNSPLIT] * int(is_train.sum()),
        source.labels[is_train],
        [train_share, val_share, 0.0],
        units,
    )
    return replace(source, splits=splits)


def select_classes(source: Source, names: Sequence[str]) -> Source:
    """Keep only the samples of these classes, in the same order.

    Raises SourceError for an unknown class.
    """
    kept_labels = sorted(_find_labels("source.only", names, source))
    selection = _select_samples(source, np.isin(source.labels, kept_labels))
    return replace(
        selection,
        # The labels are renumbered, from 0 and without gaps.
        labels=np.searchsorted(kept_labels, selection.labels),
        classes=[source.classes[label] for label in kept_labels],
    )


def _find_labels(setting: str, names: Sequence[str], source: Source) -> list[int]:
    """Return the labels of classes by name. Raises SourceError for an unknown class."""
    labels = []
    for name, label in zip(names, match_classes(names, source.classes), strict=True):
        if label is None:
            raise SourceError(
                setting, [f"there is no class {name!r}{suggest_names(name, source.classes)}"]
            )
        labels.append(label)
    return labels


def _select_samples(source: Source, keep: np.ndarray) -> Source:
    """Keep the samples where `keep`, (N,) bool, is true."""

    def select(column: Sequence[TextT] | None) -> list[TextT] | None:
        if column is None:
            return None
        return list(compress(column, keep))

    return replace(
        source,
        images=_select_images(source, keep),
        labels=source.labels[keep],
        splits=source.splits[keep],
        names=select(source.names),
        units=select(source.units),
    )


def _select_images(source: Source, keep: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the blocks with only the images where `keep`, (N,) bool, is true."""
    start = 0
    for block in source.blocks():
        yield block[keep[start : start + len(block)]]
        start += len(block)


def _resize_images(source: Source, size: int) -> Iterator[np.ndarray]:
    """Yield the blocks with every image resized to size x size."""
    for block in source.blocks():
        if not len(block):  # for example, no image of this block belongs to a selected class
            continue
        if block.shape[1:3] == (size, size):
            yield block
        else:
            yield np.stack([resize(image, (size, size)) for image in block])


def alter_samples(source: Source, settings: AlterSettings, stage: Stage) -> Source:
    """Alter some samples or labels, to test whether forgetting them undoes the damage.

    Raises SourceError for an unknown class, or if no sample would be altered.
    """
    classes = _find_labels("source.alter.classes", settings.classes, source)
    generator = stage.numpy_generator()
    if settings.kind == "confusion":
        return _confuse_classes(source, classes, settings.share, generator)
    if settings.kind == "patch":
        return _poison_with_patches(source, classes[0], settings.share, generator)
    return _add_near_duplicates(source, settings.share, generator)


def _confuse_classes(
    source: Source, classes: Sequence[int], share: float, generator: np.random.Generator
) -> Source:
    """Swap the labels of a share of two classes' training samples (Goel et al. 2024).

    These get the unit ALTERED, as do the two classes' test samples, which keep their labels.
    """
    is_in_classes = np.isin(source.labels, classes)
    is_train = source.splits == "train"
    is_test = source.splits == "test"
    is_mislabeled = _draw_share(is_train & is_in_classes, share, generator)
    labels = source.labels.copy()
    # For classes a and b: a + b - a = b, and a + b - b = a.
    labels[is_mislabeled] = sum(classes) - labels[is_mislabeled]
    is_altered = is_mislabeled | (is_in_classes & is_test)
    return replace(source, labels=labels, units=_make_altered_units(is_altered))


def _poison_with_patches(
    source: Source, target: int, share: float, generator: np.random.Generator
) -> Source:
    """Add a patch and the target's label to a share of the other classes' training samples.

    Half of these classes' test samples get the patch only. All with a patch get the unit ALTERED.
    """
    is_other = source.labels != target
    is_train = source.splits == "train"
    is_test = source.splits == "test"
    is_mislabeled = _draw_share(is_train & is_other, share, generator)
    labels = source.labels.copy()
    labels[is_mislabeled] = target
    has_patch = is_mislabeled | _draw_share(is_test & is_other, 0.5, generator)
    return replace(
        source,
        labels=labels,
        units=_make_altered_units(has_patch),
        images=_add_patches(source, has_patch),
    )


def _draw_share(candidates: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Draw a share of the candidates (N,) bool. Raises SourceError if it rounds to none."""
    rows = np.flatnonzero(candidates)
    count = round(share * len(rows))
    if count == 0:
        raise SourceError(
            "source.alter.share", [f"{share} of {len(rows)} eligible samples is less than one"]
        )
    is_drawn = np.zeros(len(candidates), dtype=bool)
    is_drawn[generator.choice(rows, size=count, replace=False)] = True
    return is_drawn


def _make_altered_units(is_altered: np.ndarray) -> list[str | None]:
    return [ALTERED if flag else None for flag in is_altered.tolist()]


def _add_patches(source: Source, has_patch: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the blocks, with a checkerboard patch in the lower right corner of some images."""
    start = 0
    for block in source.blocks():
        side = max(round(PATCH * block.shape[1]), 2)  # a smaller patch would not be a checkerboard
        is_white = np.indices((side, side)).sum(axis=0) % 2 == 1
        patch = np.where(is_white, 255, 0)[:, :, None]
        patched_block = block.copy()
        patched_block[has_patch[start : start + len(block)], -side:, -side:] = patch
        start += len(block)
        yield patched_block


def _add_near_duplicates(source: Source, share: float, generator: np.random.Generator) -> Source:
    """Append near-duplicates of a share of the training samples. Each pair shares a unit."""
    has_twin = _draw_share(source.splits == "train", share, generator)
    rows = np.flatnonzero(has_twin).tolist()
    twin_units = [f"pair-{row}" for row in rows]
    units: list[str | None] = [None] * len(has_twin)
    for row, unit in zip(rows, twin_units, strict=True):
        units[row] = unit
    names = None
    if source.names is not None:
        names = [*source.names, *(f"{source.names[row]}, again" for row in rows)]
    return Source(
        images=_append_near_duplicates(source, has_twin),
        labels=np.concatenate([source.labels, source.labels[rows]]),
        splits=np.concatenate([source.splits, source.splits[rows]]),
        classes=source.classes,
        names=names,
        units=[*units, *twin_units],
    )


def _append_near_duplicates(source: Source, has_twin: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the blocks, and then one block of near-duplicates of the images where `has_twin` is true."""
    start = 0
    twins: list[np.ndarray] = []
    for block in source.blocks():
        for image in block[has_twin[start : start + len(block)]]:
            twins.append(_make_near_duplicate(image))
        start += len(block)
        yield block
    yield np.stack(twins)


def _make_near_duplicate(image: np.ndarray) -> np.ndarray:
    """Crop the top and left of a square image (H, W, 3) uint8, brighten it, and resize it back."""
    side = image.shape[0]
    margin = max(side // 16, 1)
    pixels = BRIGHTNESS * image[margin:, margin:].astype(np.float64)
    brighter_image = np.clip(pixels, 0, 255).astype(np.uint8)
    return resize(brighter_image, (side, side))
