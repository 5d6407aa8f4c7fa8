"""Picture files of any format, size and colour mode as RGB arrays."""

from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from munkey.data import SourceError

if TYPE_CHECKING:
    from PIL.Image import Image

BLOCK = 256  # pictures decoded before they are handed on


def decode(names: list[str], open_file: Callable[[str], IO[bytes]], size: int | None) -> Iterator[np.ndarray]:
    """Blocks of (n, H, W, 3) uint8 from picture files, in order, each resized to size x size where `size` is given.

    Raises SourceError at the end that lists every file that cannot be read, or is of another size than the first where
    no `size` is given.
    """
    faults: list[str] = []
    block: list[np.ndarray] = []
    first: tuple[int, ...] | None = None
    for name in names:
        try:
            with open_file(name) as file:
                picture = _read(file, size)
        except (OSError, ValueError, SyntaxError, EOFError) as error:  # what Pillow raises for a broken file
            faults.append(f"{name}: cannot be read ({type(error).__name__}: {error})")
            continue
        first = first or picture.shape
        if picture.shape != first:
            faults.append(f"{name}: {picture.shape[:2]} px, the first is {first[:2]}; set source.storage_size")
        elif not faults:
            block.append(picture)
            if len(block) == BLOCK:
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
    if size is not None and picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(picture)


def _rgb(picture: "Image") -> "Image":
    """Any mode as RGB: what is transparent becomes white, 16-bit grey keeps its high byte."""
    from PIL import Image

    if picture.mode.startswith("I"):
        grey = np.asarray(picture)
        high = grey >> 8 if grey.max(initial=0) > 255 else grey
        return Image.fromarray(high.clip(0, 255).astype(np.uint8)).convert("RGB")
    if picture.mode in ("P", "PA", "LA", "RGBA", "RGBa", "La") or "transparency" in picture.info:
        layered = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), layered).convert("RGB")
    return picture.convert("RGB")


def as_rgb(images: np.ndarray, name: str, first: int = 0) -> np.ndarray:
    """(n, H, W[, 1 or 3]) uint8, or floats in [0, 1], as (n, H, W, 3) uint8.

    Raises SourceError for NaN (naming images, counted from `first`), values out of range, or another shape.
    """
    if np.issubdtype(images.dtype, np.floating):
        bad = np.flatnonzero(~np.isfinite(images).all(axis=tuple(range(1, images.ndim)))) + first
        if bad.size:
            raise SourceError(name, [f"image {i} has pixels that are not finite" for i in bad])
        if images.min() < 0 or images.max() > 1:
            raise SourceError(name, [f"float pixels must lie in [0, 1], not [{images.min()}, {images.max()}]"])
        images = np.rint(images * 255).astype(np.uint8)
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
