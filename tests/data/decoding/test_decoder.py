"""Pictures that cost a decoder minutes, memory or its life are refused by name, and the next one is read."""

import io
import os
import signal
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin, features

from munkey import readable_pictures
from munkey.data import pictures
from munkey.data.decoding import decoder, picture_files
from munkey.data.decoding.decoder import Decoder
from munkey.data.decoding.picture_files import MAX_SCANS, PictureLimits, RefusedPictureError
from munkey.data.pictures import decode, open_regular_file
from munkey.data.registry import DATASETS
from munkey.data.source import SourceError
from tests.data.inputs import class_folders, file_of, loaded, settings, with_scans

LIMITS = PictureLimits(pixels=50_000_000)
SECONDS = 60.0


@pytest.fixture
def process():
    one = Decoder()
    yield one
    one.stop()


def read(content: bytes) -> np.ndarray:
    return picture_files.read_pictures([io.BytesIO(content)], LIMITS)[0].pixels


def test_a_jpeg_with_more_scans_than_the_limit_is_refused():
    assert read(with_scans((600, 400), MAX_SCANS)).shape == (400, 600, 3)
    with pytest.raises(RefusedPictureError, match="has 65 scans"):
        read(with_scans((600, 400), MAX_SCANS + 1))


def test_a_jpeg_with_too_many_scans_in_a_folder_of_pictures_is_refused_by_name(tmp_path):
    """0.7 MB would keep a decoder busy for minutes."""
    hostile = with_scans((5000, 5000), 20_000)
    class_folders(tmp_path / "pets", {"cat": 8, "dog": 8})
    (tmp_path / "pets/cat/scans.jpg").write_bytes(hostile)
    with pytest.raises(SourceError, match=r"cat/scans\.jpg: has 20,000 scans"):
        loaded(DATASETS["imagefolder"].load(settings(tmp_path / "pets", size=4)), tmp_path / "out")


def test_scans_of_a_thumbnail_and_bytes_after_the_end_are_not_counted():
    thumbnail = with_scans((600, 400), MAX_SCANS)
    exif = Image.Exif()
    exif[0x9286] = b"\xff\xda" * 100  # a comment
    whole = file_of("JPEG", exif=exif, comment=thumbnail[:60_000]) + b"\xff\xda\x00\x02" * 1000
    assert read(whole).shape == (4, 6, 3)


def test_scans_behind_fill_bytes_and_restarts_are_counted():
    whole = with_scans((600, 400), MAX_SCANS + 1)
    hidden = whole.replace(b"\xff\xda", b"\xff\xff\xff\xda").replace(
        b"\xff\xc4", b"\xff\xd0\xff\xff\xc4"
    )
    with pytest.raises(RefusedPictureError, match="has 65 scans"):
        read(hidden)


@pytest.mark.parametrize(("size", "refused"), [((1, 1), True), ((400, 400), False)])
def test_a_file_with_too_many_bytes_for_its_pixels_is_refused(size, refused):
    """Five megabytes of segments that nobody reads."""
    whole = file_of("JPEG", size)
    segment = b"\xff\xef" + struct.pack(">H", 65_002) + bytes(65_000)
    stuffed = whole[:2] + segment * 80 + whole[2:]
    if not refused:
        assert read(stuffed).shape == (*size, 3)
        return
    with pytest.raises(RefusedPictureError, match=r"1 x 1 pixels.* 4,194,368"):
        read(stuffed)


@pytest.mark.skipif(not features.check("jpg_2000"), reason="this Pillow was built without it")
def test_a_picture_that_takes_longer_than_the_deadline_is_refused_and_the_next_is_read(process):
    slow = file_of("JPEG2000", (3000, 3000))
    with pytest.raises(RefusedPictureError, match=r"within 0\.02 s of CPU time"):
        process.read([slow], LIMITS, 0.02)
    assert process.read([file_of("PNG")], LIMITS, SECONDS)[0].pixels.shape == (4, 6, 3)


@pytest.mark.parametrize("kind", picture_files.FORMATS)
def test_the_process_reads_files_as_this_process_does(kind, process):
    content = file_of(kind)
    there = process.read([content, content], LIMITS, SECONDS, (3, 2))
    here = picture_files.read_pictures([io.BytesIO(content)], LIMITS, (3, 2))[0]
    for picture in there:
        np.testing.assert_array_equal(picture.pixels, here.pixels)
        assert picture.brightest is here.brightest is None


def test_a_killed_process_is_started_again(process):
    process.read([file_of("PNG")], LIMITS, SECONDS)
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait()
    assert len(process.read([file_of("PNG")], LIMITS, SECONDS)) == 1


