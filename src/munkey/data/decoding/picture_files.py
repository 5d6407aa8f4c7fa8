"""Decode picture files to RGB arrays. The cost of each is bounded before its pixels are read."""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from munkey.core.console import pluralize
from munkey.core.files import explain_content

if TYPE_CHECKING:
    from PIL.Image import Image

# Pillow's names. Opening one of these formats does not decode it (as ICO and ICNS would) or start
# a program (as EPS would), and reveals the size (which AVIF's container can hide).
FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")

MAX_GRAY = 2**16 - 1  # the largest value of 16-bit gray
MAX_PIXELS = 178_956_970  # of a data set's picture: Pillow's limit, 512 MiB in RGB
# Cameras and scanners produce no other shapes, and a few bytes could expand to a gigabyte.
MAX_SIDE = 30_000
MAX_ASPECT = 100
# The JPEG 2000 decoder takes up to 100 bytes per pixel, even if the file is almost empty.
MAX_JPEG2000 = 10_000_000
# A tile of a TIFF picture, which is decoded as a whole, may have this many pixels even if the
# picture has fewer.
MAX_TILE = 2**20
TILE_WIDTH = 322  # tag numbers in the TIFF 6.0 specification
TILE_HEIGHT = 323
# Each scan of a progressive JPEG decodes the whole picture, but takes only 12 bytes in the file.
# libjpeg writes 10 scans; 64 would be one per frequency.
MAX_SCANS = 64
# A file may have this many bytes per pixel, more than any compression needs, plus metadata.
MAX_BYTES_PER_PIXEL = 64
METADATA_BYTES = 4 * 2**20
ONE_PICTURE = ("BMP", "JPEG", "JPEG2000", "PPM")  # formats with a single picture

# A JPEG marker, except a stuffed byte (FF 00) or a restart (D0 to D7), which occur within
# entropy-coded data.
JPEG_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])")
START = b"\xd8"
END = b"\xd9"
SCAN = b"\xda"
TEMPORARY = b"\x01"

Size = tuple[int, int]
White = int | Sequence[int] | None  # the setting `source.white`


class RefusedPictureError(ValueError):
    """A picture that cannot be used.

    Parameters
    ----------
    why
        The reason, for the message.
    number
        The position of the picture in the request.
    """

    def __init__(self, why: str, number: int = 0) -> None:
        super().__init__(why)
        self.number = number


class TooManyPixelsError(RefusedPictureError):
    """Pictures with more pixels in total than allowed."""


@dataclass(frozen=True)
class PictureLimits:
    """Limits on pictures that are read together.

    Attributes
    ----------
    pixels, together
        Maximum number of pixels of one picture, and of all; None for no limit.
    white
        The value of 16-bit gray that becomes white; None for 65535. Of several, each picture has
        the lowest that none of its values exceeds.
    """

    pixels: int
    together: int | None = None
    white: White = None


class DecodedPicture(NamedTuple):
    """A picture as RGB.

    Attributes
    ----------
    pixels
        (H, W, 3) uint8, upright.
    brightest
        The highest value of 16-bit gray; None for other pictures.
    """

    pixels: np.ndarray
    brightest: int | None


def read_pictures(
    files: Sequence[IO[bytes]], limits: PictureLimits, size: Size | None = None
) -> list[DecodedPicture]:
    """Decode pictures in this process, and resize each to `size` (width, height) if that is given.

    All headers are checked before any pixel is decoded. Raises RefusedPictureError if a picture
    cannot be used, and TooManyPixelsError if they have too many pixels in total.
    """
    pictures: list[Image] = []
    total_pixels = 0
    for number, file in enumerate(files):
        with _add_number_to_errors(number):
            picture = open_picture(file, limits.pixels)
        total_pixels += picture.width * picture.height
        if limits.together is not None and total_pixels > limits.together:
            raise TooManyPixelsError(f"{total_pixels:,} pixels", number)
        pictures.append(picture)
    decoded_pictures: list[DecodedPicture] = []
    for number in range(len(pictures)):
        # Pop the picture, so that its decoded pixels are freed at the end of the iteration.
        with _add_number_to_errors(number), pictures.pop(0) as picture:
            image = to_upright_rgb(picture, limits.white)
            brightest = None
            if _is_deep(picture):
                brightest = int(np.asarray(picture).max())
            if size is not None:
                image = resize(image, size)
            decoded_pictures.append(DecodedPicture(image, brightest))
    return decoded_pictures


