"""Which samples the name of a file means."""

import glob
import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from munkey.deploy.errors import AmbiguousFileError
from munkey.deploy.model.sources import SourceFiles
from munkey.memory.memory import Memory, make_columns
from tests.memory.inputs import numbers

NOT_UTF8 = os.fsdecode(b"caf\xe9.png")


@pytest.fixture
def make_memory():
    """Makes a memory whose samples 0, 1, ... came from these files."""

    def make(*files: str | Path) -> Memory:
        rows = numbers(len(files), 0, 3)
        names = np.array(list(map(str, files)), dtype=object)
        return Memory.create(make_columns(np.arange(len(files)), rows, rows, files=names))

    return make


def ids(sources: SourceFiles, *files: str | Path) -> list[int]:
    """The samples that any of these names means, ascending."""
    return sorted(itertools.chain.from_iterable(sources.find_ids_by_name(files).values()))


def test_a_file_is_found_through_a_path_that_goes_up(make_memory, tmp_path, monkeypatch):
    (tmp_path / "pets" / "cats").mkdir(parents=True)
    memory = make_memory("cats/a.png", tmp_path / "added.png")
    monkeypatch.chdir(tmp_path / "pets" / "cats")
    for root in (tmp_path / "pets", tmp_path / "elsewhere" / ".." / "pets"):
        sources = SourceFiles(memory, str(root))
        assert ids(sources, "a.png", "../../added.png") == [0, 1]
        assert ids(sources, tmp_path / "x" / ".." / "pets" / "cats" / "a.png") == [0]


def test_a_name_that_is_not_utf_8_is_found_as_it_is_stored(make_memory, tmp_path):
    sources = SourceFiles(make_memory("caf\\xe9.png"), str(tmp_path))
    assert ids(sources, NOT_UTF8) == ids(sources, tmp_path / NOT_UTF8) == [0]
    assert ids(sources, os.fsdecode(b"\xff.png")) == []


