"""A file of a published data set is found, or one message says what to put where."""

import hashlib

import pytest

from munkey.data.download import MissingDataError, PublishedFile

FILE = PublishedFile("http://127.0.0.1:9/some.npz", "some.npz", "0" * 32, "12 bytes")


def test_without_a_network_one_message_says_what_to_put_where(tmp_path):
    with pytest.raises(MissingDataError) as caught:
        FILE.obtain(tmp_path)
    facts = (FILE.url, FILE.size, FILE.md5, str(tmp_path / FILE.name), "nothing else is needed")
    assert all(fact in str(caught.value) for fact in facts)
    assert not list(tmp_path.iterdir())


def test_another_file_of_that_name_is_refused(tmp_path):
    (tmp_path / "some.npz").write_bytes(b"another")
    with pytest.raises(ValueError, match=r"its md5 is not .* Put a whole copy in its place") as refused:
        FILE.obtain(tmp_path)
    assert "elete" not in str(refused.value)


def test_a_file_that_is_there_is_taken_without_a_network(tmp_path):
    (tmp_path / "some.npz").write_bytes(b"the content")
    md5 = hashlib.md5(b"the content", usedforsecurity=False).hexdigest()
    assert PublishedFile(FILE.url, FILE.name, md5, FILE.size).obtain(tmp_path) == tmp_path / "some.npz"
