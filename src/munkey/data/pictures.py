"""Picture files of any format, size and colour mode as RGB arrays."""

import zipfile
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from munkey.data import SourceError

if TYPE_CHECKING:
    from PIL.Image import Image

BLOCK = 64 * 2**20  # bytes of pictures decoded before they are handed on


def decode(names: list[str], open_file: Callable[[str], IO[bytes]], size: int | None) -> Iterator[np.ndarray]:
    """Blocks of (n, H, W, 3) uint8 from picture files, in order, each resized to size x size where `size` is given.

    Raises SourceError at the end that lists every file that cannot be read, or is of another size than the first where
    no `size` is given.
    """
    from PIL.Image import DecompressionBombError

    broken = (OSError, ValueError, SyntaxError, EOFError, DecompressionBombError, zipfile.BadZipFile)  # by Pillow, zip
    faults: list[str] = []
    block: list[np.ndarray] = []
    first: tuple[int, ...] | None = None
    for name in names:
        try:
            with open_file(name) as file:
                picture = _read(file, size)
        except broken as error:
            faults.append(f"{name}: cannot be read ({type(error).__name__}: {error})")
            continue
        first = first or picture.shape
        if picture.shape != first:
            faults.append(f"{name}: {picture.shape[:2]} px, the first is {first[:2]}; set source.storage_size")
        elif not faults:
            block.append(picture)
            if len(block) * picture.nbytes >= BLOCK:
                yield np.stack(block)
                block = []
    if faults:
        raise SourceError("pictures that cannot be used", faults)
    if block:
        yield np.stack(block)


def _read(file: IO[bytes], size: int | None) -> np.ndarray:
    from PIL import Image, ImageOps

    with Image.open(file) as opened:
        picture = _rgb(ImageOps.exif_transpose(opened))
    return np.asarray(picture) if size is None else resize(np.asarray(picture), size)


def resize(image: np.ndarray, size: int) -> np.ndarray:
    """(H, W, 3) uint8 -> (size, size, 3): the whole of it, antialiased bilinear."""
    if image.shape[:2] == (size, size):
        return image
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR))


def _rgb(picture: "Image") -> "Image":
    """Any mode as RGB: what is transparent becomes white, 16-bit grey keeps its high byte, floats lie in [0, 1].

    Raises ValueError for NaN and for grey beyond 16 bits: its scale cannot be told from one picture.
    """
    from PIL import Image

    if picture.mode == "F":
        return Image.fromarray(_unit_to_uint8(np.asarray(picture))).convert("RGB")
    if picture.mode.startswith("I"):
        grey = np.asarray(picture)
        if grey.min() < 0 or grey.max() > 65535:
            raise ValueError(f"grey values must be 16 bits, 0 to 65535, not {grey.min()} to {grey.max()}")
        return Image.fromarray((grey >> 8).astype(np.uint8)).convert("RGB")
    if picture.mode in ("P", "PA", "LA", "RGBA", "RGBa", "La") or "transparency" in picture.info:
        layered = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), layered).convert("RGB")
    return picture.convert("RGB")


def _unit_to_uint8(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ValueError("has pixels that are not finite")
    if values.min() < 0 or values.max() > 1:
        raise ValueError(f"float pixels must lie in [0, 1], not [{values.min()}, {values.max()}]")
    return np.rint(values * 255).astype(np.uint8)


def as_rgb(images: np.ndarray, name: str, first: int = 0) -> np.ndarray:
    """(n, H, W[, 1 or 3]) uint8, or floats in [0, 1], as (n, H, W, 3) uint8.

    Raises SourceError for NaN (naming images, counted from `first`), values out of range, or another shape.
    """
    if np.issubdtype(images.dtype, np.floating):
        bad = np.flatnonzero(~np.isfinite(images).all(axis=tuple(range(1, images.ndim)))) + first
        if bad.size:
            raise SourceError(name, [f"{name}: image {i} has pixels that are not finite" for i in bad])
        try:
            images = _unit_to_uint8(images)
        except ValueError as error:
            raise SourceError(name, [f"{name}: {error}"]) from error
    if images.dtype != np.uint8:
        raise SourceError(name, [f"pixels must be uint8, or floats in [0, 1], not {images.dtype}"])
    if images.ndim == 3:
        images = images[..., None]
    if images.shape[-1] not in (1, 3):
        raise SourceError(name, [f"images must have 1 or 3 channels, not {images.shape[-1]}"])
    return np.repeat(images, 3, axis=-1) if images.shape[-1] == 1 else images


def pictures_only(names: list[str]) -> list[str]:
    """Those names whose ending is of a picture format that Pillow reads."""
    from PIL import Image

    endings: dict[str, Any] = Image.registered_extensions()
    return [name for name in names if "." in name and f".{name.rsplit('.', 1)[1].lower()}" in endings]
