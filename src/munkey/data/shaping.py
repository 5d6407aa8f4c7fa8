"""What every data set can be asked for: only the first samples of each class, and another size of its stored images."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from munkey.data.pictures import resize
from munkey.data.source import SPLITS, Source
from munkey.settings import SourceSettings


def shaped(source: Source, settings: SourceSettings) -> Source:
    """The source with source.limit_per_class and source.storage_size applied. Its images still come in blocks."""
    if settings.limit_per_class is not None:
        source = limited(source, settings.limit_per_class)
    if settings.storage_size is not None:
        source = replace(source, images=_resized(source, settings.storage_size))
    return source


def limited(source: Source, limit: int) -> Source:
    """The first `limit` samples of each class in each split, in their order."""
    keep = np.zeros(len(source.labels), dtype=bool)
    for split in SPLITS:
        for label in range(len(source.classes)):
            keep[np.flatnonzero((source.splits == split) & (source.labels == label))[:limit]] = True
    names = source.names
    return replace(
        source,
        images=_images_kept(source, keep),
        labels=source.labels[keep],
        splits=source.splits[keep],
        names=None if names is None else [name for name, kept in zip(names, keep, strict=True) if kept],
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
