"""Pictures of any kind as the pixels that the pipeline would have stored for them."""

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np

from munkey.data.pictures import upright
from munkey.deploy.errors import PictureError
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.sources import location
from munkey.encoders.keys import at_unit_norm

if TYPE_CHECKING:
    from PIL.Image import Image

One: TypeAlias = "str | os.PathLike[str] | Image | np.ndarray"
Images: TypeAlias = "One | Iterable[One]"

# Of a picture, before it is decoded. No camera or scanner makes others; they cost a gigabyte from a few bytes.
MOST_PIXELS, MOST_SIDE, MOST_ASPECT = 50_000_000, 30_000, 100
MOST_JPEG2000 = 10_000_000  # pixels: its decoder takes up to 100 bytes for each, even if the file holds next to nothing
MOST_TILE = 2**20  # pixels of a tile in a TIFF picture that is smaller: a tile is decoded whole
# Pillow's names. Opening one of these neither decodes it, as ICO and ICNS do, nor starts a program, as EPS does, and
# says how large it will be, which AVIF's container can hide.
FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")


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
        fitted.append(_fitted(_decoded(one), stored))
    if not fitted:
        raise PictureError("no picture was given")
    return Pixels(np.stack(fitted), tuple(files))


def embeddings(rows: "Images", width: int) -> tuple[np.ndarray, tuple[str | None, ...]]:
    """Rows (N, width) float32 at unit norm, and the file of each: arrays, or files of them. Raises PictureError."""
    parts: list[np.ndarray] = []
    files: list[str | None] = []
    for one in each(rows):
        path = Path(one) if isinstance(one, str | os.PathLike) else None
        said = f"{path or 'the input'}: this model takes embeddings, rows of {width} finite numbers each"
        try:
            if path:
                read = np.load(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",", ndmin=2)
            part = np.asarray(read if path else one, dtype=np.float64)
        except (ValueError, TypeError, OSError, EOFError, MemoryError, BadZipFile) as error:
            raise PictureError(f"{said}, also as a .npy file or a .csv file without a header ({error})") from error
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
    from PIL import Image

    endings = {ending for ending, name in Image.registered_extensions().items() if name in FORMATS}
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in endings and path.is_file())
    visible = [file for file in files if not any(part[0] == "." for part in file.relative_to(folder).parts)]
    if not visible:
        raise PictureError(f"{folder}: holds no picture ({', '.join(FORMATS)})")
    return visible


def _decoded(one: "One") -> np.ndarray:
    """(H, W, 3) uint8."""
    from PIL.Image import Image

    if isinstance(one, str | os.PathLike):
        return read_picture(Path(one))
    if isinstance(one, Image):
        return _picture(one, "the picture")
    if isinstance(one, np.ndarray):
        if one.dtype != np.uint8 or one.ndim != 3 or one.shape[2] != 3 or not one.size:
            raise PictureError(f"an array must be uint8 of shape (N, H, W, 3), not {one.dtype} of shape {one.shape}")
        return one
    raise PictureError(f"a picture is a path, a picture of Pillow or an array, not {type(one).__name__}")


def read_picture(path: Path) -> np.ndarray:
    if not path.is_file():
        raise PictureError(f"{path}: there is no such file")
    with path.open("rb") as file, undecoded(file, str(path)) as picture:
        return _picture(picture, str(path))


def undecoded(file: IO[bytes], name: str) -> "Image":
    """A picture whose pixels are not read yet. Raises PictureError that begins with the name."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # MOST_PIXELS is the limit here
            picture = Image.open(file, formats=FORMATS)
    except UnidentifiedImageError as error:
        raise PictureError(f"{name}: cannot be read as a picture, it is none of {', '.join(FORMATS)}") from error
    except Exception as error:  # whatever Pillow raises on bytes that it cannot read
        raise PictureError(f"{name}: cannot be read as a picture ({type(error).__name__}: {error})") from error
    _require_moderate(picture, name)
    return picture


def _require_moderate(picture: "Image", name: str) -> None:
    """Raise PictureError for a picture that is too large, or of a shape that no real one has."""
    (short, long), most = sorted(picture.size), MOST_JPEG2000 if picture.format == "JPEG2000" else MOST_PIXELS
    if not 0 < short * long <= most or long > min(MOST_SIDE, MOST_ASPECT * short):
        said = f"{name}: {picture.width} x {picture.height} pixels; a picture may have 1 to {most:,}"
        raise PictureError(f"{said}, sides of {MOST_SIDE:,} at most, one at most {MOST_ASPECT} times the other")
    tile = [getattr(picture, "tag_v2", {}).get(tag, 0) for tag in (322, 323)]
    if not all(isinstance(side, int) for side in tile) or tile[0] * tile[1] > max(short * long, MOST_TILE):
        said = f"{name}: has tiles of {tile[0]} x {tile[1]} pixels"
        raise PictureError(f"{said}; a tile may have as many as the picture, or {MOST_TILE:,}")


def _picture(opened: "Image", name: str) -> np.ndarray:
    _require_moderate(opened, name)
    try:
        return upright(opened)
    except Exception as error:
        raise PictureError(f"{name}: cannot be read as a picture ({type(error).__name__}: {error})") from error


def _fitted(image: np.ndarray, stored: PictureSize) -> np.ndarray:
    """(H, W, 3) uint8 in the size of the data set's pictures, as `munkey.data.pictures.resize` does it."""
    if image.shape[:2] == (stored.height, stored.width):
        return image
    from PIL import Image

    size = (stored.width, stored.height)
    return np.asarray(Image.fromarray(np.ascontiguousarray(image)).resize(size, Image.Resampling.BILINEAR))