@contextmanager
def _add_number_to_errors(number: int) -> Iterator[None]:
    """Convert errors in the block to RefusedPictureError, with the picture's number."""
    try:
        yield
    except RefusedPictureError as error:
        error.number = number
        raise
    except Exception as error:
        why = f"cannot be read as a picture ({type(error).__name__}: {error})"
        raise RefusedPictureError(why, number) from error


def open_picture(file: IO[bytes], max_pixels: int) -> "Image":
    """Open a picture without reading its pixels.

    Raises RefusedPictureError if its format or the cost of decoding is refused, and Pillow's
    errors.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            # The limits here are stricter than Pillow's warning.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            picture = Image.open(file, formats=FORMATS)
    except UnidentifiedImageError as error:
        file.seek(0)
        why = explain_content(file.read(64))
        if not why:
            why = f"cannot be read as a picture; it is not one of {', '.join(FORMATS)}"
        raise RefusedPictureError(why) from error
    require_plausible_size(picture, max_pixels)
    _require_plausible_file(picture, file)
    return picture


def require_plausible_size(picture: "Image", max_pixels: int) -> None:
    """Raise RefusedPictureError for a picture that is too large or has an impossible shape."""
    short, long = sorted(picture.size)
    pixels = short * long
    if picture.format == "JPEG2000":
        max_pixels = min(max_pixels, MAX_JPEG2000)
    max_side = min(MAX_SIDE, MAX_ASPECT * short)
    if pixels < 1 or pixels > max_pixels or long > max_side:
        raise RefusedPictureError(
            f"{picture.width} x {picture.height} pixels; a picture may have 1 to {max_pixels:,}, sides of"
            f" at most {MAX_SIDE:,}, and an aspect ratio of at most {MAX_ASPECT}"
        )
    tags = getattr(picture, "tag_v2", {})  # of TIFF pictures only
    tile_width = tags.get(TILE_WIDTH, 0)
    tile_height = tags.get(TILE_HEIGHT, 0)
    are_integers = isinstance(tile_width, int) and isinstance(tile_height, int)
    if not are_integers or tile_width * tile_height > max(pixels, MAX_TILE):
        raise RefusedPictureError(
            f"has tiles of {tile_width} x {tile_height} pixels; a tile may have as many as the"
            f" picture, or {MAX_TILE:,}"
        )


def _require_plausible_file(picture: "Image", file: IO[bytes]) -> None:
    """Raise RefusedPictureError if decoding takes far more work than the picture's size needs."""
    # A file of another format may contain many pictures, so it may be large.
    if picture.format not in (*ONE_PICTURE, "MPO"):
        return
    position = file.tell()
    size = file.seek(0, 2)
    max_size = METADATA_BYTES + MAX_BYTES_PER_PIXEL * picture.width * picture.height
    # Other pictures (MPO) or a video may follow a JPEG: count only the bytes that are decoded.
    if picture.format in ("JPEG", "MPO"):
        file.seek(0)
        size, scans = _count_jpeg_scans(file.read())
        if scans > MAX_SCANS:
            raise RefusedPictureError(
                f"has {scans:,} scans, each of which decodes the whole picture; a JPEG may have"
                f" {MAX_SCANS}. Save it again as a baseline JPEG"
            )
    if size > max_size:
        raise RefusedPictureError(
            f"{size:,} bytes for {picture.width} x {picture.height} pixels; a {picture.format} may"
            f" have {max_size:,}. Save it again"
        )
    file.seek(position)


def _count_jpeg_scans(content: bytes) -> tuple[int, int]:
    """Count a JPEG's bytes up to its end marker, and its scans, from marker to marker."""
    scans = 0
    position = 0
    while True:
        marker = JPEG_MARKER.search(content, position)
        if marker is None:
            return len(content), scans
        position = marker.end()
        if marker[1] == END:
            return position, scans
        if marker[1] in (START, TEMPORARY):  # these have no content
            continue
        if marker[1] == SCAN:
            scans += 1
        # The next two bytes are the segment's length, including themselves. Skipping the segment
        # also skips the scans of a thumbnail in it.
        position += int.from_bytes(content[position : position + 2], "big")


