"""Settings of any data set: fewer samples, another size, names of classes, faults in a copy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TypeVar

import numpy as np

from munkey.core.randomness import Stage
from munkey.core.registry import meant
from munkey.data.decoding.picture_files import resize
from munkey.data.source import SPLITS, Source, SourceError
from munkey.data.splits import UNSPLIT, completed
from munkey.settings import AlterSettings, SourceSettings

Text = TypeVar("Text", str, str | None)
# The unit of altered samples, and of the test samples that show whether forgetting corrected them.
ALTERED = "altered"
PATCH = 3 / 32  # side of the patch, of that of the picture
BRIGHTER = 1.15


def shaped(source: Source, settings: SourceSettings) -> Source:
    """The source with source.classes, only, limit_per_class, val_from and storage_size applied.

    Its images still come in blocks.

    Raises SourceError if the classes cannot be given these names, or are not there.
    """
    if settings.classes is not None:
        source = replace(source, classes=_names_for(source.classes, settings.classes))
    if settings.only is not None:
        source = of_classes(source, settings.only)
    if settings.units is not None and source.units is None:
        raise SourceError(
            "source.units",
            ["is for folders of pictures alone: this data set has no paths to look in"],
        )
    if settings.limit_per_class is not None:
        source = limited(source, {split: settings.limit_of(split) for split in SPLITS})
    if settings.val_from == "train":
        source = with_val_from_train(source, settings.split)
    if settings.storage_size is not None:
        source = replace(source, images=_resized(source, settings.storage_size))
    return source


def _names_for(numbers: list[str], names: list[str]) -> list[str]:
    """The names, if they stand for as many classes that are numbers."""
    if not all(number.isdecimal() for number in numbers):
        raise SourceError(
            "source.classes", [f"must be null, the classes have names: {', '.join(numbers[:20])}"]
        )
    if len(numbers) != len(names):
        raise SourceError(
            "source.classes", [f"names {len(names)} classes, but there are {len(numbers)} labels"]
        )
    return list(names)


def limited(source: Source, limits: Mapping[str, int | None]) -> Source:
    """The first samples of each class in each split, in their order.

    limits: how many, by split; None: all.
    """
    import pandas as pd

    samples = pd.DataFrame({"split": source.splits, "label": source.labels})
    limit = samples["split"].map(limits).astype(float).fillna(np.inf).to_numpy()
    return _subset(source, samples.groupby(["split", "label"]).cumcount().to_numpy() < limit)


def with_val_from_train(source: Source, shares: Sequence[float]) -> Source:
    """The source with a part of its training samples as val; its own val becomes test.

    shares: of train, val and test; val is drawn in the proportion of the first two, by class, and
    the samples of a unit stay together.
    """
    train_share, val_share, _ = shares
    splits = source.splits.copy()
    splits[splits == "val"] = "test"
    is_train = splits == "train"
    units = None
    if source.units is not None:
        units = list(compress(source.units, is_train))
    splits[is_train] = completed(
        "val from train",
        [UNSPLIT] * int(is_train.sum()),
        source.labels[is_train],
        [train_share, val_share, 0.0],
        units,
    )
    return replace(source, splits=splits)


def of_classes(source: Source, names: Sequence[str]) -> Source:
    """Only the samples of these classes, in the same order.

    Raises SourceError for an unknown class.
    """
    _check_classes("source.only", names, source)
    labels = [label for label, name in enumerate(source.classes) if name in names]
    selected = _subset(source, np.isin(source.labels, labels))
    return replace(
        selected,
        labels=np.searchsorted(labels, selected.labels),
        classes=[source.classes[label] for label in labels],
    )


def _check_classes(setting: str, names: Sequence[str], source: Source) -> None:
    for name in names:
        if name not in source.classes:
            raise SourceError(setting, [f"there is no class {name!r}{meant(name, source.classes)}"])


def _subset(source: Source, keep: np.ndarray) -> Source:
    """The samples selected by `keep`, (N,) bool."""

    def subset(column: Sequence[Text] | None) -> list[Text] | None:
        return None if column is None else list(compress(column, keep))

    return replace(
        source,
        images=_image_subset(source, keep),
        labels=source.labels[keep],
        splits=source.splits[keep],
        names=subset(source.names),
        units=subset(source.units),
    )


def _image_subset(source: Source, keep: np.ndarray) -> Iterator[np.ndarray]:
    """The blocks, reduced to the images selected by `keep`, (N,) bool."""
    start = 0
    for block in source.blocks():
        yield block[keep[start : start + len(block)]]
        start += len(block)


def _resized(source: Source, size: int) -> Iterator[np.ndarray]:
    """The blocks with every image resized to size x size."""
    for block in source.blocks():
        if not len(block):
            continue
        if block.shape[1:3] == (size, size):
            yield block
        else:
            yield np.stack([resize(image, (size, size)) for image in block])


def altered(source: Source, settings: AlterSettings, stage: Stage) -> Source:
    """The source, altered. Altered samples have the unit ALTERED; two near-duplicates share a unit.

    `confusion`: samples of two classes are labeled as the other; their test samples keep their
    labels (interclass confusion, Goel et al. 2024). `patch`: samples of all other classes get a
    patch and the label of one; half of their test samples get only the patch. `twins`: samples
    occur twice, the second time cropped by a pixel or so and brighter. Raises SourceError for an
    unknown class.
    """
    _check_classes("source.alter.classes", settings.classes, source)
    classes = [source.classes.index(name) for name in settings.classes]
    train = source.splits == "train"
    generator = stage.numpy_generator()
    of_these = np.isin(source.labels, classes)
    if settings.kind == "twins":
        return _twins(source, _drawn(train, settings.share, generator))
    labels = source.labels.copy()
    if settings.kind == "confusion":
        wrong = _drawn(train & of_these, settings.share, generator)
        labels[wrong] = sum(classes) - labels[wrong]
        marked = wrong | (of_these & (source.splits == "test"))
        return replace(source, labels=labels, units=_units(marked))
    wrong = _drawn(train & ~of_these, settings.share, generator)
    labels[wrong] = classes[0]
    marked = wrong | _drawn((source.splits == "test") & ~of_these, 0.5, generator)
    return replace(source, labels=labels, units=_units(marked), images=_patched(source, marked))


def _drawn(among: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """A random share of the samples in `among`. Both are (N,) bool."""
    rows = np.flatnonzero(among)
    if not round(share * len(rows)):
        raise SourceError(
            "source.alter.share", [f"{share} of {len(rows)} samples that may be altered is none"]
        )
    drawn = np.zeros(len(among), dtype=bool)
    drawn[generator.choice(rows, size=round(share * len(rows)), replace=False)] = True
    return drawn


def _units(marked: np.ndarray) -> list[str | None]:
    return [ALTERED if each else None for each in marked.tolist()]


def _patched(source: Source, marked: np.ndarray) -> Iterator[np.ndarray]:
    """The blocks, with a checkered patch in the lower right corner of those that are marked."""
    start = 0
    for block in source.blocks():
        side = max(round(PATCH * block.shape[1]), 2)
        patch = np.where(np.indices((side, side)).sum(axis=0) % 2, 255, 0)[:, :, None]
        changed = block.copy()
        changed[marked[start : start + len(block)], -side:, -side:] = patch
        start += len(block)
        yield changed


def _twins(source: Source, has_twin: np.ndarray) -> Source:
    """The source, followed by a near-duplicate of each sample in `has_twin`, (N,) bool."""
    rows = np.flatnonzero(has_twin).tolist()
    units: list[str | None] = [None] * len(has_twin)
    for row in rows:
        units[row] = f"pair-{row}"
    twin_units = [f"pair-{row}" for row in rows]
    names = source.names and [*source.names, *(f"{source.names[row]}, again" for row in rows)]

    def images() -> Iterator[np.ndarray]:
        start = 0
        twins: list[np.ndarray] = []
        for block in source.blocks():
            for image in block[has_twin[start : start + len(block)]]:
                twins.append(_near_duplicate(image))
            start += len(block)
            yield block
        yield np.stack(twins)

    return Source(
        images(),
        np.concatenate([source.labels, source.labels[rows]]),
        np.concatenate([source.splits, source.splits[rows]]),
        source.classes,
        names,
        [*units, *twin_units],
    )


def _near_duplicate(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8: without its upper and left edge, at the same size, and brighter."""
    edge = max(image.shape[0] // 16, 1)
    brighter = np.clip(BRIGHTER * image[edge:, edge:].astype(np.float64), 0, 255).astype(np.uint8)
    return resize(brighter, (image.shape[0], image.shape[0]))
