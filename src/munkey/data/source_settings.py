"""What any data set can be asked for: fewer samples of each class, another size of its images, names of its classes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import TypeVar

import numpy as np

from munkey.data.pictures import resize
from munkey.data.source import Source, SourceError
from munkey.settings import SourceSettings

Text = TypeVar("Text", str, str | None)


def shaped(source: Source, settings: SourceSettings) -> Source:
    """The source with source.classes, limit_per_class and storage_size applied. Its images still come in blocks.

    Raises SourceError if the classes cannot be given these names.
    """
    if settings.classes is not None:
        source = replace(source, classes=_names_for(source.classes, settings.classes))
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
    keep = samples.groupby(["split", "label"]).cumcount().to_numpy() < limit

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
            yield block if block.shape[1:3] == (size, size) else np.stack([resize(image, size) for image in block])
