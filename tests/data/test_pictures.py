"""Picture files of every mode are read right; those that cannot be used are named."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from munkey.data import pictures
from munkey.data.decoding.picture_files import PictureLimits, resize
from munkey.data.registry import DATASETS
from munkey.data.source import SourceError
from tests.data.inputs import class_folders, loaded, pets_in, settings


def open_file(name):
    return Path(name).open("rb")


def decoded(image, ending, folder):
    """A picture after it was saved in the format of an ending."""
    path = folder / f"x.{ending}"
    image.save(path)
    (block,) = pictures.decode([str(path)], open_file, None)
    return block[0]


@pytest.mark.parametrize(("count", "sizes"), [(3, [2, 1]), (4, [2, 2])])
def test_pictures_are_decoded_in_blocks_none_of_which_is_empty(count, sizes, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "BLOCK", 2 * 4 * 4 * 3)
    Image.new("RGB", (4, 4)).save(tmp_path / "x.png")
    assert [
        len(block) for block in pictures.decode([str(tmp_path / "x.png")] * count, open_file, None)
    ] == sizes


def images_of(path):
    return DATASETS["imagefolder"].load(settings(path)).images


@pytest.mark.parametrize(
    ("mode", "ending"), [("L", "png"), ("P", "gif"), ("RGBA", "png"), ("CMYK", "jpg"), ("1", "bmp")]
)
def test_any_color_mode_becomes_rgb(tmp_path, mode, ending):
    pixels = decoded(Image.new("RGB", (4, 4), (200, 0, 0)).convert(mode), ending, tmp_path)
    assert pixels.shape == (4, 4, 3)
    if mode not in ("1", "L"):
        np.testing.assert_allclose(pixels[0, 0], [200, 0, 0], atol=12)


def test_transparent_becomes_white_and_16_bit_keeps_its_high_byte(tmp_path):
    Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.fromarray(np.full((2, 2), 0x1234, np.uint16)).save(tmp_path / "deep.png")
    names = [str(tmp_path / "clear.png"), str(tmp_path / "deep.png")]
    (block,) = pictures.decode(names, open_file, None)
    assert block[0].min() == 255
    assert (block[1] == 0x12).all()


def test_a_picture_of_the_size_is_not_resized():
    image = np.zeros((4, 4, 3), np.uint8)
    assert resize(image, (4, 4)) is image
    assert resize(image, (3, 3)).shape == (3, 3, 3)


def test_dark_16_bit_gray_stays_dark(tmp_path):
    dark = Image.fromarray(np.full((2, 2), 200, np.uint16))
    assert decoded(dark, "png", tmp_path).max() == 0
    assert decoded(dark, "tif", tmp_path).max() == 0


def test_float_pictures_are_read_as_0_to_1(tmp_path):
    values = np.array([[0.0, 0.5], [0.25, 1.0]], dtype=np.float32)
    np.testing.assert_array_equal(
        decoded(Image.fromarray(values), "tif", tmp_path)[..., 0], [[0, 128], [64, 255]]
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[np.nan, 0.5]], np.float32), "not finite"),
        (np.array([[0.0, 200.0]], np.float32), r"must be in \[0, 1\]"),
        (np.array([[0, 70_000]], np.int32), "must be 0 to 65535, 16 bits"),
    ],
)
def test_gray_without_a_known_scale_is_refused(tmp_path, values, message):
    with pytest.raises(SourceError, match=message):
        decoded(Image.fromarray(values), "tif", tmp_path)


def test_mixed_sizes_need_a_storage_size(tmp_path):
    class_folders(tmp_path / "pets", {"cat": 8})
    class_folders(tmp_path / "pets", {"dog": 8}, size=(16, 4))
    with pytest.raises(SourceError, match=r"(?s)8 faults.*set source\.storage_size"):
        loaded(DATASETS["imagefolder"].load(settings(tmp_path / "pets")), tmp_path / "out")
    dataset = loaded(
        DATASETS["imagefolder"].load(settings(tmp_path / "pets", size=5)), tmp_path / "out"
    )
    assert dataset.images.shape == (16, 5, 5, 3)


def test_a_picture_with_too_many_pixels_is_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "LIMITS", PictureLimits(pixels=11))  # of 12
    with pytest.raises(SourceError, match=r"20 faults"):
        list(images_of(pets_in(tmp_path)))


def test_a_broken_member_of_a_zip_is_named(tmp_path):
    content = io.BytesIO()
    Image.fromarray(np.zeros((3, 3, 3), np.uint8)).save(content, "png")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.png", content.getvalue())
    whole = bytearray((tmp_path / "x.zip").read_bytes())
    whole[50] ^= 255
    (tmp_path / "x.zip").write_bytes(whole)
    with (
        zipfile.ZipFile(tmp_path / "x.zip") as archive,
        pytest.raises(SourceError, match=r"a\.png: cannot be read"),
    ):
        list(pictures.decode(["a.png"], archive.open, None))


def test_blocks_are_limited_by_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "BLOCK", 100)  # three pictures of 36 bytes
    assert [len(block) for block in images_of(pets_in(tmp_path))] == [3] * 6 + [2]
