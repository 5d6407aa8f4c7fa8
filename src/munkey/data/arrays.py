"""Arrays of images and labels in NPZ and IDX files. Headers are checked before data is read."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from typing import IO

import numpy as np

from munkey.data.decoding.picture_files import MAX_PIXELS
from munkey.data.source import SourceError

BLOCK = 64 * 2**20  # bytes per read
MAX_UNPACKED = 256 * 2**20  # bytes to which an array of any compressed size may unpack
# A larger array may unpack to at most this many times its compressed size. The ratio is 1,000 for
# zeros and 5 for MNIST, whose pictures are mostly black.
MAX_RATIO = 200


@dataclass(frozen=True)
class ArrayHeader:
    """The header of a file with one array, named `name` in messages, of `packed_bytes` in the file."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    packed_bytes: int
    fortran_order: bool = False

    def require_plausible_size(self) -> None:
        """Raise SourceError if the array is far larger than its compressed size (a zip bomb)."""
        size = math.prod(self.shape) * self.dtype.itemsize
        if size > max(MAX_UNPACKED, MAX_RATIO * self.packed_bytes):
            fault = (
                f"{self.name}: {self.shape} {self.dtype} unpacks to {size:,} bytes from {self.packed_bytes:,},"
                f" more than {MAX_RATIO} times as many; if this is intended, store it uncompressed"
            )
            raise SourceError(self.name, [fault])

    def read_blocks(self, file: IO[bytes] | BufferedIOBase) -> Iterator[np.ndarray]:
        """Yield blocks of rows from a file that is open just after its header.

        Raises SourceError if the file is shorter or longer than the array.
        """
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        rows_per_block = max(1, BLOCK // row_bytes)  # a single row may be larger than BLOCK
        for start in range(0, self.shape[0], rows_per_block):
            count = min(rows_per_block, self.shape[0] - start)
            data = file.read(count * row_bytes)
            if len(data) < count * row_bytes:
                raise SourceError(
                    self.name, [f"{self.name}: ends too early for {self.shape} {self.dtype}"]
                )
            yield np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])
        if file.read(1):  # the array ends here, so the file should, too
            raise SourceError(
                self.name, [f"{self.name}: has more data than {self.shape} {self.dtype}"]
            )


@dataclass(frozen=True)
class Part:
    """The headers of a split's images and labels."""

    images: ArrayHeader
    labels: ArrayHeader


def find_part_faults(parts: Sequence[Part], storage_size: int | None) -> list[str]:
    """Find faults in the shapes and dtypes of parts. Without `storage_size`, sizes must be equal."""
    faults: list[str] = []
    for part in parts:
        faults += _find_image_faults(part.images)
        faults += _find_label_faults(part.labels)
    # Lengths and sizes can be compared only if each array has a valid shape.
    if not faults:
        faults = _find_length_faults(parts)
    if not faults and storage_size is None:
        faults = _find_size_faults(parts)
    return list(dict.fromkeys(faults))  # removes duplicates and keeps the order


def _find_length_faults(parts: Sequence[Part]) -> list[str]:
    """Find parts whose numbers of images and labels differ."""
    faults = []
    for part in parts:
        images = part.images
        labels = part.labels
        if images.shape[0] != labels.shape[0]:
            faults.append(
                f"{images.name} {images.shape} and {labels.name} {labels.shape} differ in length"
            )
    return faults


def _find_size_faults(parts: Sequence[Part]) -> list[str]:
    """Find parts whose images differ in size from those of the first part."""
    first = parts[0].images
    faults = []
    for part in parts[1:]:
        other = part.images
        if other.shape[1:3] != first.shape[1:3]:
            sizes = f"{first.name} {first.shape[1:3]} px and {other.name} {other.shape[1:3]} px"
            faults.append(f"images differ in size, {sizes}; set source.storage_size")
    return faults


def _find_image_faults(images: ArrayHeader) -> list[str]:  # noqa: PLR0911  # one for each fault
    """Return the first fault of an array of images, or an empty list."""
    name = images.name
    shape = images.shape
    if len(shape) not in (3, 4):
        return [f"{name}: must be (N, H, W) or (N, H, W, channels), not {shape}"]
    if min(shape) < 1:
        return [f"{name}: contains no images, its shape is {shape}"]
    if shape[1] * shape[2] > MAX_PIXELS:
        return [f"{name}: {shape[1]} x {shape[2]} pixels; a picture may have {MAX_PIXELS:,}"]
    if len(shape) == 4 and shape[-1] not in (1, 3):
        advice = ""
        if shape[1] in (1, 3):
            advice = "; the channels come first: save images.transpose(0, 2, 3, 1)"
        return [f"{name}: must be (N, H, W, channels) with 1 or 3 channels, not {shape}{advice}"]
    if images.dtype != np.uint8 and not np.issubdtype(images.dtype, np.floating):
        return [f"{name}: pixels must be uint8, or floats in [0, 1], not {images.dtype}"]
    if images.fortran_order:
        return [f"{name}: {shape} is stored in Fortran order; save np.ascontiguousarray(images)"]
    return []


def _find_label_faults(labels: ArrayHeader) -> list[str]:
    """Return the fault of an array of labels, or an empty list."""
    name = labels.name
    shape = labels.shape
    has_one_label_per_image = len(shape) >= 1 and shape[1:] in ((), (1,))
    if not has_one_label_per_image or not np.issubdtype(labels.dtype, np.integer):
        return [
            f"{name}: labels must be integers, one per image: (N,) or (N, 1), not {shape} {labels.dtype}"
        ]
    return []


def read_labels(labels: ArrayHeader, file: IO[bytes] | BufferedIOBase) -> np.ndarray:
    """Read labels, (N,) int64, from a file that is open just after its header."""
    blocks = [block.reshape(-1) for block in labels.read_blocks(file)]
    return np.concatenate(blocks).astype(np.int64)
