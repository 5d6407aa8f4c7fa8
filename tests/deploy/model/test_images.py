"""Pictures that come from outside: as the pipeline would store them, or refused with a sentence."""

import os
import struct
import warnings
import weakref
import zlib
from io import BytesIO
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from fastapi import HTTPException
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, features

from munkey.data.decoding import picture_files
from munkey.data.decoding.picture_files import (
    FORMATS,
    PictureLimits,
    RefusedPictureError,
    TooManyPixelsError,
    open_picture,
)
from munkey.data.pictures import decode
from munkey.deploy.errors import PictureError
from munkey.deploy.http import bodies
from munkey.deploy.model import images as module
from munkey.deploy.model.images import LIMITS, digest_contents, read_embeddings, read_pixels
from munkey.deploy.model.manifest import PictureSize
from tests.data.inputs import picture
from tests.deploy.inputs import png_of

STORED = PictureSize(height=6, width=6)


def open_binary(name):
    return Path(name).open("rb")


@pytest.mark.parametrize(
    ("mode", "ending"),
    [("RGB", "png"), ("L", "png"), ("P", "gif"), ("RGBA", "png"), ("I;16", "tiff")],
)
def test_a_picture_is_stored_as_the_pipeline_stores_it(mode, ending, tmp_path):
    file = tmp_path / f"one.{ending}"
    if mode == "I;16":
        Image.fromarray((np.arange(48, dtype=np.uint16) * 1000).reshape(6, 8)).save(file)
    else:
        picture(file, mode=mode, seed=3)
    stored = next(decode([str(file)], open_binary, STORED.height))
    for source in (file, str(file), Image.open(file)):
        assert np.array_equal(read_pixels(source, STORED).images, stored)


