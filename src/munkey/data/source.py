"""What a data set's reader returns: images in blocks, with labels, splits and class names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from munkey.core.console import progress

SPLITS = ("train", "val", "test")


class SourceError(ValueError):
    """A data set cannot be used as it is. The message shows the first faults, `faults` holds all of them."""

    def __init__(self, what: str, faults: Sequence[str], shown: int = 20) -> None:
        self.faults = list(faults)
        more = [f"... and {len(faults) - shown} more"] if len(faults) > shown else []
        lines = [f"  - {fault}" for fault in [*faults[:shown], *more]]
        super().__init__(f"{what}: {len(faults)} faults\n" + "\n".join(lines))


def unreadable(path: str | Path, why: str) -> SourceError:
    """The error for a file of a data set that is not whole. It is its owner's: the pipeline can only read it."""
    return SourceError(f"{path} cannot be read", [f"{why}: put a whole copy in its place, then run again"])


@dataclass(frozen=True)
class Source:
    """A data set as its reader found it. A sample's id is its position.

    images: (N, H, W, 3) uint8, or blocks of them that are read once and in order, so that they need not fit in memory;
    labels: (N,) integers below len(classes); splits: (N,) names out of SPLITS; names: the files that the images came
    from, if there are any.
    """

    images: np.ndarray | Iterable[np.ndarray]
    labels: np.ndarray
    splits: np.ndarray
    classes: list[str]
    names: Sequence[str] | None = None

    def blocks(self) -> Iterable[np.ndarray]:
        """The images in blocks of (n, H, W, 3)."""
        return [self.images] if isinstance(self.images, np.ndarray) else self.images

    def with_progress(self) -> "Source":
        """The same source, which prints its progress while its blocks are read."""
        if isinstance(self.images, np.ndarray):
            return self
        return replace(self, images=progress(self.images, "block", "blocks"))


def image_faults(blocks: Iterable[np.ndarray]) -> list[str]:
    """What is wrong with the images of a source. Reads all of them and keeps none."""
    try:
        for _ in blocks:
            pass
    except SourceError as error:
        return error.faults
    return []
