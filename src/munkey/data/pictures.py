"""Read picture files of all supported formats, sizes and color modes as RGB arrays."""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from munkey.core.console import pluralize, progress, warn
from munkey.data.decoding.picture_files import (
    FORMATS,
    MAX_PIXELS,
    DecodedPicture,
    PictureLimits,
    RefusedPictureError,
    White,
    convert_unit_to_uint8,
    format_dim_warning,
    read_pictures,
)
from munkey.data.source import (
    MAX_EXAMPLES,
    SourceError,
    escape_undecodable,
    format_list,
    reraise_as_source_error,
)

BLOCK = 64 * 2**20  # bytes of decoded pictures in a block
LIMITS = PictureLimits(pixels=MAX_PIXELS)
# Folders that a NAS or macOS adds next to pictures, for thumbnails and resource forks.
IGNORED_FOLDERS = frozenset({"@eaDir", "__MACOSX"})


def decode(
    names: list[str],
    open_file: Callable[[str], IO[bytes]],
    size: int | None,
    white: White = None,
) -> Iterator[np.ndarray]:
    """Decode picture files in order. Yields blocks of (n, H, W, 3) uint8.

    After the last file, raises SourceError if any cannot be read or, without `size`, differs in
    size from the first. Without `white`, warns about 16-bit gray that becomes nearly black.

    Parameters
    ----------
    size
        Side in pixels to which each picture is resized.
    white
        Brightest value of 16-bit gray (source.white).
    """
    faults: list[str] = []
    block: list[np.ndarray] = []
    brightest: list[int | None] = []
    first_shape: tuple[int, ...] | None = None
    for name in names:
        try:
            decoded_picture = _read(name, open_file, size, white)
        except SourceError as error:
            faults += error.faults
            continue
        picture = decoded_picture.pixels
        brightest.append(decoded_picture.brightest)
        first_shape = first_shape or picture.shape
        if picture.shape != first_shape:
            faults.append(
                f"{name}: {picture.shape[:2]} px, but the first picture has {first_shape[:2]} px;"
                " set source.storage_size"
            )
        elif not faults:  # after a fault, the other pictures are only checked
            block.append(picture)
            if len(block) * picture.nbytes >= BLOCK:
                yield np.stack(block)
                block = []
    if faults:
        raise SourceError("pictures that cannot be used", faults)
    if block:
        yield np.stack(block)
    if white is None:
        warning = format_dim_warning(brightest, "source.white")
        if warning:
            warn(f"WARNING: {warning}")


def are_readable(
    names: list[str], open_file: Callable[[str], IO[bytes]], white: White
) -> list[bool]:
    """Return whether each picture file can be decoded. Warns about the others."""
    faults: list[str] = []
    is_readable: list[bool] = []
    for name in progress(names, "pictures checked", "pictures"):
        try:
            _read(name, open_file, None, white)
        except SourceError as error:
            faults += error.faults
            is_readable.append(False)
        else:
            is_readable.append(True)
    if faults:
        count = pluralize(len(faults), "picture")
        lines = [
            f"WARNING: skipped {count} that cannot be used:",
            *format_list(faults, MAX_EXAMPLES),
        ]
        warn(escape_undecodable("\n".join(lines)))
    return is_readable


def _read(
    name: str, open_file: Callable[[str], IO[bytes]], size: int | None, white: White
) -> DecodedPicture:
    """Decode a picture file as `decode` does. Raises SourceError, which names the file."""
    limits = replace(LIMITS, white=white)
    shape = None if size is None else (size, size)
    with reraise_as_source_error(name), open_file(name) as file:
        try:
            pictures = read_pictures([file], limits, shape)
        except RefusedPictureError as error:
            raise SourceError(name, [f"{name}: {error}"]) from error
    return pictures[0]


def open_regular_file(path: str | Path) -> IO[bytes]:
    """Open a regular file.

    Raises OSError for anything else, because opening a pipe would wait for a writer.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")


def to_rgb(images: np.ndarray, name: str, first: int = 0) -> np.ndarray:
    """Convert (n, H, W[, 1 or 3]) uint8, or floats in [0, 1], to (n, H, W, 3) uint8.

    Raises SourceError for other values; `first` is the first image's number in its message.
    """
    if np.issubdtype(images.dtype, np.floating):
        images = _convert_floats_to_uint8(images, name, first)
    if images.ndim == 3:
        images = images[..., None]
    if images.shape[-1] == 1:
        images = np.repeat(images, 3, axis=-1)
    return images


def _convert_floats_to_uint8(images: np.ndarray, name: str, first: int) -> np.ndarray:
    """Convert images of floats in [0, 1] to uint8. Raises SourceError for other values."""
    faults = []
    for number, image in enumerate(images, start=first):
        if not np.isfinite(image).all():
            faults.append(f"{name}: image {number} has pixels that are not finite")
    if faults:
        raise SourceError(name, faults)
    try:
        return convert_unit_to_uint8(images)
    except ValueError as error:
        raise SourceError(name, [f"{name}: {error}"]) from error


def is_picture_name(name: str) -> bool:
    """Return whether a file name has the extension of a supported format."""
    from PIL import Image

    return Image.registered_extensions().get(Path(name).suffix.lower()) in FORMATS


def list_pictures(folder: Path) -> tuple[list[str], list[Path]]:
    """List the pictures below a folder and linked folders, and all other visible files, by path."""
    pictures: list[str] = []
    other_files: list[Path] = []
    if not folder.is_dir():
        return pictures, other_files
    for path in sorted(_walk(folder), key=str):
        # A pipe is special, for example. A broken link is not: reading it raises a clear error.
        is_special = path.exists() and not path.is_file()
        if is_picture_name(path.name) and not is_special:
            pictures.append(str(path))
        else:
            other_files.append(path)
    return pictures, other_files


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the visible files below a folder, and the folders below it that are skipped."""
    for path in list_visible(folder):
        if path.is_dir() and not is_skipped_folder(path):
            yield from _walk(path)
        else:
            yield path


def list_visible(folder: Path) -> list[Path]:
    """List the entries of a folder that are not hidden, sorted."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def is_skipped_folder(path: Path) -> bool:
    """Return whether a folder has thumbnails of a NAS, for example, or is a link to its parents."""
    return path.name in IGNORED_FOLDERS or _is_link_back(path)


def _is_link_back(path: Path) -> bool:
    """Return whether a path is a link to a folder that contains it."""
    if not path.is_symlink():
        return False
    return path.resolve() in [parent.resolve() for parent in path.absolute().parents]


def format_skipped_files_warning(paths: Sequence[Path]) -> str:
    """Format a warning about files that are not pictures, with their number by extension."""
    kinds = Counter(_get_file_kind(path) for path in paths)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    sentence = (
        f"skipped {pluralize(len(paths), 'file')} next to the pictures: {counts}; e.g. {paths[0]}"
    )
    return escape_undecodable(f"{sentence}. Pictures may be {', '.join(FORMATS)}")


def _get_file_kind(path: Path) -> str:
    if path.name in IGNORED_FOLDERS:
        return f"{path.name} (folder)"
    if path.name.startswith("._"):
        return "._ (metadata of macOS)"
    if _is_link_back(path):
        return "link to a folder that contains it"
    if path.exists() and not path.is_file():
        return "special file"
    return path.suffix.lower() or "without extension"
