"""Whatever changes in a folder changes its state; nothing else does, and links that lead back end."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from munkey.core.file_stamp import compute_stamp


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Files of one size and one time of change."""
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        (tmp_path / "pets" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pets" / name).write_bytes(b"12345")
        os.utime(tmp_path / "pets" / name, ns=(0, 0))
    return tmp_path / "pets"


@pytest.mark.parametrize(
    "change",
    [
        lambda pets: (pets / "cat/2.png").rename(pets / "dog/2.png"),
        lambda pets: (pets / "cat/2.png").rename(pets / "cat/3.png"),
        lambda pets: (pets / "cat").rename(pets / "eel"),
        lambda pets: (pets / "eel").mkdir(),
        lambda pets: (pets / "cat/1.png").unlink(),
        lambda pets: (pets / "cat/1.png").write_bytes(b"54321"),
        lambda pets: os.utime(pets / "cat/1.png", ns=(0, 1)),
        lambda pets: (pets / "eel").symlink_to("cat"),
    ],
    ids=[
        "moved",
        "renamed",
        "class renamed",
        "class added",
        "removed",
        "written",
        "touched",
        "linked",
    ],
)
def test_the_stamp_changes_with_the_files(pets: Path, change: Callable[[Path], object]):
    before = compute_stamp(pets)
    change(pets)
    assert compute_stamp(pets) != before


def test_the_stamp_depends_on_the_files_alone(pets: Path, tmp_path: Path):
    copy = Path(shutil.copytree(pets, tmp_path / "copy"))
    for same in (copy, str(pets), f"{pets}/"):
        assert compute_stamp(same) == compute_stamp(pets)


def test_the_stamp_of_a_single_file_does_not_depend_on_its_name(pets: Path):
    before = compute_stamp(pets / "cat/1.png")
    assert compute_stamp(pets / "cat/2.png") == before
    (pets / "cat/1.png").write_bytes(b"1234567")
    assert compute_stamp(pets / "cat/1.png") != before


def test_links_that_lead_back_are_not_followed_forever(pets: Path):
    for folder in ("cat", "dog", "."):
        for number in range(20):  # followed blindly, more paths than can be counted
            (pets / folder / f"link{number}").symlink_to(pets)
    before = compute_stamp(pets)
    assert compute_stamp(pets) == before
    (pets / "dog/1.png").write_bytes(b"123456")
    assert compute_stamp(pets) != before


def test_the_stamp_changes_with_the_target_of_a_link(pets: Path, tmp_path: Path):
    (tmp_path / "eel").mkdir()
    (tmp_path / "eel/1.png").write_bytes(b"1")
    (pets / "eel").symlink_to(tmp_path / "eel")
    (pets / "nowhere.png").symlink_to("nothing")
    before = compute_stamp(pets)
    (tmp_path / "eel/1.png").write_bytes(b"12")
    assert compute_stamp(pets) != before


def test_the_stamp_changes_with_a_name_that_is_not_text(pets: Path):
    before = compute_stamp(pets)
    (pets / os.fsdecode(b"caf\xe9.png")).write_bytes(b"1")
    assert compute_stamp(pets) != before
