"""The result of a data set's reader: images in blocks, with labels, splits and class names."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from munkey.core.console import progress
from munkey.core.files import explain_content

SPLITS = ("train", "val", "test")
# The split of each name that a folder, a cell, or an array may have.
SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
MAX_LISTED = 20  # faults listed in an error
MAX_EXAMPLES = 5  # faults listed in a warning about pictures that are left out


def find_split(name: str) -> str | None:
    """Return the split that the name of a folder or a cell means, in upper or lower case, or None."""
    return SPLIT_NAMES.get(name.strip().casefold())


class SourceError(ValueError):
    """A data set cannot be used: `what` has these faults. The message lists the first."""

    def __init__(self, what: str, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        plural = "" if len(faults) == 1 else "s"
        lines = [f"{what}: {len(faults)} fault{plural}", *format_list(faults, MAX_LISTED)]
        super().__init__(escape_undecodable("\n".join(lines)))


def format_list(faults: Sequence[str], limit: int) -> list[str]:
    """Format the first `limit` faults as lines of a list, and the number of the others."""
    lines = [f"  - {fault}" for fault in faults[:limit]]
    if len(faults) > limit:
        lines.append(f"  - ... and {len(faults) - limit} more")
    return lines


def require_real_file(path: Path) -> None:
    """Raise SourceError for a pointer of Git LFS, for example, in the place of a file."""
    with path.open("rb") as file:
        explanation = explain_content(file.read(64))
    if explanation:
        raise SourceError(str(path), [f"{path}: {explanation}"])


def escape_undecodable(name: str) -> str:
    """Escape bytes that are not UTF-8 in a file name, as in caf\\xe9.png, to make it printable."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@contextmanager
def reraise_as_source_error(name: str) -> Iterator[None]:
    """Convert any error in the block to a SourceError that names the file."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(
            name, [f"{name}: cannot be read ({type(error).__name__}: {error})"]
        ) from error


def number_classes(labels: np.ndarray, first_label: int = 0) -> list[str]:
    """Return numbers from `first_label` as class names, one for each distinct label."""
    return [str(first_label + number) for number in range(len(np.unique(labels)))]


@dataclass(frozen=True)
class Source:
    """A data set as its reader returns it. A sample's id is its position.

    Attributes
    ----------
    images
        (N, H, W, 3) uint8, or an iterable of blocks, which is read once and may exceed memory.
    labels
        (N,) integers below len(classes).
    splits
        (N,) names from SPLITS.
    names
        The images' source files; None if they have no files of their own.
    units
        The unit of each sample; None for a sample without one.
    """

    images: np.ndarray | Iterable[np.ndarray]
    labels: np.ndarray
    splits: np.ndarray
    classes: list[str]
    names: Sequence[str] | None = None
    units: Sequence[str | None] | None = None

    def blocks(self) -> Iterable[np.ndarray]:
        """Return the images in blocks of (n, H, W, 3)."""
        return [self.images] if isinstance(self.images, np.ndarray) else self.images

    def with_progress(self) -> "Source":
        """Return a source that prints progress while its blocks are read.

        A source with all images in one array is returned unchanged.
        """
        if isinstance(self.images, np.ndarray):
            return self
        return replace(self, images=progress(self.images, "block", "blocks"))


def find_image_faults(blocks: Iterable[np.ndarray]) -> list[str]:
    """Read all images of a source, and return their faults, or an empty list."""
    try:
        for _ in blocks:
            pass
    except SourceError as error:
        return error.faults
    return []
