"""What any data set can be asked for: fewer samples, another size, names of classes, something wrong in a copy."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import TypeVar

import numpy as np

from munkey.core.randomness import Stage
from munkey.core.registry import meant
from munkey.data.decoding.picture_files import resize
from munkey.data.source import Source, SourceError
from munkey.settings import AlterSettings, SourceSettings

Text = TypeVar("Text", str, str | None)
ALTERED = "altered"  # the unit of what is wrong, and of the test samples that show whether it was corrected
PATCH = 3 / 32  # side of the patch, of that of the picture
BRIGHTER = 1.15


def shaped(source: Source, settings: SourceSettings) -> Source:
    """The source with source.classes, only, limit_per_class and storage_size applied. Its images still come in blocks.

    Raises SourceError if the classes cannot be given these names, or are not there.
    """
    if settings.classes is not None:
        source = replace(source, classes=_names_for(source.classes, settings.classes))
    if settings.only is not None:
        source = of_classes(source, settings.only)
    if settings.units is not None and source.units is None:
        raise SourceError("source.units", ["is for folders of pictures alone: this data set has no paths to look in"])
    if settings.limit_per_class is not None:
        source = limited(source, settings.limit_per_class)
    if settings.storage_size is not None:
        source = replace(source, images=_resized(source, settings.storage_size))
    return source


def _names_for(numbers: list[str], names: list[str]) -> list[str]:
    """The names, if they stand for as many classes that are numbers."""
    if not all(number.isdecimal() for number in numbers):
        raise SourceError("source.classes", [f"must be null, the classes have names: {', '.join(numbers[:20])}"])
    if len(numbers) != len(names):
        raise SourceError("source.classes", [f"names {len(names)} classes, but there are {len(numbers)} labels"])
    return list(names)


def limited(source: Source, limit: int) -> Source:
    """The first `limit` samples of each class in each split, in their order."""
    import pandas as pd

    samples = pd.DataFrame({"split": source.splits, "label": source.labels})
    return _kept(source, samples.groupby(["split", "label"]).cumcount().to_numpy() < limit)


def of_classes(source: Source, names: Sequence[str]) -> Source:
    """The samples of these classes alone, in the order that the source has. Raises SourceError for an unknown one."""
    _check_classes("source.only", names, source)
    held = [label for label, name in enumerate(source.classes) if name in names]
    taken = _kept(source, np.isin(source.labels, held))
    return replace(taken, labels=np.searchsorted(held, taken.labels), classes=[source.classes[each] for each in held])


def _check_classes(setting: str, names: Sequence[str], source: Source) -> None:
    if unknown := [name for name in names if name not in source.classes]:
        raise SourceError(setting, [f"there is no class {unknown[0]!r}{meant(unknown[0], source.classes)}"])


def _kept(source: Source, keep: np.ndarray) -> Source:
    """The samples that are to be kept. keep: (N,) bool."""

    def kept(column: Sequence[Text] | None) -> list[Text] | None:
        return None if column is None else list(compress(column, keep))

    return replace(
        source,
        images=_images_kept(source, keep),
        labels=source.labels[keep],
        splits=source.splits[keep],
        names=kept(source.names),
        units=kept(source.units),
    )


def _images_kept(source: Source, keep: np.ndarray) -> Iterator[np.ndarray]:
    """The blocks without the images that are not to be kept. keep: (N,) bool."""
    start = 0
    for block in source.blocks():
        yield block[keep[start : start + len(block)]]
        start += len(block)


def _resized(source: Source, size: int) -> Iterator[np.ndarray]:
    """The blocks with every image resized to size x size."""
    for block in source.blocks():
        if len(block):
            yield (
                block
                if block.shape[1:3] == (size, size)
                else np.stack([resize(image, (size, size)) for image in block])
            )


def altered(source: Source, settings: AlterSettings, stage: Stage) -> Source:
    """The source, altered. Its units say what is: ALTERED, or which two samples are near-duplicates.

    `confusion`: samples of two classes are labeled as the other; their test samples keep their labels (interclass
    confusion, Goel et al. 2024). `patch`: samples of all other classes get a patch and the label of one; half of their
    test samples get the patch alone. `twins`: samples stand twice, the second time cropped by a pixel or so and
    brighter. Raises SourceError for a class that there is not.
    """
    _check_classes("source.alter.classes", settings.classes, source)
    classes = [source.classes.index(name) for name in settings.classes]
    train, generator = source.splits == "train", stage.numpy_generator()
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
    """(N,) bool: a random share of those that are `among`, (N,) bool."""
    chosen, rows = np.zeros(len(among), dtype=bool), np.flatnonzero(among)
    if not round(share * len(rows)):
        raise SourceError("source.alter.share", [f"{share} of {len(rows)} samples that may be altered is none"])
    chosen[generator.choice(rows, size=round(share * len(rows)), replace=False)] = True
    return chosen


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


def _twins(source: Source, chosen: np.ndarray) -> Source:
    """The source with a near-duplicate of each chosen sample after its last."""
    rows = np.flatnonzero(chosen).tolist()
    pairs = [f"pair-{row}" if again else None for row, again in enumerate(chosen.tolist())]
    names = source.names and [*source.names, *(f"{source.names[row]}, again" for row in rows)]

    def images() -> Iterator[np.ndarray]:
        start, again = 0, list[np.ndarray]()
        for block in source.blocks():
            again += [_near_duplicate(image) for image in block[chosen[start : start + len(block)]]]
            start += len(block)
            yield block
        yield np.stack(again)

    return Source(
        images(),
        np.concatenate([source.labels, source.labels[rows]]),
        np.concatenate([source.splits, source.splits[rows]]),
        source.classes,
        names,
        [*pairs, *(f"pair-{row}" for row in rows)],
    )


def _near_duplicate(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8: without its upper and left edge, at the same size, and brighter."""
    edge = max(image.shape[0] // 16, 1)
    brighter = np.clip(BRIGHTER * image[edge:, edge:].astype(np.float64), 0, 255).astype(np.uint8)
    return resize(brighter, (image.shape[0], image.shape[0]))
