"""A file of a published data set is found, or one message says what to put where."""

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from munkey.data.download import MissingDataError, PublishedFile

FILE = PublishedFile("http://127.0.0.1:9/some.npz", "some.npz", "0" * 32, "12 bytes")


def test_the_error_without_a_network_says_which_file_to_put_where(tmp_path):
    with pytest.raises(MissingDataError) as caught:
        FILE.obtain(tmp_path)
    for fact in (FILE.url, FILE.size, FILE.md5, str(tmp_path / FILE.name)):
        assert fact in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_another_file_of_that_name_is_refused(tmp_path):
    (tmp_path / "some.npz").write_bytes(b"another")
    with pytest.raises(ValueError, match="its md5 is not") as refused:
        FILE.obtain(tmp_path)
    assert "elete" not in str(refused.value)


def test_an_existing_file_is_used_without_a_network(tmp_path):
    (tmp_path / "some.npz").write_bytes(b"the content")
    md5 = hashlib.md5(b"the content", usedforsecurity=False).hexdigest()
    file = PublishedFile(FILE.url, FILE.name, md5, FILE.size)
    assert file.obtain(tmp_path) == tmp_path / "some.npz"


@pytest.fixture
def server(tmp_path) -> Iterator[str]:
    """The address of a server of the files in a folder."""
    (tmp_path / "published").mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "published"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_size_of_a_missing_file_is_read_without_downloading_it(tmp_path, server):
    (tmp_path / "published" / "some.npz").write_bytes(b"the content")
    file = PublishedFile(f"{server}/some.npz", "some.npz", FILE.md5, FILE.size)
    assert file.bytes_to_download(tmp_path) == 11
    assert not (tmp_path / "some.npz").exists()
    for absent in (FILE, PublishedFile(f"{server}/other.npz", "some.npz", FILE.md5, FILE.size)):
        with pytest.raises(MissingDataError, match="could not be downloaded"):
            absent.bytes_to_download(tmp_path)


@pytest.mark.parametrize("present", ["some.npz", "some-unpacked"])
def test_an_existing_packed_or_unpacked_file_needs_no_server(tmp_path, present):
    file = PublishedFile(FILE.url, FILE.name, FILE.md5, FILE.size, unpacked="some-unpacked")
    assert not file.is_here(tmp_path)
    (tmp_path / present).mkdir()
    assert file.is_here(tmp_path)
    assert file.bytes_to_download(tmp_path) == 0


def test_an_interrupted_download_starts_again(tmp_path, server, monkeypatch):
    """Ctrl-C, or a kill: what came so far does not stand where the whole file should."""
    (tmp_path / "published" / "some.npz").write_bytes(b"the content")
    md5 = hashlib.md5(b"the content", usedforsecurity=False).hexdigest()
    file = PublishedFile(f"{server}/some.npz", "some.npz", md5, FILE.size)

    def cut_off(url: str, folder: str, name: str, md5: str) -> None:
        (Path(folder) / name).write_bytes(b"the con")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("torchvision.datasets.utils.download_url", cut_off)
        with pytest.raises(KeyboardInterrupt):
            file.obtain(tmp_path)
    assert not file.is_here(tmp_path)
    assert file.obtain(tmp_path).read_bytes() == b"the content"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["published", "some.npz"]
