"""Paths: each stands in one place, its wildcards are known, and filling them in is exact."""

import re

import pytest

from munkey.pipeline import layout
from munkey.pipeline.layout import fill
from tests.conftest import ROOT

PATTERNS = {name: value for name, value in vars(layout).items() if name.isupper()}
WILDCARDS = {
    *("dataset", "case", "encoder", "scope", "seed", "rate", "subset", "system", "method", "candidate"),
    *("table", "figure", "part", "ending"),
}


def test_a_wildcard_is_filled_in_and_the_others_stay():
    assert fill(layout.KEYS, dataset="digits") == "results/keys/digits/{encoder}/keys.npz"
    assert fill(layout.FORGET, dataset="digits", seed=0, rate="0.1") == "results/forget/digits/seed0/rate0.1.csv"
    assert fill(layout.FORGET) == layout.FORGET


def test_a_value_is_taken_as_it_is():
    """A wildcard of Snakemake may stand for another; nothing in a value is read as a pattern."""
    assert fill(layout.SYSTEM, subset="rate{rate}", system="{method}") == (
        "results/models/{case}/seed{seed}/rate{rate}/{method}/system.safetensors"
    )
    assert fill("a/{case}/{rate}", case="{rate}", rate="0.1") == "a/{rate}/0.1"
    assert fill("{case}", case=r"\1\g<0>") == r"\1\g<0>"


def test_what_a_pattern_lacks_is_not_needed():
    assert fill(layout.REPORT, case="digits") == layout.REPORT


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_lies_under_results_and_has_known_wildcards(name: str):
    assert PATTERNS[name].startswith("results/")
    assert set(re.findall(r"\{(\w+)\}", PATTERNS[name])) <= WILDCARDS
    assert not re.search(r"[{}]", fill(PATTERNS[name], **dict.fromkeys(WILDCARDS, "x")))


def test_no_two_patterns_are_alike():
    """Not even with their wildcards filled in: every file belongs to one pattern."""
    values = {name: name for name in WILDCARDS} | {"case": "digits/inference.k/4", "scope": "seed0/rate0.1"}
    paths = [fill(pattern, **values) for pattern in PATTERNS.values()]
    assert len(set(paths)) == len(paths)


def test_paths_of_results_stand_in_the_layout_alone():
    """In rules, scripts and the package: what others read or write must come from here."""
    files = [*ROOT.glob("workflow/**/*.smk"), *ROOT.glob("workflow/scripts/*.py"), *ROOT.glob("src/munkey/**/*.py")]
    literal = re.compile(r"""["']results/""")
    elsewhere = [str(path) for path in files if path.name != "layout.py" and literal.search(path.read_text())]
    assert len(files) > 100 and not elsewhere


def test_logs_and_costs_are_kept_by_the_name_of_their_job():
    assert layout.log("train/{case}/seed{seed}") == "logs/train/{case}/seed{seed}.log"
    assert layout.benchmark("train/{case}/seed{seed}") == "results/benchmarks/train/{case}/seed{seed}.tsv"
