"""Paths: each stands in one place, its wildcards are known, and filling them in is exact."""

import re

import pytest

from munkey.core.paths import Layout, choose_configuration_name, fill
from tests.conftest import ROOT

LAYOUT = Layout("default")
PATTERNS = dict(vars(LAYOUT))
del PATTERNS["name"]
WILDCARDS = {
    *(
        "dataset",
        "case",
        "encoder",
        "scope",
        "seed",
        "rate",
        "subset",
        "system",
        "method",
        "candidate",
    ),
    *("table", "figure", "part", "ending"),
}


def test_a_wildcard_is_filled_in_and_the_others_stay():
    assert fill(LAYOUT.keys, dataset="digits") == "results/default/keys/digits/{encoder}/keys.npz"
    forget = fill(LAYOUT.forget, case="digits", seed=0, rate="0.1")
    assert forget == "results/default/forget/digits/seed0/rate0.1.csv"
    assert fill(LAYOUT.forget) == LAYOUT.forget


def test_values_are_filled_in_literally():
    """A wildcard of Snakemake may stand for another; nothing in a value is read as a pattern."""
    assert fill(LAYOUT.system, subset="rate{rate}", system="{method}") == (
        "results/default/models/{case}/seed{seed}/rate{rate}/{method}/system.safetensors"
    )
    assert fill("a/{case}/{rate}", case="{rate}", rate="0.1") == "a/{rate}/0.1"
    assert fill("{case}", case=r"\1\g<0>") == r"\1\g<0>"


def test_a_value_that_a_pattern_lacks_is_ignored():
    assert fill(LAYOUT.report, case="digits") == LAYOUT.report


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_lies_under_results_and_has_known_wildcards(name: str):
    assert PATTERNS[name].startswith("results/default/")
    assert set(re.findall(r"\{(\w+)\}", PATTERNS[name])) <= WILDCARDS
    assert not re.search(r"[{}]", fill(PATTERNS[name], **dict.fromkeys(WILDCARDS, "x")))


def test_no_two_patterns_give_the_same_path():
    """Not even with their wildcards filled in: every file belongs to one pattern."""
    values = {name: name for name in WILDCARDS} | {
        "case": "digits/inference.k/4",
        "scope": "seed0/rate0.1",
    }
    paths = [fill(pattern, **values) for pattern in PATTERNS.values()]
    assert len(set(paths)) == len(paths)


def test_paths_of_results_are_written_only_in_the_layout():
    """In rules, scripts and the package: what others read or write must come from here."""
    files = [
        *ROOT.glob("workflow/**/*.smk"),
        *ROOT.glob("workflow/scripts/*.py"),
        *ROOT.glob("src/munkey/**/*.py"),
    ]
    literal = re.compile(r"""["']results/[^"']*/""")
    assert len(files) > 100
    for path in files:
        if path.name != "paths.py":
            assert not literal.search(path.read_text()), path


def test_the_log_of_a_job_is_named_after_the_job():
    assert LAYOUT.log("train/{case}/seed{seed}") == "logs/default/train/{case}/seed{seed}.log"


def test_configurations_share_no_path():
    """What one configuration writes, no other does, whatever both are called."""
    other = Layout("mine")
    paths = {LAYOUT.log("x"), *PATTERNS.values()}
    assert not paths & {other.log("x"), *vars(other).values()}


@pytest.mark.parametrize(
    ("named", "overlays", "name"),
    [
        ("default", [], "default"),
        ("default", ["params.yaml"], "default"),
        ("default", ["workflow/presets/paper.yaml"], "paper"),
        ("default", ["params.yaml", "a/paper.yaml", "sweeps.yml"], "paper-sweeps"),
        ("default", ["my own settings.yaml"], "my-own-settings"),
        ("default", ["a/default.yaml"], "default-overlay"),
        ("mine", ["a/paper.yaml"], "mine"),
    ],
)
def test_a_configuration_is_named_by_itself_or_by_its_overlays(named, overlays, name):
    paths = [ROOT / overlay for overlay in overlays]
    assert choose_configuration_name(named, paths, ROOT / "params.yaml") == name
