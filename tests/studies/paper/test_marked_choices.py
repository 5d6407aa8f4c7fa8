"""What the paper leaves open is marked: `[ours]` in params.yaml, and in the list of docs/method.md."""

import re

import pytest
import yaml

from munkey.studies.paper import setting
from munkey.unlearn.contract import METHODS
from tests.conftest import ROOT

SECTIONS = (
    "data",
    "keys",
    "model",
    "train",
    "munkey",
    "forget",
    "inference",
    "finetune",
    "search_grid",
    "selection",
)
# Where things are, how fast and how many at once: no choice of the experiment.
TECHNICAL = {
    "keys.revision",
    "keys.image_size",
    "keys.depth",
    "train.compile",
    "munkey.p_drop",
    "forget.names",
}
TECHNICAL |= {"forget.file"}
STATED = {*setting.STATED, *setting.STATED_OF["cifar10"]}


def commented(text):
    """The comment of every key of params.yaml, by its dotted path; a comment may go on in the next lines."""
    comments, path = {}, []
    for line in text.splitlines():
        code, _, comment = line.partition("#")
        if found := re.match(r"( *)([\w.-]+):", code):
            path = [*path[: len(found[1]) // 2], found[2]]
            comments[".".join(path)] = comment
        elif path and not code.strip():
            comments[".".join(path)] += comment
    return comments


COMMENTS = commented((ROOT / "params.yaml").read_text())


def test_comments_are_found_by_the_path_of_their_key():
    text = "a:   # one\n  b: 1  # two\n      # three\n  c:\n    d-e: {}\nf.g: [1]  # four\n"
    expected = {"a": " one", "a.b": " two three", "a.c": "", "a.c.d-e": "", "f.g": " four"}
    assert commented(text) == expected


@pytest.mark.parametrize("section", SECTIONS)
def test_every_value_is_the_papers_or_marked_as_ours(section):
    values = yaml.safe_load((ROOT / "params.yaml").read_text())[section]
    names = {f"{section}.{key}" for key in values} - TECHNICAL - STATED
    assert [name for name in sorted(names) if "[ours" not in COMMENTS[name]] == []


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].in_paper])
def test_every_setting_of_the_papers_methods_is_the_papers_or_marked(method):
    """A mark of a whole method stands behind its name; values of a method's original say so."""
    values = yaml.safe_load((ROOT / "params.yaml").read_text())["unlearn"][method]
    stated = {
        "lr_factor",
        *(
            name.split(".")[1]
            for name in setting.STATED_OF_METHODS
            if name.startswith(f"{method}.")
        ),
    }
    heading = COMMENTS[f"unlearn.{method}"]
    words = {
        key: heading + COMMENTS[f"unlearn.{method}.{key}"] for key in values if key not in stated
    }
    assert [
        key
        for key, comment in words.items()
        if "[ours" not in comment and "original's" not in comment
    ] == []


STATED_IN_PART = "train.crop_ratio munkey.neighbors munkey.temperature finetune.epochs search_drop"
STATED_IN_PART += (
    " keys.batch_size ablations.inference.k unlearn.scrub.forget_batch_size data.image_size"
)


@pytest.mark.parametrize("path", STATED_IN_PART.split())
def test_what_is_open_about_a_value_that_is_stated_is_marked_too(path):
    assert "[ours" in COMMENTS[path]


def test_the_presets_own_grids_are_marked():
    comments = commented((ROOT / "workflow/presets/paper.yaml").read_text())
    for path in ("search_grid.lr_factor", "overrides.cifar10.ablations.inference.k"):
        assert "[ours" in comments[path]


def test_the_list_of_what_the_paper_leaves_open_names_every_key_that_is_marked():
    page = (ROOT / "docs/method.md").read_text()
    listed = page[page.index("## What the paper leaves open") :]
    marked = {
        path
        for path, comment in COMMENTS.items()
        if "[ours" in comment and not path.startswith("sisa")
    }
    missing = [path for path in sorted(marked) if f"`{path}`" not in listed]
    assert missing == []
