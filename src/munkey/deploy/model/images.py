"""Pictures of any kind as the pixels that the pipeline would have stored for them."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np

from munkey.core.csv_tables import read_vectors
from munkey.data.decoding.decoder import decoded
from munkey.data.decoding.picture_files import (
    FORMATS,
    PictureLimits,
    RefusedPictureError,
    Size,
    TooManyPixelsError,
    require_moderate,
    resize,
    upright,
)
from munkey.data.pictures import is_picture_name, open_plain
from munkey.deploy.errors import PictureError
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.sources import location
from munkey.encoders.keys import at_unit_norm

if TYPE_CHECKING:
    from PIL.Image import Image

One: TypeAlias = "str | os.PathLike[str] | Image | np.ndarray"
Images: TypeAlias = "One | Iterable[One]"

LIMITS = PictureLimits(pixels=50_000_000)  # of a picture from outside


class Pixels(NamedTuple):
    """images: (N, H, W, 3) uint8; files: where each came from, None where that is not known."""

    images: np.ndarray
    files: tuple[str | None, ...]


def pixels(images: "Images", stored: PictureSize) -> Pixels:
    """Pictures as a data set stores them: upright RGB, resized to its size without cropping.

    images: a file, a folder of files (in path order), a picture of Pillow, an array (N, H, W, 3) or (H, W, 3) uint8, or
    an iterable of these, which are decoded one after the other. Raises PictureError that names what cannot be used.
    """
    fitted: list[np.ndarray] = []
    files: list[str | None] = []
    for one in each(images):
        files.append(location(one) if isinstance(one, str | os.PathLike) else None)
        fitted.append(_decoded(one, (stored.width, stored.height)))
    if not fitted:
        raise PictureError("no picture was given")
    return Pixels(np.stack(fitted), tuple(files))


def embeddings(
    rows: "Images", width: int, features: Sequence[str] | None = None
) -> tuple[np.ndarray, tuple[str | None, ...]]:
    """Rows (N, width) float32 at unit norm, and the file of each: arrays, or files of them. Raises PictureError.

    features: the names of the columns, by which those of a CSV file with a header are found.
    """
    parts: list[np.ndarray] = []
    files: list[str | None] = []
    for one in each(rows):
        path = Path(one) if isinstance(one, str | os.PathLike) else None
        said = f"{path or 'the input'}: this model takes embeddings, rows of {width} finite numbers each"
        read: Any = one
        try:
            if path:
                read = np.load(path, mmap_mode="r") if path.suffix == ".npy" else read_vectors(path, width, features)
            part = np.asarray(read, dtype=np.float64)
        except (ValueError, TypeError, OSError, EOFError, MemoryError, BadZipFile) as error:
            raise PictureError(f"{said}, also as a .npy file or a .csv file ({error})") from error
        if part.ndim != 2 or part.shape[1] != width or not len(part) or not np.isfinite(part).all():
            raise PictureError(f"{said}, not an array of shape {part.shape} or one with NaN")
        parts.append(part)
        files += [location(path) if path else None] * len(part)
    if not parts:
        raise PictureError("no row was given")
    return at_unit_norm(np.concatenate(parts)), tuple(files)


def content_digests(images: Iterable[np.ndarray], key: bytes) -> np.ndarray:
    """Digests (N, 16) uint8 of pictures (H, W, 3) uint8 of one size: equal where all pixels are.

    key: of at most 64 bytes, the name of the memory, so that a digest says nothing without it.
    """
    found = b"".join(hashlib.blake2b(image.tobytes(), digest_size=16, key=key).digest() for image in images)
    return np.frombuffer(found, np.uint8).reshape(-1, 16)


def each(images: "Images") -> "Iterator[One]":
    """One by one, folders and arrays taken apart."""
    if isinstance(images, str | os.PathLike):
        path = Path(images)
        yield from _in_folder(path) if path.is_dir() else [path]
    elif isinstance(images, np.ndarray) and images.ndim == 4:
        yield from images
    elif isinstance(images, np.ndarray) or not isinstance(images, Iterable):
        yield images
    else:
        for one in images:
            yield from each(one)


def _in_folder(folder: Path) -> list[Path]:
    """The pictures below a folder that are not hidden, in path order."""
    files = sorted(path for path in folder.rglob("*") if is_picture_name(path.name) and path.is_file())
    visible = [file for file in files if not any(part[0] == "." for part in file.relative_to(folder).parts)]
    if not visible:
        raise PictureError(f"{folder}: holds no picture ({', '.join(FORMATS)})")
    return visible


def _decoded(one: "One", size: Size) -> np.ndarray:
    """(H, W, 3) uint8 of this size (width, height)."""
    from PIL.Image import Image

    if isinstance(one, str | os.PathLike):
        return read_picture(Path(one), size)
    if isinstance(one, Image):
        return resize(_opened(one), size)
    if isinstance(one, np.ndarray):
        if one.dtype != np.uint8 or one.ndim != 3 or one.shape[2] != 3 or not one.size:
            raise PictureError(f"an array must be uint8 of shape (N, H, W, 3), not {one.dtype} of shape {one.shape}")
        return resize(one, size)
    raise PictureError(f"a picture is a path, a picture of Pillow or an array, not {type(one).__name__}")


def read_picture(path: Path, size: Size | None = None) -> np.ndarray:
    """A picture from its file, resized to `size` (width, height) if that is given. Raises PictureError."""
    if not path.is_file():
        raise PictureError(f"{path}: there is no such file")
    with open_plain(path) as file:
        return read_pictures([file], [str(path)], size)[0]


def read_pictures(
    pictures: Sequence[IO[bytes] | bytes],
    names: Sequence[str],
    size: Size | None = None,
    limits: PictureLimits = LIMITS,
) -> list[np.ndarray]:
    """Pictures from files or their contents, by the decoder's process. Raises PictureError that begins with a name."""
    try:
        return decoded(pictures, limits, size)
    except TooManyPixelsError:
        raise
    except RefusedPictureError as error:
        raise PictureError(f"{names[error.number]}: {error}") from error


def _opened(picture: "Image") -> np.ndarray:
    """A picture that whoever asks has opened with Pillow: it is decoded in this process."""
    try:
        require_moderate(picture, LIMITS.pixels)
        return upright(picture)
    except RefusedPictureError as error:
        raise PictureError(f"the picture: {error}") from error
    except Exception as error:  # whatever Pillow raises on bytes that it cannot read
        raise PictureError(f"the picture: cannot be read as a picture ({type(error).__name__}: {error})") from error
