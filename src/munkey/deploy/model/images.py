"""Pictures of any kind as the pixels that the pipeline would have stored for them."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np

from munkey.core.console import counted, warn_user
from munkey.data.decoding.decoder import decoded
from munkey.data.decoding.picture_files import (
    FORMATS,
    DecodedPicture,
    PictureLimits,
    RefusedPictureError,
    Size,
    TooManyPixelsError,
    dim_warning,
    require_moderate,
    resize,
    upright,
)
from munkey.data.intake.csv_tables import read_vectors
from munkey.data.pictures import BESIDE, is_picture_name, open_plain
from munkey.deploy.errors import PictureError
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.sources import location
from munkey.encoders.keys import at_unit_norm, within
from munkey.settings import OnBad

if TYPE_CHECKING:
    from PIL.Image import Image

One: TypeAlias = "str | os.PathLike[str] | Image | np.ndarray"
Images: TypeAlias = "One | Iterable[One]"

LIMITS = PictureLimits(pixels=50_000_000)  # of a picture from outside


class Pixels(NamedTuple):
    """images: (N, H, W, 3) uint8; files: where each came from, None where that is not known.

    taken: which of the pictures that were given these are, as places (N,).
    """

    images: np.ndarray
    files: tuple[str | None, ...]
    taken: np.ndarray


def pixels(
    images: "Images", stored: PictureSize, on_bad: OnBad = "raise", *, many: bool = False
) -> Pixels:
    """Pictures as a data set stores them: upright RGB, resized to its size without cropping.

    Parameters
    ----------
    images : path, picture of Pillow, array or iterable
        A file, a folder of files (in path order), a picture of Pillow, an array (N, H, W, 3) or (H, W, 3) uint8, or an
        iterable of these, which are decoded one after the other.
    stored : PictureSize
        Their size in the data set, and what is white in gray of 16 bits.
    on_bad : {"raise", "skip"}
        What to do with pictures that cannot be read: refuse, or leave them out with a warning that names all.
    many : bool
        Whether they make up a data set: then a warning says if gray of 16 bits uses fewer.

    Raises
    ------
    PictureError
        If no picture can be used, or, unless they are skipped, that names all that cannot be.
    """
    fitted: list[np.ndarray] = []
    files: list[str | None] = []
    taken: list[int] = []
    brightest: list[int | None] = []
    faults: list[str] = []
    for number, one in enumerate(each(images)):
        try:
            decoded_picture = _decoded(one, stored)
        except PictureError as error:
            faults.append(str(error))
            continue
        fitted.append(decoded_picture.pixels)
        brightest.append(decoded_picture.brightest)
        files.append(location(one) if isinstance(one, str | os.PathLike) else None)
        taken.append(number)
    if faults and on_bad == "raise":
        raise PictureError(_all_bad(faults))
    if not fitted:
        raise PictureError(_all_bad(faults) if faults else "no picture was given")
    if faults:
        warn_user(f"skipped {counted(len(faults), 'picture')}: {_all_bad(faults)}")
    if many and stored.white is None and (words := dim_warning(brightest, "white")):
        warn_user(words)
    return Pixels(np.stack(fitted), tuple(files), np.array(taken))


def _all_bad(faults: Sequence[str]) -> str:
    """All that is wrong with pictures, one a line where there are several."""
    if len(faults) == 1:
        return faults[0]
    return "\n".join(
        [f"{len(faults):,} pictures cannot be used:", *(f"  - {fault}" for fault in faults)]
    )


def embeddings(
    rows: "Images", width: int, features: Sequence[str] | None = None, bound: float | None = None
) -> tuple[np.ndarray, tuple[str | None, ...]]:
    """Rows (N, width) float32 at unit norm, and the file of each: arrays, or files of them. Raises PictureError.

    features: the names of the columns, by which those of a CSV file with a header are found;
    bound: of a model whose rows keep their length: they are divided by it.
    """
    parts: list[np.ndarray] = []
    files: list[str | None] = []
    for one in each(rows):
        path = Path(one) if isinstance(one, str | os.PathLike) else None
        said = f"{path or 'the input'}: this model takes embeddings, rows of {width} finite numbers each"
        read: Any = one
        try:
            if path:
                read = (
                    np.load(path, mmap_mode="r")
                    if path.suffix == ".npy"
                    else read_vectors(path, width, features)
                )
            part = np.asarray(read, dtype=np.float64)
        except (ValueError, TypeError, OSError, EOFError, MemoryError, BadZipFile) as error:
            raise PictureError(f"{said}, also as a .npy file or a .csv file ({error})") from error
        if part.ndim != 2 or part.shape[1] != width or not len(part) or not np.isfinite(part).all():
            raise PictureError(f"{said}, not an array of shape {part.shape} or one with NaN")
        parts.append(part)
        files += [location(path) if path else None] * len(part)
    if not parts:
        raise PictureError("no row was given")
    whole = np.concatenate(parts)
    return at_unit_norm(whole) if bound is None else within(whole, bound), tuple(files)


def content_digests(images: Iterable[np.ndarray], key: bytes) -> np.ndarray:
    """Digests (N, 16) uint8 of pictures (H, W, 3) uint8 of one size: equal where all pixels are.

    key: of at most 64 bytes, the name of the memory, so that a digest says nothing without it.
    """
    found = b"".join(
        hashlib.blake2b(image.tobytes(), digest_size=16, key=key).digest() for image in images
    )
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
    files = sorted(
        path for path in folder.rglob("*") if is_picture_name(path.name) and path.is_file()
    )
    visible = []
    for file in files:
        parts = file.relative_to(folder).parts
        if not any(part[0] == "." or part in BESIDE for part in parts):
            visible.append(file)
    if not visible:
        raise PictureError(f"{folder}: holds no picture ({', '.join(FORMATS)})")
    return visible


def _decoded(one: "One", stored: PictureSize) -> DecodedPicture:
    """A picture in the size that is stored."""
    from PIL.Image import Image

    size = (stored.width, stored.height)
    if isinstance(one, str | os.PathLike):
        return _read_file(Path(one), size, stored.white)
    if isinstance(one, Image):
        return DecodedPicture(resize(_opened(one, stored.white), size), None)
    if isinstance(one, np.ndarray):
        if one.dtype != np.uint8 or one.ndim != 3 or one.shape[2] != 3 or not one.size:
            raise PictureError(
                f"an array must be uint8 of shape (N, H, W, 3), not {one.dtype} of shape {one.shape}"
            )
        return DecodedPicture(resize(one, size), None)
    raise PictureError(
        f"a picture is a path, a picture of Pillow or an array, not {type(one).__name__}"
    )


def read_picture(path: Path, size: Size | None = None) -> np.ndarray:
    """A picture from its file, resized to `size` (width, height) if that is given. Raises PictureError."""
    return _read_file(path, size, None).pixels


def _read_file(path: Path, size: Size | None, white: int | None) -> DecodedPicture:
    if not path.is_file():
        raise PictureError(f"{path}: there is no such file")
    with open_plain(path) as file:
        return _read_open([file], [str(path)], size, replace(LIMITS, white=white))[0]


def read_pictures(
    pictures: Sequence[IO[bytes] | bytes],
    names: Sequence[str],
    size: Size | None = None,
    limits: PictureLimits = LIMITS,
) -> list[np.ndarray]:
    """Pictures from files or their contents, by the decoder's process. Raises PictureError that begins with a name."""
    return [picture.pixels for picture in _read_open(pictures, names, size, limits)]


def _read_open(
    pictures: Sequence[IO[bytes] | bytes],
    names: Sequence[str],
    size: Size | None,
    limits: PictureLimits,
) -> list[DecodedPicture]:
    try:
        return decoded(pictures, limits, size)
    except TooManyPixelsError:
        raise
    except RefusedPictureError as error:
        raise PictureError(f"{names[error.number]}: {error}") from error


def _opened(picture: "Image", white: int | None) -> np.ndarray:
    """A picture that whoever asks has opened with Pillow: it is decoded in this process."""
    try:
        require_moderate(picture, LIMITS.pixels)
        return upright(picture, white)
    except RefusedPictureError as error:
        raise PictureError(f"the picture: {error}") from error
    except Exception as error:  # whatever Pillow raises on bytes that it cannot read
        raise PictureError(
            f"the picture: cannot be read as a picture ({type(error).__name__}: {error})"
        ) from error