@pytest.mark.parametrize("root", ["pets", None])
def test_a_name_that_means_two_files_is_refused_and_both_are_named(
    root, make_memory, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    sources = SourceFiles(make_memory("a.png", tmp_path / "a.png"), root and str(tmp_path / root))
    first = tmp_path / root / "a.png" if root else "a.png"
    with pytest.raises(AmbiguousFileError) as raised:
        sources.find_ids_by_name(["a.png"])
    assert f"{first} (ids 0)" in str(raised.value)
    assert f"{tmp_path / 'a.png'} (ids 1)" in str(raised.value)
    assert ids(sources, tmp_path / "a.png") == [1]
    assert root is None or ids(sources, first) == [0]


def test_a_file_of_the_data_set_that_was_added_again_is_one_file(
    make_memory, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    sources = SourceFiles(make_memory("a.png", tmp_path / "a.png"), str(tmp_path))
    assert ids(sources, "a.png") == ids(sources, tmp_path / "a.png") == [0, 1]


FILES = (
    "cats/a.png",
    "cats/old/b.png",
    "dogs/a.png",
    "top.png",
    "cats [2]/c.png",
    "/else/cats/d.png",
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cats", [0, 1]),
        ("cats/", [0, 1]),
        ("cats/old", [1]),
        ("cats [2]", [4]),
        ("cat", []),
        ("glob:cats/*.png", [0]),
        ("glob:*/a.png", [0, 2]),
        ("glob:cats/**", [0, 1]),
        ("glob:**/a.png", [0, 2]),
        ("glob:cats/**/?.png", [0, 1]),
        ("glob:*", [3]),
        ("glob:[cd]*/a.png", [0, 2]),
        ("/else", [5]),
        ("glob:/p*/cats/*", [0]),
        ("glob:/else/**/*.png", [5]),
        ("/", [0, 1, 2, 3, 4, 5]),
        (".", []),
        ("cats/*.png", []),
        ("[cd]*/a.png", []),
    ],
)
def test_a_folder_matches_all_files_below_it_and_a_pattern_those_that_a_shell_would(
    name, meant, make_memory, tmp_path, monkeypatch
):
    """None of these files is on the disk."""
    monkeypatch.chdir(tmp_path)
    sources = SourceFiles(make_memory(*FILES), "/pictures")
    assert ids(sources, name) == meant
    prefix, _, path = name.rpartition(":")
    if path[0] not in "/.":
        assert ids(sources, f"{prefix and 'glob:'}/pictures/{path}") == meant


@pytest.mark.parametrize("typed", ["Zo\u00eb", "Zoe\u0308"])
def test_a_folder_or_pattern_matches_names_in_every_unicode_form(typed, make_memory):
    """The failure: names in the typed form were found, and those in the other form stayed."""
    files = ["Zo\u00eb/a.png", "Zoe\u0308/b.png", " Zo\u00eb/c.png", "Zoe/d.png"]
    sources = SourceFiles(make_memory(*files), "/pictures")
    for name in (typed, f"/pictures/{typed}", f"glob:{typed}/*.png"):
        assert ids(sources, name) == [0, 1, 2]


@pytest.mark.parametrize("number", [17, 60])
def test_a_pattern_of_many_folders_is_matched_at_once(number, make_memory):
    """Tried one after the other, 17 in a row took seconds."""
    sources = SourceFiles(make_memory("/" + "a/" * 40 + "b.png"), None)
    assert ids(sources, "glob:/" + "**/" * number + "nope.png") == []
    assert ids(sources, "glob:/" + "**/a/" * (number // 3) + "**/?.png") == [0]


def test_a_pattern_of_more_parts_than_a_path_has_is_refused(make_memory):
    with pytest.raises(ValueError, match="at most 64 parts"):
        ids(SourceFiles(make_memory("a.png"), None), "glob:/" + "**/" * 1300 + "a.png")


def test_a_name_longer_than_any_path_is_refused_before_it_is_looked_up(make_memory):
    sources = SourceFiles(make_memory("a.png"), None)
    assert ids(sources, "glob:/" + "*" * 4090) == []
    with pytest.raises(ValueError, match="4,097 characters"):
        ids(sources, "/" + "[" * 4096)


def test_the_folder_of_the_data_set_means_its_files(make_memory, tmp_path, monkeypatch):
    (tmp_path / "cats").mkdir()
    sources = SourceFiles(make_memory(*FILES), str(tmp_path))
    assert ids(sources, tmp_path) == [0, 1, 2, 3, 4]
    monkeypatch.chdir(tmp_path / "cats")
    assert ids(sources, ".") == ids(sources, "../cats") == ids(sources, "glob:../*ats/**") == [0, 1]


def test_a_pattern_that_finds_the_same_files_from_two_folders_is_clear(
    make_memory, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    sources = SourceFiles(make_memory("cats/a.png"), str(tmp_path / "pictures"))
    assert ids(sources, "glob:**/a.png") == [0]


def test_a_folder_that_can_be_two_is_refused(make_memory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sources = SourceFiles(
        make_memory(*[f"cats/{i}.png" for i in range(20)], tmp_path / "cats" / "a.png"), "/pictures"
    )
    with pytest.raises(AmbiguousFileError, match=r"/pictures/cats \(ids 0, .*20 in all.*ids 20"):
        sources.find_ids_by_name(["cats"])


@pytest.mark.parametrize("files", ["a.png", Path("a.png"), b"a.png", [""]], ids=repr)
def test_a_name_in_place_of_a_list_is_refused(files, make_memory):
    with pytest.raises(ValueError, match="files"):
        SourceFiles(make_memory("a.png"), None).find_ids_by_name(files)


TWINS = (
    "cat/IMG[1].png",
    "cat/IMG1.png",
    "cat/a*b.png",
    "cat/aXb.png",
    "cat/what?.png",
    "cat/whatX.png",
    "dog [2]/0.png",
    "dog 2/0.png",
)


@pytest.mark.parametrize("root", ["/pets", "/pets [1]/**"])
def test_a_name_with_brackets_or_stars_never_means_another_file(
    root, make_memory, tmp_path, monkeypatch
):
    """Each name is asked for again after its own file is gone."""
    monkeypatch.chdir(tmp_path)
    memory = make_memory(*TWINS)
    sources = SourceFiles(memory, root)
    for row in (0, 2, 4, 6):
        folder = TWINS[row].rpartition("/")[0]
        names = [TWINS[row], f"{root}/{TWINS[row]}"]
        if row == 6:
            names.append(folder)
        for name in names:
            assert ids(sources, name) == [row], name
        memory = memory.drop(memory.find_rows(np.array([row])))
        sources = SourceFiles(memory, root)
        for name in names:
            assert ids(sources, name) == [], name
    assert ids(sources, "glob:cat/IMG*") == [1]
    assert ids(sources, f"glob:{glob.escape(root)}/dog ?/0.png") == [7]


def test_a_pattern_is_applied_below_folders_that_have_brackets_themselves(
    make_memory, tmp_path, monkeypatch
):
    here = tmp_path / "scans [1]"
    here.mkdir()
    monkeypatch.chdir(here)
    memory = make_memory("a.png", here / "b.png", tmp_path / "scans 1" / "b.png", "/pets 1/a.png")
    sources = SourceFiles(memory, "/pets [1]")
    assert ids(sources, "glob:a.*") == [0]
    assert ids(sources, "glob:b.*") == ids(sources, "b.png") == [1]


@pytest.mark.parametrize(
    ("root", "files", "name"),
    [
        # Each name could mean the first file, and once that is gone, another one.
        ("/data/pets", ["pets/1.png", "1.png"], "pets/1.png"),
        ("/data/pets", ["pets/1.png", "1.png"], "pets"),
    ],
)
def test_a_name_that_could_mean_another_file_later_is_refused(
    root, files, name, make_memory, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    memory = make_memory(*files)
    sources = SourceFiles(memory, root)
    with pytest.raises(AmbiguousFileError, match="absolute path"):
        ids(sources, name)
    assert ids(sources, f"{root}/pets/1.png") == [0]


def test_without_a_data_set_a_name_is_a_path_from_here_and_other_files_are_suggested(
    make_memory, tmp_path, monkeypatch
):
    """Once a/1.png was gone, the deepest common folder was b, in which a/1.png is another file."""
    monkeypatch.chdir(tmp_path)
    memory = make_memory(tmp_path / "a/1.png", tmp_path / "b/a/1.png", tmp_path / "b/a/2.png")
    sources = SourceFiles(memory, None)
    assert ids(sources, "a/1.png") == [0]
    sources = SourceFiles(memory.drop(np.array([0])), None)
    assert ids(sources, "a/1.png") == []
    assert f"'{tmp_path}/b/a/1.png'" in sources.suggest_names(["a/1.png"])


def test_an_unknown_name_that_looks_like_a_pattern_gets_the_prefix_suggested(make_memory):
    sources = SourceFiles(make_memory("a.png"), None)
    assert "glob:PATTERN" in sources.suggest_names(["*.png"])
    assert "glob:PATTERN" not in sources.suggest_names(["b.png", "glob:c*"])
