"""Picture files of any format, size and color mode as RGB arrays."""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from munkey.core.console import counted, progress, warn
from munkey.data.decoding.decoder import decoded
from munkey.data.decoding.picture_files import (
    FORMATS,
    MOST_PIXELS,
    DecodedPicture,
    PictureLimits,
    RefusedPictureError,
    dim_warning,
    unit_to_uint8,
)
from munkey.data.source import SourceError, printable, readable

BLOCK = 64 * 2**20  # bytes of decoded pictures in a block
LIMITS = PictureLimits(pixels=MOST_PIXELS)
# A NAS and a Mac put these beside pictures: thumbnails, and halves of files.
BESIDE = ("@eaDir", "__MACOSX")


def decode(
    names: list[str],
    open_file: Callable[[str], IO[bytes]],
    size: int | None,
    white: int | None = None,
) -> Iterator[np.ndarray]:
    """Blocks of (n, H, W, 3) uint8 from picture files, in order.

    size: if given, each picture is resized to size x size.

    white: source.white. Warns of gray of 16 bits that becomes nearly black. Raises SourceError at
    the end that lists every file that cannot be read or, without a `size`, has another size than
    the first one.
    """
    faults: list[str] = []
    block: list[np.ndarray] = []
    brightest: list[int | None] = []
    first: tuple[int, ...] | None = None
    for name in names:
        decoded_picture = _read(name, open_file, size, white, faults)
        if decoded_picture is None:
            continue
        picture = decoded_picture.pixels
        brightest.append(decoded_picture.brightest)
        first = first or picture.shape
        if picture.shape != first:
            faults.append(
                f"{name}: {picture.shape[:2]} px, the first is {first[:2]}; set source.storage_size"
            )
        elif not faults:
            block.append(picture)
            if len(block) * picture.nbytes >= BLOCK:
                yield np.stack(block)
                block = []
    if faults:
        raise SourceError("pictures that cannot be used", faults)
    if block:
        yield np.stack(block)
    if white is None:
        warning = dim_warning(brightest, "source.white")
        if warning:
            warn(f"WARNING: {warning}")


def usable(
    names: list[str], open_file: Callable[[str], IO[bytes]], white: int | None
) -> list[bool]:
    """Which picture files can be read.

    Each is decoded. Warns of those that cannot, all by name and reason.
    """
    faults: list[str] = []
    is_usable: list[bool] = []
    for name in progress(names, "pictures looked at", "pictures"):
        is_usable.append(_read(name, open_file, None, white, faults) is not None)
    if faults:
        bad = counted(len(faults), "picture")
        warn(
            printable(
                f"WARNING: skipped {bad} that cannot be used:\n"
                + "\n".join(f"  - {each}" for each in faults)
            )
        )
    return is_usable


def _read(
    name: str,
    open_file: Callable[[str], IO[bytes]],
    size: int | None,
    white: int | None,
    faults: list[str],
) -> DecodedPicture | None:
    """A picture. If it cannot be read, None, and `faults` says why."""
    try:
        with readable(name), open_file(name) as file:
            return _decoded(name, file, size, white)
    except SourceError as error:
        faults += error.faults
        return None


def _decoded(name: str, file: IO[bytes], size: int | None, white: int | None) -> DecodedPicture:
    try:
        (picture,) = decoded(
            [file], replace(LIMITS, white=white), None if size is None else (size, size)
        )
    except RefusedPictureError as error:
        raise SourceError(name, [f"{name}: {error}"]) from error
    return picture


def open_plain(path: str | Path) -> IO[bytes]:
    """Open a plain file.

    Raises OSError for anything else: to open a pipe would wait for who writes into it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a plain file")
    return os.fdopen(descriptor, "rb")


def as_rgb(images: np.ndarray, name: str, first: int = 0) -> np.ndarray:
    """(n, H, W[, 1 or 3]) uint8, or floats in [0, 1], as (n, H, W, 3) uint8.

    Raises SourceError for values out of range, or NaN: then it names the images, counted from
    `first`.
    """
    if np.issubdtype(images.dtype, np.floating):
        images = _floats_to_uint8(images, name, first)
    if images.ndim == 3:
        images = images[..., None]
    return np.repeat(images, 3, axis=-1) if images.shape[-1] == 1 else images


def _floats_to_uint8(images: np.ndarray, name: str, first: int) -> np.ndarray:
    """(n, ...) floats in [0, 1] as uint8.

    Raises SourceError for NaN and for values out of range.
    """
    bad = np.flatnonzero(~np.isfinite(images).all(axis=tuple(range(1, images.ndim)))) + first
    if bad.size:
        raise SourceError(name, [f"{name}: image {i} has pixels that are not finite" for i in bad])
    try:
        return unit_to_uint8(images)
    except ValueError as error:
        raise SourceError(name, [f"{name}: {error}"]) from error


def is_picture_name(name: str) -> bool:
    """Whether a file name ends as those of a format that is read."""
    from PIL import Image

    return Image.registered_extensions().get(Path(name).suffix.lower()) in FORMATS


def skipped_files_warning(paths: Sequence[Path]) -> str:
    """The warning about files that are not pictures: how many of each extension."""
    kinds = Counter(_kind(path) for path in paths)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    skipped = (
        f"left out {counted(len(paths), 'file')} beside the pictures: {counts}; e.g. {paths[0]}"
    )
    return printable(f"{skipped}. Pictures may be {', '.join(FORMATS)}")


def _kind(path: Path) -> str:
    if path.name in BESIDE:
        return f"{path.name} (folder)"
    if path.exists() and not path.is_file():
        return "no plain file"
    return path.suffix.lower() or "without an ending"
