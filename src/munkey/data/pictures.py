"""Picture files of any format, size and color mode as RGB arrays."""

from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING

import numpy as np

from munkey.data.source import SourceError, readable

if TYPE_CHECKING:
    from PIL.Image import Image

BLOCK = 64 * 2**20  # bytes of decoded pictures in a block


def decode(names: list[str], open_file: Callable[[str], IO[bytes]], size: int | None) -> Iterator[np.ndarray]:
    """Blocks of (n, H, W, 3) uint8 from picture files, in order; each resized to size x size if `size` is given.

    Raises SourceError at the end that lists every file that cannot be read or, without a `size`, has another size than
    the first one.
    """
    faults: list[str] = []
    block: list[np.ndarray] = []
    first: tuple[int, ...] | None = None
    for name in names:
        picture = _read(name, open_file, size, faults)
        if picture is None:
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


def _read(name: str, open_file: Callable[[str], IO[bytes]], size: int | None, faults: list[str]) -> np.ndarray | None:
    """A picture as (H, W, 3) uint8, upright. If it cannot be read, None, and `faults` says why."""
    from PIL import Image

    try:
        with readable(name), open_file(name) as file, Image.open(file) as opened:
            picture = upright(opened)
            return picture if size is None else resize(picture, size)
    except SourceError as error:
        faults += error.faults
        return None


def upright(picture: "Image") -> np.ndarray:
    """A picture as a data set stores it: (H, W, 3) uint8. Raises what Pillow raises on one that it cannot read."""
    from PIL import ImageOps

    return np.asarray(_rgb(ImageOps.exif_transpose(picture)))


def resize(image: np.ndarray, size: int) -> np.ndarray:
    """(H, W, 3) uint8 -> (size, size, 3): the whole image, antialiased bilinear."""
    if image.shape[:2] == (size, size):
        return image
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR))


def _rgb(picture: "Image") -> "Image":
    """Any mode as RGB: transparent pixels become white, 16-bit gray keeps its high byte, floats must lie in [0, 1].

    Raises ValueError for NaN and for gray beyond 16 bits, whose scale a single picture does not tell.
    """
    from PIL import Image

    if picture.mode == "F":
        return Image.fromarray(_unit_to_uint8(np.asarray(picture))).convert("RGB")
    if picture.mode.startswith("I"):
        gray = np.asarray(picture)
        if gray.min() < 0 or gray.max() > 65535:
            raise ValueError(f"gray values must be 16 bits, 0 to 65535, not {gray.min()} to {gray.max()}")
        return Image.fromarray((gray >> 8).astype(np.uint8)).convert("RGB")
    if picture.mode in ("P", "PA", "LA", "RGBA", "RGBa", "La") or "transparency" in picture.info:
        layered = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), layered).convert("RGB")
    return picture.convert("RGB")


def _unit_to_uint8(values: np.ndarray) -> np.ndarray:
    """Floats in [0, 1] as uint8. Raises ValueError for NaN and for values out of range."""
    if not np.isfinite(values).all():
        raise ValueError("has pixels that are not finite")
    if values.min() < 0 or values.max() > 1:
        raise ValueError(f"float pixels must lie in [0, 1], not [{values.min()}, {values.max()}]")
    return np.rint(values * 255).astype(np.uint8)


def as_rgb(images: np.ndarray, name: str, first: int = 0) -> np.ndarray:
    """(n, H, W[, 1 or 3]) uint8, or floats in [0, 1], as (n, H, W, 3) uint8.

    Raises SourceError for values out of range, or NaN: then it names the images, counted from `first`.
    """
    if np.issubdtype(images.dtype, np.floating):
        images = _floats_to_uint8(images, name, first)
    if images.ndim == 3:
        images = images[..., None]
    return np.repeat(images, 3, axis=-1) if images.shape[-1] == 1 else images


def _floats_to_uint8(images: np.ndarray, name: str, first: int) -> np.ndarray:
    """(n, ...) floats in [0, 1] as uint8. Raises SourceError for NaN and for values out of range."""
    bad = np.flatnonzero(~np.isfinite(images).all(axis=tuple(range(1, images.ndim)))) + first
    if bad.size:
        raise SourceError(name, [f"{name}: image {i} has pixels that are not finite" for i in bad])
    try:
        return _unit_to_uint8(images)
    except ValueError as error:
        raise SourceError(name, [f"{name}: {error}"]) from error


def pictures_only(names: list[str]) -> list[str]:
    """Those file names that end as a picture format does that Pillow reads."""
    from PIL import Image

    endings = Image.registered_extensions()
    return [name for name in names if "." in name and f".{name.rsplit('.', 1)[1].lower()}" in endings]
