"""What holds for every data set alike: taking the first of each class only, and the size that images are stored at."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from munkey.data import SPLITS, Source
from munkey.data.pictures import resize

if TYPE_CHECKING:
    from munkey.params import SourceParams


def shaped(found: Source, source: "SourceParams") -> Source:
    """The source as source.limit_per_class and source.storage_size want it; images still come block by block."""
    if source.limit_per_class is not None:
        found = limited(found, source.limit_per_class)
    if source.storage_size is not None:
        found = replace(found, images=_resized(found, source.storage_size))
    return found


def limited(found: Source, limit: int) -> Source:
    """The first `limit` samples of each class in each split, in their order."""
    keep = np.zeros(len(found.labels), dtype=bool)
    for split in SPLITS:
        for label in range(len(found.classes)):
            keep[np.flatnonzero((found.splits == split) & (found.labels == label))[:limit]] = True
    return replace(
        found,
        images=_kept(found, keep),
        labels=found.labels[keep],
        splits=found.splits[keep],
        names=None if found.names is None else [name for name, kept in zip(found.names, keep, strict=True) if kept],
    )


def _kept(found: Source, keep: np.ndarray) -> Iterator[np.ndarray]:
    start = 0
    for block in found.blocks():
        yield block[keep[start : start + len(block)]]
        start += len(block)


def _resized(found: Source, size: int) -> Iterator[np.ndarray]:
    for block in found.blocks():
        if len(block):
            yield block if block.shape[1:3] == (size, size) else np.stack([resize(image, size) for image in block])
