"""A new folder is whole, or not there."""

import stat

import pytest

from munkey.memory.store import disk


def test_a_new_folder_takes_its_place_when_it_is_whole(tmp_path):
    with disk.new_folder(tmp_path / "parents" / "new") as folder:
        (folder / "file").write_text("content")
        assert not (tmp_path / "parents" / "new").exists()
    assert [path.name for path in (tmp_path / "parents").iterdir()] == ["new"]
    assert (tmp_path / "parents" / "new" / "file").read_text() == "content"
    assert stat.S_IMODE((tmp_path / "parents" / "new").stat().st_mode) == 0o755


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_nothing(error, tmp_path):
    def fail() -> None:
        with disk.new_folder(tmp_path / "new") as folder:
            (folder / "file").touch()
            raise error

    with pytest.raises(error):
        fail()
    assert not list(tmp_path.iterdir())


def test_what_is_there_stays(tmp_path):
    (tmp_path / "file").write_text("mine")
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(FileExistsError, match="not there yet"), disk.new_folder(taken):
            pytest.fail("the block must not run")
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "new").mkdir()
    with disk.new_folder(tmp_path / "new") as folder:
        (folder / "file").touch()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]
