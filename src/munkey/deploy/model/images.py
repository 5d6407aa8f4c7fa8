"""Read pictures of any kind, as the pixels that the pipeline would have stored."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np

from munkey.core.console import pluralize, warn_user
from munkey.data.decoding.picture_files import (
    FORMATS,
    DecodedPicture,
    PictureLimits,
    RefusedPictureError,
    Size,
    White,
    format_dim_warning,
    read_pictures,
    require_plausible_size,
    resize,
    to_upright_rgb,
)
from munkey.data.intake.csv_tables import read_vectors
from munkey.data.pictures import list_pictures, open_regular_file
from munkey.data.source import MAX_EXAMPLES, format_list
from munkey.deploy.errors import PictureError
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.sources import locate_file
from munkey.encoders.keys import normalize_rows, scale_to_bound
from munkey.settings import OnBad

if TYPE_CHECKING:
    from PIL.Image import Image

PictureLike: TypeAlias = "str | os.PathLike[str] | Image | np.ndarray"
Images: TypeAlias = "PictureLike | Iterable[PictureLike]"

LIMITS = PictureLimits(pixels=50_000_000)  # for pictures from users


class DecodedPictures(NamedTuple):
    """Decoded pictures.

    images: (N, H, W, 3) uint8. files: the file of each picture, or None if it is not from a file.
    places: (N,), the index of each picture among all given pictures, some of which may have been
    skipped.
    """

    images: np.ndarray
    files: tuple[str | None, ...]
    places: np.ndarray


def read_pixels(
    images: "Images", picture_size: PictureSize, on_bad: OnBad = "raise", *, many: bool = False
) -> DecodedPictures:
    """Read pictures as a data set stores them: upright RGB, resized without cropping.

    Parameters
    ----------
    images : path, Pillow image, array, or iterable
        A file, a folder of files (in path order), a Pillow image, a uint8 array of shape
        (N, H, W, 3) or (H, W, 3), or an iterable of these, which are decoded one after the other.
    picture_size : PictureSize
        The size to which pictures are resized, and the brightest value of 16-bit gray.
    on_bad : {"raise", "skip"}
        What to do if pictures cannot be read: raise an error, which lists all of them, or skip them,
        with a warning that counts them and lists the first.
    many : bool
        Whether the pictures are a whole data set. Then warn if its 16-bit gray uses fewer bits.

    Returns
    -------
    DecodedPictures
        The pictures and their files.

    Raises
    ------
    PictureError
        If pictures cannot be read and are not skipped, or if no picture is left.
    """
    pictures: list[np.ndarray] = []
    files: list[str | None] = []
    indices: list[int] = []
    brightest: list[int | None] = []
    faults: list[str] = []
    for index, picture in enumerate(iterate_pictures(images)):
        try:
            decoded_picture = _decode_any(picture, picture_size)
        except PictureError as error:
            faults.append(str(error))
            continue
        file = None
        if isinstance(picture, str | os.PathLike):
            file = locate_file(picture)
        pictures.append(decoded_picture.pixels)
        brightest.append(decoded_picture.brightest)
        files.append(file)
        indices.append(index)
    if faults and (on_bad == "raise" or not pictures):
        raise PictureError(_format_faults(faults, len(faults)))
    if not pictures:
        raise PictureError("no picture was given")
    if faults:
        count = pluralize(len(faults), "picture")
        warn_user(f"skipped {count}: {_format_faults(faults, MAX_EXAMPLES)}")
    if many and picture_size.white is None:
        warning = format_dim_warning(brightest, "white")
        if warning:
            warn_user(warning)
    return DecodedPictures(np.stack(pictures), tuple(files), np.array(indices))


def _format_faults(faults: Sequence[str], limit: int) -> str:
    """Format the first faults of several pictures as a list, or return a single fault unchanged."""
    if len(faults) == 1:
        return faults[0]
    lines = [f"{len(faults):,} pictures cannot be used:", *format_list(faults, limit)]
    return "\n".join(lines)


def read_embeddings(
    rows: "Images", width: int, features: Sequence[str] | None = None, bound: float | None = None
) -> tuple[np.ndarray, tuple[str | None, ...]]:
    """Read rows from arrays or files, and scale them as the model needs.

    bound: the divisor of the rows, for a model whose rows keep their length; by default, rows are
    scaled to unit norm. features: column names, for a CSV file with a header. Returns the rows
    (N, width) as float32, and the file of each row, or None. Raises PictureError unless all rows
    are of this width and finite, or if there are none.
    """
    matrices: list[np.ndarray] = []
    files: list[str | None] = []
    for item in iterate_pictures(rows):
        path = None
        file = None
        if isinstance(item, str | os.PathLike):
            path = Path(item)
            file = locate_file(path)
        requirement = (
            f"{path or 'the input'}: this model takes embeddings, rows of {width} finite numbers"
            " each"
        )
        values: Any = item
        try:
            if path and path.suffix == ".npy":
                values = np.load(path, mmap_mode="r")
            elif path:
                values = read_vectors(path, width, features)
            matrix = np.asarray(values, dtype=np.float64)
        except (ValueError, TypeError, OSError, EOFError, MemoryError, BadZipFile) as error:
            raise PictureError(
                f"{requirement}, also as a .npy file or a .csv file ({error})"
            ) from error
        has_rows = matrix.ndim == 2 and matrix.shape[1] == width and len(matrix) > 0
        if not has_rows or not np.isfinite(matrix).all():
            raise PictureError(
                f"{requirement}, not an array of shape {matrix.shape} or one with NaN"
            )
        matrices.append(matrix)
        files += [file] * len(matrix)
    if not matrices:
        raise PictureError("no row was given")
    all_rows = np.concatenate(matrices)
    if bound is None:
        return normalize_rows(all_rows), tuple(files)
    return scale_to_bound(all_rows, bound), tuple(files)


def digest_contents(images: Iterable[np.ndarray], key: bytes) -> np.ndarray:
    """Return a digest of each picture (H, W, 3) uint8: (N, 16) uint8.

    Pictures of one size with equal pixels have equal digests. key: the name of the memory, at most
    64 bytes. It is needed to check whether a digest belongs to a given picture.
    """
    digests = b"".join(
        hashlib.blake2b(image.tobytes(), digest_size=16, key=key).digest() for image in images
    )
    return np.frombuffer(digests, np.uint8).reshape(-1, 16)


def iterate_pictures(images: "Images") -> "Iterator[PictureLike]":
    """Yield pictures one by one, including those in folders and in arrays (N, H, W, 3)."""
    if isinstance(images, str | os.PathLike):
        path = Path(images)
        if path.is_dir():
            yield from _list_pictures(path)
        else:
            yield path
    elif isinstance(images, np.ndarray) and images.ndim == 4:
        yield from images
    elif isinstance(images, np.ndarray) or not isinstance(images, Iterable):
        yield images
    else:
        for item in images:
            yield from iterate_pictures(item)


def _list_pictures(folder: Path) -> list[Path]:
    """List the picture files below a folder in path order, without hidden files and folders.

    Raises PictureError if there are none.
    """
    pictures, _ = list_pictures(folder)
    if not pictures:
        raise PictureError(f"{folder}: contains no picture ({', '.join(FORMATS)})")
    return sorted(map(Path, pictures))


def _decode_any(picture: "PictureLike", picture_size: PictureSize) -> DecodedPicture:
    """Decode a file, a Pillow image, or an array (H, W, 3) at the stored size, or raise PictureError."""
    from PIL.Image import Image

    size = (picture_size.width, picture_size.height)
    if isinstance(picture, str | os.PathLike):
        return _read_file(Path(picture), size, picture_size.white)
    if isinstance(picture, Image):
        pixels = _decode_pillow(picture, picture_size.white)
        return DecodedPicture(resize(pixels, size), None)
    if not isinstance(picture, np.ndarray):
        kind = type(picture).__name__
        raise PictureError(f"a picture must be a path, a Pillow image, or an array, not {kind}")
    is_rgb = picture.ndim == 3 and picture.shape[2] == 3
    if picture.dtype != np.uint8 or not is_rgb or not picture.size:
        raise PictureError(
            f"an array must be uint8 of shape (N, H, W, 3), not {picture.dtype} of shape"
            f" {picture.shape}"
        )
    return DecodedPicture(resize(picture, size), None)


def read_picture(path: Path, size: Size | None = None) -> np.ndarray:
    """Read a picture file, resized to `size` (width, height) if given.

    Raises PictureError if the file is missing or cannot be read as a picture.
    """
    return _read_file(path, size, None).pixels


def _read_file(path: Path, size: Size | None, white: White) -> DecodedPicture:
    """Read a picture file as `read_picture` does. white: the brightest value of 16-bit gray."""
    if not path.is_file():
        raise PictureError(f"{path}: there is no such file")
    try:
        with open_regular_file(path) as file:
            return read_pictures([file], replace(LIMITS, white=white), size)[0]
    except RefusedPictureError as error:
        raise PictureError(f"{path}: {error}") from error
    except OSError as error:
        raise PictureError(f"{path}: cannot be read ({error.strerror})") from error


def _decode_pillow(picture: "Image", white: White) -> np.ndarray:
    """Decode a picture that the caller opened with Pillow."""
    try:
        require_plausible_size(picture, LIMITS.pixels)
        return to_upright_rgb(picture, white)
    except RefusedPictureError as error:
        raise PictureError(f"the picture: {error}") from error
    except Exception as error:  # Pillow may raise anything for bytes that it cannot read
        raise PictureError(
            f"the picture: cannot be read as a picture ({type(error).__name__}: {error})"
        ) from error
