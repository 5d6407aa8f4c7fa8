"""A new folder is whole, or not there."""

import stat

import pytest

from munkey.core.files import create_folder


@pytest.mark.parametrize("empty", [False, True], ids=["", "of an empty one"])
def test_a_new_folder_takes_its_place_when_it_is_whole(empty, tmp_path):
    new = tmp_path / "parents" / "new"
    if empty:
        new.mkdir(parents=True)
    with create_folder(new) as folder:
        (folder / "file").write_text("content")
        folder.chmod(0o700)  # as a copy of a private one
        assert not (new / "file").exists()
    assert [path.name for path in (tmp_path / "parents").iterdir()] == ["new"]
    assert (new / "file").read_text() == "content"
    assert stat.S_IMODE(new.stat().st_mode) == 0o755


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_folder_leaves_nothing(error, tmp_path):
    def fail() -> None:
        with create_folder(tmp_path / "new") as folder:
            (folder / "file").touch()
            raise error

    with pytest.raises(error):
        fail()
    assert not list(tmp_path.iterdir())


def test_a_folder_or_file_that_exists_is_not_overwritten(tmp_path):
    (tmp_path / "file").write_text("mine")
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(FileExistsError, match="already contains files"), create_folder(taken):
            pytest.fail("the block must not run")
    assert (tmp_path / "file").read_text() == "mine"