def to_upright_rgb(picture: "Image", white: White = None) -> np.ndarray:
    """Convert a picture to upright RGB: (H, W, 3) uint8. Raises any of Pillow's errors."""
    from PIL import ImageOps

    return np.asarray(_to_rgb(ImageOps.exif_transpose(picture), white))


def _is_deep(picture: "Image") -> bool:
    """Return whether a picture is gray with more than 8 bits."""
    return picture.mode.startswith("I")  # Pillow's modes I (32 bits), I;16, I;16B, ...


def format_dim_warning(brightest: Iterable[int | None], setting: str) -> str:
    """Format a warning about 16-bit gray pictures that become nearly black; "" if none does.

    Parameters
    ----------
    brightest
        The largest value of each picture; None for a picture that is not 16-bit gray.
    setting
        The setting that the warning tells the user to change.
    """
    maxima = [value for value in brightest if value is not None]
    dim_maxima = [value for value in maxima if value < 2**15]  # less than half as bright as white
    if not dim_maxima:
        return ""
    highest = max(dim_maxima)
    bits = max(highest.bit_length(), 8)  # the setting takes values from 255
    white = f"{2**bits - 1}"
    brighter_count = len(maxima) - len(dim_maxima)
    if brighter_count:
        white = (
            f"[{2**bits - 1}, {MAX_GRAY}], for the {pluralize(brighter_count, 'brighter one')} too"
        )
    return (
        f"16-bit gray becomes nearly black in {pluralize(len(dim_maxima), 'picture')}, in which the largest"
        f" value is {highest:,} of {MAX_GRAY:,}. If they use {bits} bits, as X-rays may, set {setting} to {white}"
    )


def resize(image: np.ndarray, size: Size) -> np.ndarray:
    """Resize an image (H, W, 3) uint8 to (width, height), antialiased bilinear, without cropping."""
    width, height = size
    if image.shape[:2] == (height, width):
        return image
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(image))
    return np.asarray(picture.resize(size, Image.Resampling.BILINEAR))


def _to_rgb(picture: "Image", white: White) -> "Image":
    """Convert a picture of any mode to RGB. Transparent pixels become white, floats are in [0, 1].

    16-bit gray is reduced to its high byte, or scaled by `white`. Raises ValueError for other
    values.
    """
    from PIL import Image

    if picture.mode == "F":
        return Image.fromarray(convert_unit_to_uint8(np.asarray(picture))).convert("RGB")
    if _is_deep(picture):
        gray = np.asarray(picture)
        if not white:
            _require_gray_values(gray, MAX_GRAY, "16 bits")
            gray = gray >> 8  # the high byte
        else:
            whites = sorted(np.atleast_1d(white).tolist())
            _require_gray_values(gray, whites[-1], "the setting for white")
            own_white = next(value for value in whites if value >= gray.max())
            gray = np.rint(gray * (255 / own_white))
        return Image.fromarray(gray.astype(np.uint8)).convert("RGB")
    if picture.mode in ("P", "PA", "LA", "RGBA", "RGBa", "La") or "transparency" in picture.info:
        background = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(background, picture.convert("RGBA")).convert("RGB")
    return picture.convert("RGB")


def _require_gray_values(gray: np.ndarray, highest: int, reason: str) -> None:
    """Raise ValueError for values beyond 0 to `highest`. reason: what sets this limit."""
    if gray.min() < 0 or gray.max() > highest:
        raise ValueError(
            f"gray values must be 0 to {highest}, {reason}, not {gray.min()} to {gray.max()}"
        )


def convert_unit_to_uint8(values: np.ndarray) -> np.ndarray:
    """Convert floats in [0, 1] to uint8. Raises ValueError for NaN and values out of range."""
    if not np.isfinite(values).all():
        raise ValueError("has pixels that are not finite")
    if values.min() < 0 or values.max() > 1:
        raise ValueError(f"float pixels must be in [0, 1], not [{values.min()}, {values.max()}]")
    return np.rint(values * 255).astype(np.uint8)