def claim_size(width: int, height: int) -> bytes:
    """A PNG of a hundred bytes that claims this size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0" * 100))
    return b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "size",
    [
        (10_000, 10_000),
        (2**31 - 1, 2**31 - 1),
        (50_001, 1_000),
        (30_001, 400),
        (1, 101),
        (20_200, 200),
    ],
)
def test_a_picture_that_claims_to_be_huge_or_very_thin_is_refused_before_it_is_decoded(
    size, tmp_path
):
    (tmp_path / "bomb.png").write_bytes(claim_size(*size))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(PictureError, match=r"bomb\.png.*pixels"):
            read_pixels(tmp_path / "bomb.png", STORED)
    assert not warned  # the sentence is enough


@pytest.mark.parametrize("size", [(1, 100), (30_000, 300), (3163, 3162)])
def test_a_picture_of_a_usual_shape_is_opened(size, tmp_path):
    (tmp_path / "one.png").write_bytes(claim_size(*size))
    with (tmp_path / "one.png").open("rb") as file:
        assert open_picture(file, LIMITS.pixels).size == size


@pytest.mark.skipif(not features.check("jpg_2000"), reason="this Pillow was built without it")
def test_a_large_jpeg_2000_is_refused_before_it_is_decoded(tmp_path):
    """Its decoder would take 2.4 GB for these 171 bytes."""
    Image.new("RGB", (64, 64)).save(
        tmp_path / "one.jp2", "JPEG2000", no_jp2=True, codeblock_size=(4, 4)
    )
    content = (tmp_path / "one.jp2").read_bytes()

    def claim(side: int) -> bytes:
        return content.replace(struct.pack(">II", 64, 64), struct.pack(">II", side, side))

    moderate = claim(3162)
    larger = claim(5000)
    assert open_picture(BytesIO(moderate), LIMITS.pixels).size == (3162, 3162)
    assert len(larger) == 171
    with pytest.raises(RefusedPictureError, match="5000 x 5000 pixels"):
        open_picture(BytesIO(larger), LIMITS.pixels)


def tile_tiff(*sides: int) -> bytes:
    """A TIFF of 4 x 4 pixels in one tile: its width and length, one entry after the other."""
    numbers = [(256, 4), (257, 4), (258, 8), (259, 8), (262, 1)]
    numbers += zip((322, 323, 322, 323), sides, strict=False)
    numbers += [(324, 8), (325, 1)]
    entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in numbers]
    return struct.pack("<2sHIH", b"II", 42, 8, len(entries)) + b"".join(entries) + bytes(4)


@pytest.mark.parametrize("sides", [(1024, 1024), (16, 16, 12288, 12288)], ids=str)
def test_a_tiff_of_usual_tiles_is_opened(sides):
    """If a tag stands twice, Pillow and libtiff take the first."""
    assert open_picture(BytesIO(tile_tiff(*sides)), LIMITS.pixels).size == (4, 4)


@pytest.mark.parametrize("sides", [(1040, 1024), (12288, 12288), (12288, 12288, 16, 16)], ids=str)
def test_a_tiff_whose_tile_is_larger_than_itself_is_refused_before_it_is_decoded(sides):
    """440 kB that say 64 x 64 pixels took 437 MB."""
    with pytest.raises(RefusedPictureError, match=rf"tiles of {sides[0]} x {sides[1]} pixels"):
        open_picture(BytesIO(tile_tiff(*sides)), LIMITS.pixels)


def test_pictures_are_opened_and_decoded_one_after_the_other(tmp_path):
    picture(tmp_path / "one.png", seed=1)
    pictures = [Image.open(tmp_path / "one.png") for _ in range(3)]
    references = [weakref.ref(one) for one in pictures]

    def popped():
        for number in range(3):
            yield pictures.pop(0)
            assert number < 1 or references[number - 1]() is None

    assert len(read_pixels(popped(), STORED).images) == 3


def test_pictures_have_one_digest_only_where_all_their_pixels_are_equal():
    one = np.zeros((2, 3, 3), np.uint8)
    other = one.copy()
    other[1, 2, 2] = 1
    digests = digest_contents([one, other, one.copy()], b"a memory")
    assert digests.shape == (3, 16)
    assert digests.dtype == np.uint8
    assert np.array_equal(digests[0], digests[2])
    assert not np.array_equal(digests[0], digests[1])
    assert not np.array_equal(digests[:1], digest_contents([one], b"another"))


def test_a_pipe_or_device_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path / "pipe.png", Path("/dev/zero"), tmp_path / "nothing.png"):
        with pytest.raises(PictureError, match="no such file"):
            read_pixels(path, STORED)


def test_hidden_files_thumbnails_and_other_files_of_a_folder_are_left_out(tmp_path):
    for name in ("b/2.png", "a/1.png", "0.png"):
        picture(tmp_path / name, seed=1)
    for name in (".thumbnails/0.png", "a/.3.png", "@eaDir/0.png", "a/__MACOSX/0.png"):
        picture(tmp_path / name, seed=1)
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "report.pdf").write_bytes(b"%PDF-1.4")
    (tmp_path / "folder.png").mkdir()
    pictures = [str(tmp_path / name) for name in ("0.png", "a/1.png", "b/2.png")]
    assert list(read_pixels(tmp_path, STORED).files) == pictures


def test_a_folder_without_a_picture_is_named(tmp_path):
    (tmp_path / "notes.txt").write_text("no picture")
    with pytest.raises(PictureError, match=rf"^{tmp_path}: contains no picture"):
        read_pixels(tmp_path, STORED)


@pytest.mark.parametrize("name", FORMATS)
def test_each_of_the_formats_is_read(name, tmp_path):
    library = {"JPEG2000": "jpg_2000", "WEBP": "webp"}.get(name)
    if library and not features.check(library):
        pytest.skip("this Pillow was built without it")
    Image.new("RGB", (6, 6), "red").save(tmp_path / "one", name)
    assert np.abs(read_pixels(tmp_path / "one", STORED).images.astype(int) - [255, 0, 0]).max() < 20


@pytest.mark.parametrize("name", ["AVIF", "EPS", "ICNS", "ICO", "PCX", "TGA"])
def test_no_other_format_is_opened_whatever_the_file_is_called(name, tmp_path, monkeypatch):
    picture(tmp_path / "whole.png", seed=1)
    Image.new("RGB", (16, 16)).save(tmp_path / "one.png", name)
    monkeypatch.setitem(Image.OPEN, name, (lambda *_: pytest.fail("was opened"), None))
    with pytest.raises(PictureError, match=r"one\.png: .*not one of BMP, GIF"):
        read_pixels(tmp_path / "one.png", STORED)
    (tmp_path / "one.png").rename(tmp_path / f"one.{name.lower()}")
    assert [Path(file).name for file in read_pixels(tmp_path, STORED).files] == ["whole.png"]


def test_the_file_of_a_picture_is_its_full_path_in_utf_8(tmp_path):
    (tmp_path / "folder").mkdir()
    for name, stored in (("a.png", "a.png"), (os.fsdecode(b"caf\xe9.png"), "caf\\xe9.png")):
        Image.new("RGB", (6, 6)).save(tmp_path / name)
        [file] = read_pixels(tmp_path / "folder" / ".." / name, STORED).files
        assert file == str(tmp_path / stored)


def test_a_request_with_too_many_pixels_is_refused_before_a_picture_is_decoded(monkeypatch):
    content = png_of(Image.new("1", (40, 30)))
    looked_at = Mock(wraps=open_picture)
    monkeypatch.setattr(picture_files, "open_picture", looked_at)
    monkeypatch.setattr(picture_files, "to_upright_rgb", lambda picture: pytest.fail("was decoded"))
    limits = PictureLimits(1200, together=2000)
    with pytest.raises(TooManyPixelsError, match="2,400 pixels") as raised:
        picture_files.read_pictures([BytesIO(content)] * 5, limits)
    assert raised.value.number == 1
    assert looked_at.call_count == 2
    with pytest.raises(HTTPException, match=r"2,400 pixels up to images\.1") as refused:
        bodies.decode_pictures([content] * 5, STORED, bodies.RequestLimits(pixels=2000))
    assert refused.value.status_code == 413


@given(content=st.binary(max_size=200), size=st.integers(0, 200), flipped=st.integers(0, 199))
def test_damaged_pictures_are_read_or_refused(content, size, flipped, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    picture(folder / "whole.png", seed=1)
    whole = bytearray((folder / "whole.png").read_bytes())
    whole[flipped % len(whole)] ^= 0xFF
    for damaged in (content, bytes(whole[:size]), bytes(whole)):
        (folder / "one.png").write_bytes(damaged)
        try:
            pixels = read_pixels(folder / "one.png", STORED)
        except PictureError:
            continue
        assert pixels.images.shape == (1, 6, 6, 3)


@pytest.mark.parametrize(
    "given_images",
    [
        np.zeros((2, 6, 6, 3)),
        np.zeros((6, 6), np.uint8),
        np.zeros((1, 6, 6, 4), np.uint8),
        np.zeros((1, 0, 6, 3), np.uint8),
        np.zeros((0, 6, 6, 3), np.uint8),
        [],
        [None],
        3,
        b"bytes",
    ],
)
def test_arrays_and_objects_that_are_no_pictures_are_refused(given_images):
    with pytest.raises(PictureError):
        read_pixels(given_images, STORED)


HEADER = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000, 3), }\n"
HUGE = b"\x93NUMPY\x01\x00" + len(HEADER).to_bytes(2, "little") + HEADER


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.npy", b"a,b,c\n1,x,3\n"),
        ("rows.csv", b"a,b,c\n1,x,3\n"),
        ("rows.txt", b"a,b,c\n1,x,3\n"),
        ("rows.npy", b""),
        ("rows.npy", b"PK\x03\x04"),
        ("rows.npy", HUGE),
        ("none.csv", None),
    ],
)
def test_a_file_without_rows_is_refused_with_the_form_that_rows_must_have(name, content, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(PictureError, match=rf"{name}: .*rows of 3"):
        read_embeddings(tmp_path / name, 3)


def test_no_rows_at_all_are_refused():
    with pytest.raises(PictureError, match="no row was given"):
        read_embeddings([], 3)


def test_all_bad_pictures_are_named_at_once_or_skipped(tmp_path):
    Image.new("RGB", (6, 6)).save(tmp_path / "0.png")
    (tmp_path / "1.png").write_bytes(b"")
    given_pictures = [tmp_path / "1.png", tmp_path / "0.png", tmp_path / "2.png", None]
    with pytest.raises(PictureError) as refused:
        read_pixels(given_pictures, STORED)
    message = str(refused.value)
    assert message.startswith("3 pictures cannot be used:")
    for part in ("1.png", "2.png", "NoneType"):
        assert part in message
    assert "0.png" not in message
    with pytest.warns(UserWarning, match=r"(?s)skipped 3 pictures: .*1\.png"):
        taken = read_pixels(given_pictures, STORED, "skip")
    assert taken.places.tolist() == [1]
    assert taken.files == (str(tmp_path / "0.png"),)
    with pytest.raises(PictureError, match="3 pictures cannot be used"):
        read_pixels([given_pictures[0], *given_pictures[2:]], STORED, "skip")


def test_a_picture_size_without_white_is_written_without_it():
    assert PictureSize(height=6, width=4).model_dump(mode="json") == {"height": 6, "width": 4}
    bright = PictureSize(height=6, width=4, white=4095)
    assert PictureSize.model_validate(bright.model_dump(mode="json")) == bright


def test_a_file_that_may_not_be_read_is_an_unreadable_picture(tmp_path, monkeypatch):
    """As root, tests may read every file."""
    file = tmp_path / "locked.png"
    Image.new("RGB", (4, 4)).save(file)

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(module, "open_regular_file", refuse)
    with pytest.raises(PictureError, match=r"locked\.png: .*Permission denied"):
        read_pixels([file], PictureSize(height=4, width=4))
