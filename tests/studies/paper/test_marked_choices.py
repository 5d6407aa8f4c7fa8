"""What the paper leaves open is marked: `[ours]` in params.yaml, and in the list of docs/method.md."""

import re

import pytest

from munkey.studies.paper import setting
from munkey.unlearn.contract import METHODS
from tests.conftest import ROOT, read_config

SECTIONS = [
    *("data", "keys", "model", "train", "munkey"),
    *("forget", "inference", "finetune", "search_grid", "selection"),
]
# places, speeds and numbers at once: no choices of the experiment
TECHNICAL = {
    *("keys.revision", "keys.image_size", "keys.depth"),
    *("train.compile", "munkey.p_drop", "forget.names", "forget.file"),
}
STATED = {*setting.STATED, *setting.STATED_OF["cifar10"]}


def read_comments(text):
    """The comment of every key of params.yaml, by its dotted path; a comment may go on in the next lines."""
    comments = {}
    path = []
    for line in text.splitlines():
        code, _, comment = line.partition("#")
        key = re.match(r"( *)([\w.-]+):", code)
        if key:
            path = [*path[: len(key[1]) // 2], key[2]]
            comments[".".join(path)] = comment
        elif path and not code.strip():
            comments[".".join(path)] += comment
    return comments


COMMENTS = read_comments((ROOT / "params.yaml").read_text())


def test_comments_are_found_by_the_path_of_their_key():
    text = "a:   # one\n  b: 1  # two\n      # three\n  c:\n    d-e: {}\nf.g: [1]  # four\n"
    expected = {"a": " one", "a.b": " two three", "a.c": "", "a.c.d-e": "", "f.g": " four"}
    assert read_comments(text) == expected


@pytest.mark.parametrize("section", SECTIONS)
def test_every_value_is_that_of_the_paper_or_marked_as_ours(section):
    values = read_config()[section]
    for name in {f"{section}.{key}" for key in values} - TECHNICAL - STATED:
        assert "[ours" in COMMENTS[name], name


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].in_paper])
def test_every_setting_of_a_method_of_the_paper_is_that_of_the_paper_or_marked(method):
    """A mark of a whole method stands behind its name; values of a method's original say so."""
    values = read_config()["unlearn"][method]
    heading = COMMENTS[f"unlearn.{method}"]
    for key in values:
        if key != "lr_factor" and f"{method}.{key}" not in setting.STATED_OF_METHODS:
            comment = heading + COMMENTS[f"unlearn.{method}.{key}"]
            assert "[ours" in comment or "original's" in comment, key


STATED_IN_PART = [
    *("train.crop_ratio", "munkey.neighbors", "munkey.temperature", "finetune.epochs"),
    *("search_drop", "keys.batch_size", "ablations.inference.k"),
    *("unlearn.scrub.forget_batch_size", "data.image_size"),
]


@pytest.mark.parametrize("path", STATED_IN_PART)
def test_a_value_that_the_paper_states_in_part_is_marked(path):
    assert "[ours" in COMMENTS[path]


def test_the_grids_of_the_preset_are_marked():
    comments = read_comments((ROOT / "workflow/presets/paper.yaml").read_text())
    for path in ("search_grid.lr_factor", "overrides.cifar10.ablations.inference.k"):
        assert "[ours" in comments[path]


def test_the_docs_list_every_marked_key():
    page = (ROOT / "docs/method.md").read_text()
    section = page[page.index("## What the paper leaves open") :]
    for path, comment in COMMENTS.items():
        if "[ours" in comment and not path.startswith("sisa"):
            assert f"`{path}`" in section