def test_a_kill_while_a_picture_is_decoded_refuses_that_picture(process):
    process.read([file_of("PNG")], LIMITS, SECONDS)
    os.kill(process._process.pid, signal.SIGSTOP)
    killer = threading.Timer(0.3, os.kill, (process._process.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(RefusedPictureError, match=r"exit code -9"):
        process.read([file_of("PNG")], LIMITS, SECONDS)
    killer.join()
    assert len(process.read([file_of("PNG")], LIMITS, SECONDS)) == 1


def test_a_picture_that_needs_too_much_memory_is_refused(monkeypatch, process):
    """The bound is that of the process, here lowered: 40 megapixels need 160 MB and more."""
    run = f"from munkey.data.decoding import decoder; decoder.MAX_MEMORY = {600 * 2**20}; decoder.main()"
    started = subprocess.Popen

    def small(command, **how):
        return started([sys.executable, "-c", run, command[-1]], **how)

    monkeypatch.setattr(decoder.subprocess, "Popen", small)
    assert process.read([file_of("PNG")], LIMITS, SECONDS)[0].pixels.shape == (4, 6, 3)
    with pytest.raises(RefusedPictureError, match="MemoryError"):
        process.read([file_of("PNG", (8000, 5000))], LIMITS, SECONDS)
    assert process.read([file_of("PNG")], LIMITS, SECONDS)[0].pixels.shape == (4, 6, 3)


def test_pictures_of_ones_own_need_no_process(tmp_path, monkeypatch):
    """A process per program, and a round trip per picture, guard against strangers alone."""
    monkeypatch.setattr(decoder.subprocess, "Popen", None)
    class_folders(tmp_path / "pets", {"cat": 8, "dog": 8})
    dataset = loaded(
        DATASETS["imagefolder"].load(settings(tmp_path / "pets", size=4)), tmp_path / "out"
    )
    assert len(dataset.images) == 16
    assert len(readable_pictures(tmp_path / "pets")) == 16


def test_the_decoder_ends_with_the_process_that_started_it():
    run = (
        "import os, signal; from munkey.data.decoding.decoder import decoder;"
        "from tests.data.decoding.test_decoder import LIMITS, file_of;"
        "decoder.read([file_of('PNG')], LIMITS, 60); print(decoder._process.pid, flush=True);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", run], capture_output=True, text=True, check=False, timeout=60
    )
    process = Path(f"/proc/{int(ended.stdout)}/stat")
    for _ in range(1000):
        if not process.exists() or process.read_text().split()[2] == "Z":
            return
        threading.Event().wait(0.02)
    pytest.fail("it still runs")


@pytest.mark.parametrize("kind", ["EPS", "ICO", "ICNS", "PCX", "TGA"])
def test_formats_that_start_a_program_or_are_decoded_at_once_are_refused(kind, tmp_path):
    class_folders(tmp_path / "pets", {"cat": 8, "dog": 8})
    content = file_of(kind, (16, 16))
    (tmp_path / "pets/cat/disguised.png").write_bytes(content)
    (tmp_path / f"pets/cat/one.{kind.lower()}").write_bytes(content)
    with pytest.raises(SourceError, match=r"1 fault\n.*disguised\.png: .*not one of BMP"):
        loaded(DATASETS["imagefolder"].load(settings(tmp_path / "pets", size=4)), tmp_path / "out")


def test_a_pipe_is_not_read_as_a_picture(tmp_path, capfd):
    class_folders(tmp_path / "pets", {"cat": 8, "dog": 8})
    os.mkfifo(tmp_path / "pets/cat/pipe.png")
    dataset = loaded(
        DATASETS["imagefolder"].load(settings(tmp_path / "pets", size=4)), tmp_path / "out"
    )
    assert len(dataset.images) == 16
    assert "pipe.png" in capfd.readouterr().err
    with pytest.raises(SourceError, match=r"pipe\.png is not a regular file"):
        list(decode([str(tmp_path / "pets/cat/pipe.png")], open_regular_file, None))


@pytest.mark.parametrize("reader", ["npz", "idx"])
def test_a_pipe_is_not_read_as_an_archive(reader, tmp_path):
    place = tmp_path / ("x.npz" if reader == "npz" else "train-images-idx3-ubyte")
    os.mkfifo(place)
    with pytest.raises(
        SourceError, match="is not a regular file" if reader == "npz" else "is missing"
    ):
        DATASETS[reader].load(settings(place if reader == "npz" else tmp_path))


def chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


@pytest.mark.parametrize("kind", [b"zTXt", b"iTXt", b"iCCP"])
def test_a_png_with_text_that_unpacks_to_gigabytes_is_refused(kind, tmp_path):
    before = {b"zTXt": b"k\0\0", b"iTXt": b"k\0\1\0\0\0", b"iCCP": b"k\0\0"}[kind]
    packed = zlib.compress(bytes(200 * 2**20))
    whole = file_of("PNG")
    bomb = whole[:33] + chunk(kind, before + packed) * 3 + whole[33:]
    (tmp_path / "bomb.png").write_bytes(bomb)
    try:
        picture = pictures._read(str(tmp_path / "bomb.png"), open_regular_file, None, None)
    except SourceError as error:
        assert "too large" in error.faults[0]  # noqa: PT017  # a profile may be passed over instead
    else:
        assert kind == b"iCCP"
        assert picture.pixels.shape == (4, 6, 3)
    assert PngImagePlugin.MAX_TEXT_CHUNK <= 2**20


@pytest.mark.parametrize(
    ("size", "size_in_message"),
    [
        ((40_000, 300), "40000 x 300 pixels"),
        ((20_000, 20_000), "400000000 pixels"),
    ],
)
def test_a_png_that_unpacks_to_gigabytes_is_refused_by_its_header(size, size_in_message, tmp_path):
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))
    (tmp_path / "bomb.png").write_bytes(
        file_of("PNG")[:8] + header + chunk(b"IDAT", zlib.compress(bytes(100)))
    )
    with pytest.raises(SourceError, match=rf"bomb\.png: .*{size_in_message}"):
        list(decode([str(tmp_path / "bomb.png")], open_regular_file, 4))
