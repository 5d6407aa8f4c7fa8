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
from munkey.deploy.model.images import LIMITS, digest_contents, read_embeddings, read_pixels
from munkey.deploy.model.manifest import PictureSize
from tests.data.inputs import picture

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
    for one in (file, str(file), Image.open(file)):
        assert np.array_equal(read_pixels(one, STORED).images, stored)


def claims(width: int, height: int) -> bytes:
    """A PNG of a hundred bytes that says that it is so large."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + chunk(b"IDAT", zlib.compress(b"\0" * 100))
        + chunk(b"IEND", b"")
    )


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
def test_a_picture_that_says_it_is_huge_or_a_thread_is_refused_before_it_is_decoded(size, tmp_path):
    (tmp_path / "bomb.png").write_bytes(claims(*size))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(PictureError, match=r"bomb\.png.*pixels"):
            read_pixels(tmp_path / "bomb.png", STORED)
    assert not warned  # the sentence is enough


@pytest.mark.parametrize("size", [(1, 100), (30_000, 300), (3163, 3162)])
def test_a_picture_of_any_shape_that_is_met_is_opened(size, tmp_path):
    (tmp_path / "one.png").write_bytes(claims(*size))
    with (tmp_path / "one.png").open("rb") as file:
        assert open_picture(file, LIMITS.pixels).size == size


@pytest.mark.skipif(not features.check("jpg_2000"), reason="this Pillow was built without it")
def test_a_large_jpeg_2000_is_refused_before_it_is_decoded(tmp_path):
    """Its decoder would take 2.4 GB for these 171 bytes."""
    Image.new("RGB", (64, 64)).save(
        tmp_path / "one.jp2", "JPEG2000", no_jp2=True, codeblock_size=(4, 4)
    )
    content, pack = (tmp_path / "one.jp2").read_bytes(), lambda side: struct.pack(">II", side, side)
    moderate, larger = (content.replace(pack(64), pack(side)) for side in (3162, 5000))
    assert (
        open_picture(BytesIO(moderate), LIMITS.pixels).size == (3162, 3162) and len(larger) == 171
    )
    with pytest.raises(
        RefusedPictureError, match="5000 x 5000 pixels; a picture may have 1 to 10,000,000"
    ):
        open_picture(BytesIO(larger), LIMITS.pixels)


def tiled(*sides: int) -> bytes:
    """A TIFF of 4 x 4 pixels in one tile: its width and length, one entry after the other."""
    numbers = [
        (256, 4),
        (257, 4),
        (258, 8),
        (259, 8),
        (262, 1),
        *zip((322, 323, 322, 323), sides, strict=False),
    ]
    entries = [
        struct.pack("<HHII", tag, 4, 1, value) for tag, value in [*numbers, (324, 8), (325, 1)]
    ]
    return struct.pack("<2sHIH", b"II", 42, 8, len(entries)) + b"".join(entries) + bytes(4)


@pytest.mark.parametrize("sides", [(1024, 1024), (16, 16, 12288, 12288)], ids=str)
def test_a_tiff_of_usual_tiles_is_opened(sides):
    """Of a tag that stands twice, Pillow and libtiff take the first."""
    assert open_picture(BytesIO(tiled(*sides)), LIMITS.pixels).size == (4, 4)


@pytest.mark.parametrize("sides", [(1040, 1024), (12288, 12288), (12288, 12288, 16, 16)], ids=str)
def test_a_tiff_whose_tile_is_larger_than_itself_is_refused_before_it_is_decoded(sides):
    """440 kB that say 64 x 64 pixels took 437 MB."""
    with pytest.raises(
        RefusedPictureError, match=rf"has tiles of {sides[0]} x {sides[1]} pixels; a tile may have"
    ):
        open_picture(BytesIO(tiled(*sides)), LIMITS.pixels)


def test_pictures_are_opened_and_decoded_one_after_the_other(tmp_path):
    picture(tmp_path / "one.png", seed=1)
    given = [Image.open(tmp_path / "one.png") for _ in range(3)]
    left = [weakref.ref(one) for one in given]

    def popped():
        for number in range(3):
            yield given.pop(0)
            assert number < 1 or left[number - 1]() is None

    assert len(read_pixels(popped(), STORED).images) == 3


def test_pictures_have_one_digest_only_where_all_their_pixels_are_equal():
    one = np.zeros((2, 3, 3), np.uint8)
    other = one.copy()
    other[1, 2, 2] = 1
    digests = digest_contents([one, other, one.copy()], b"a memory")
    assert digests.shape == (3, 16) and digests.dtype == np.uint8
    assert np.array_equal(digests[0], digests[2]) and not np.array_equal(digests[0], digests[1])
    assert not np.array_equal(digests[:1], digest_contents([one], b"another"))


def test_what_is_no_plain_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    for one in (tmp_path / "pipe.png", Path("/dev/zero"), tmp_path / "nothing.png"):
        with pytest.raises(PictureError, match="no such file"):
            read_pixels(one, STORED)


def test_hidden_files_and_others_in_a_folder_are_left_out(tmp_path):
    for name in ("b/2.png", "a/1.png", ".thumbnails/0.png", "a/.3.png"):
        picture(tmp_path / name, seed=1)
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "folder.png").mkdir()
    assert [Path(file).name for file in read_pixels(tmp_path, STORED).files] == ["1.png", "2.png"]


def test_a_folder_without_a_picture_is_named(tmp_path):
    (tmp_path / "notes.txt").write_text("no picture")
    with pytest.raises(PictureError, match=rf"^{tmp_path}: contains no picture \(BMP, GIF, JPEG"):
        read_pixels(tmp_path, STORED)


@pytest.mark.parametrize("name", FORMATS)
def test_each_of_the_formats_is_read(name, tmp_path):
    if (library := {"JPEG2000": "jpg_2000", "WEBP": "webp"}.get(name)) and not features.check(
        library
    ):
        pytest.skip("this Pillow was built without it")
    Image.new("RGB", (6, 6), "red").save(tmp_path / "one", name)
    assert np.abs(read_pixels(tmp_path / "one", STORED).images.astype(int) - [255, 0, 0]).max() < 20


@pytest.mark.parametrize("name", ["AVIF", "EPS", "ICNS", "ICO", "PCX", "TGA"])
def test_no_other_format_is_opened_whatever_the_file_is_called(name, tmp_path, monkeypatch):
    picture(tmp_path / "whole.png", seed=1)
    Image.new("RGB", (16, 16)).save(tmp_path / "one.png", name)
    monkeypatch.setitem(Image.OPEN, name, (lambda *_: pytest.fail("was opened"), None))
    with pytest.raises(
        PictureError, match=r"one\.png: cannot be read as a picture; it is not one of BMP, GIF, "
    ):
        read_pixels(tmp_path / "one.png", STORED)
    (tmp_path / "one.png").rename(tmp_path / f"one.{name.lower()}")
    assert [Path(file).name for file in read_pixels(tmp_path, STORED).files] == ["whole.png"]


def test_where_a_picture_lay_is_named_in_full_and_in_utf_8(tmp_path):
    (tmp_path / "folder").mkdir()
    for name, stored in (("a.png", "a.png"), (os.fsdecode(b"caf\xe9.png"), "caf\\xe9.png")):
        Image.new("RGB", (6, 6)).save(tmp_path / name)
        assert read_pixels(tmp_path / "folder" / ".." / name, STORED).files == (
            str(tmp_path / stored),
        )


def test_the_first_picture_too_many_stops_a_request_before_anything_is_decoded(monkeypatch):
    file = BytesIO()
    Image.new("1", (40, 30)).save(file, "PNG")
    looked_at = Mock(wraps=open_picture)
    monkeypatch.setattr(picture_files, "open_picture", looked_at)
    monkeypatch.setattr(picture_files, "to_upright_rgb", lambda picture: pytest.fail("was decoded"))
    with pytest.raises(TooManyPixelsError, match="2,400 pixels") as raised:
        picture_files.read_pictures(
            [BytesIO(file.getvalue())] * 5, PictureLimits(1200, together=2000)
        )
    assert raised.value.number == 1 and looked_at.call_count == 2
    with pytest.raises(
        HTTPException, match=r"2,400 pixels up to images\.1; a request may have 2,000"
    ) as refused:
        bodies.decode_pictures([file.getvalue()] * 5, STORED, bodies.RequestLimits(pixels=2000))
    assert refused.value.status_code == 413


@given(content=st.binary(max_size=200), kept=st.integers(0, 200), flipped=st.integers(0, 199))
def test_damaged_pictures_are_read_or_refused(content, kept, flipped, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    picture(folder / "whole.png", seed=1)
    whole = bytearray((folder / "whole.png").read_bytes())
    whole[flipped % len(whole)] ^= 0xFF
    for damaged in (content, bytes(whole[:kept]), bytes(whole)):
        (folder / "one.png").write_bytes(damaged)
        try:
            found = read_pixels(folder / "one.png", STORED)
        except PictureError:
            continue
        assert found.images.shape == (1, 6, 6, 3)


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
def test_what_is_no_picture_is_refused(given_images):
    with pytest.raises(PictureError):
        read_pixels(given_images, STORED)


HEADER = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000, 3), }\n"
HUGE = b"\x93NUMPY\x01\x00" + len(HEADER).to_bytes(2, "little") + HEADER


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((f"rows.{ending}", b"a,b,c\n1,x,3\n") for ending in ("npy", "csv", "txt")),
        *(("rows.npy", content) for content in (b"", b"PK\x03\x04", HUGE)),
        ("none.csv", None),
    ],
)
def test_a_file_that_holds_no_rows_is_named_with_what_would(name, content, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(
        PictureError, match=rf"{name}: .*rows of 3 finite numbers each, also as a \.npy file"
    ):
        read_embeddings(tmp_path / name, 3)


def test_no_rows_at_all_are_refused():
    with pytest.raises(PictureError, match="no row was given"):
        read_embeddings([], 3)


def test_what_lies_beside_pictures_in_a_folder_is_left_out(tmp_path):
    for name in ("0.png", "@eaDir/0.png", "more/__MACOSX/0.png", ".hidden/0.png", "more/1.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 6)).save(tmp_path / name)
    (tmp_path / "report.pdf").write_bytes(b"%PDF-1.4")
    assert read_pixels(tmp_path, STORED).files == (
        str(tmp_path / "0.png"),
        str(tmp_path / "more/1.png"),
    )


def test_all_bad_pictures_are_named_at_once_or_skipped(tmp_path):
    Image.new("RGB", (6, 6)).save(tmp_path / "0.png")
    (tmp_path / "1.png").write_bytes(b"")
    given_pictures = [tmp_path / "1.png", tmp_path / "0.png", tmp_path / "2.png", None]
    with pytest.raises(PictureError) as refused:
        read_pixels(given_pictures, STORED)
    assert str(refused.value).splitlines()[0] == "3 pictures cannot be used:"
    assert [word in str(refused.value) for word in ("1.png", "0.png", "2.png", "NoneType")] == [
        True,
        False,
        True,
        True,
    ]
    with pytest.warns(UserWarning, match=r"(?s)skipped 3 pictures: .*1\.png"):
        taken = read_pixels(given_pictures, STORED, "skip")
    assert taken.places.tolist() == [1] and taken.files == (str(tmp_path / "0.png"),)
    with pytest.raises(PictureError, match="3 pictures cannot be used"):
        read_pixels([given_pictures[0], *given_pictures[2:]], STORED, "skip")


def test_a_white_that_nobody_set_leaves_the_digests_of_older_models_as_they_are():
    assert PictureSize(height=6, width=4).model_dump(mode="json") == {"height": 6, "width": 4}
    bright = PictureSize(height=6, width=4, white=4095)
    assert PictureSize.model_validate(bright.model_dump(mode="json")) == bright
