"""What is shown: rows of the tables in order, figures and what they are drawn from."""

import pytest

from munkey.experiment.plan.exhibits import Exhibits
from munkey.report.tables.frontier import Design
from munkey.report.tables.summary import Row
from tests.experiment.inputs import small_plan

TWO = {"datasets": ["digits", "cifar10"], "overrides": {"cifar10": {"forget": {"rates": [0.05]}}}}


def shown(changes: dict[str, object] | None = None) -> Exhibits:
    return Exhibits(small_plan(changes))


def test_rows_are_originals_oracles_and_methods_as_listed():
    rows = shown({"methods": ["munkey", "sisa", "l1-sparse", "knn"]}).rows
    assert [
        (row["name"], row["title"], row["oracle"], row.get("context", False)) for row in rows
    ] == [
        ("original-t", "Original (T)", "retrain-t", True),
        ("original-m", "Original (M)", "retrain-m", True),
        ("original-s", "Original (S)", "retrain-s", True),
        ("original-k", "Original (K)", "retrain-k", True),
        ("retrain-t", "Retrain (T)", None, False),
        ("retrain-m", "Retrain (M)", None, False),
        ("retrain-s", "Retrain (S)", None, False),
        ("retrain-k", "Retrain (K)", None, False),
        ("munkey", "MUNKEY", "retrain-m", False),
        ("sisa", "SISA", "retrain-s", False),
        ("l1-sparse", "ℓ₁-sparse", "retrain-t", False),
        ("knn", "KNN", "retrain-k", False),
    ]


def test_rows_are_what_the_tables_read():
    assert [Row(**row).name for row in shown().rows][6:] == ["knn", "cf", "ssd", "munkey"]


def test_figures_are_charts_of_each_data_set():
    charts = [
        "forgetting",
        *("tokens-digits", "tokens-cifar10"),
    ]
    two = shown(TWO)
    assert two.charts == charts
    assert two.figures == charts


def test_ranks_are_shown_where_there_are_seeds_and_methods_enough():
    five = {"seeds": [0, 1, 2, 3, 4], "methods": ["cf", "ssd", "munkey"]}
    assert shown(five).ranked and "ranks" in shown(five).figures
    assert shown(TWO | {"seeds": [0, 1, 2]}).ranked  # on two data sets
    for too_few in ({"seeds": [0, 1, 2, 3]}, {"methods": ["cf", "munkey"]}):
        assert not shown(five | too_few).ranked and "ranks" not in shown(five | too_few).figures


@pytest.mark.parametrize(
    ("chart", "files"),
    [
        (
            "tokens-digits",
            {
                "trace": "results/default/trace/digits/seed7.npz",
                "classes": "results/default/data/digits/classes.json",
            },
        ),
    ],
)
def test_a_trace_is_of_the_first_seed_that_is_listed(chart: str, files: dict[str, str]):
    assert shown(TWO | {"seeds": [7, 0]}).chart_input(chart) == files


def test_the_grid_summary():
    words = "Seeds: 0, 1. Forget rates: digits 2%, 10%; cifar10 5%. Methods: knn, cf, ssd, munkey."
    assert shown(TWO).grid_summary == words


def test_designs_are_methods_by_how_they_forget_and_for_reference_oracles_of_what_is_not_exact():
    methods = ["munkey", "l1-sparse", "knn", "lda", "newton"]
    designs = [Design(**design) for design in shown({"methods": methods}).designs]
    assert [(design.name, design.kind) for design in designs] == [
        *(("retrain-t", "anew"), ("retrain-m", "anew"), ("retrain-w", "anew")),
        *(
            ("munkey", "rows"),
            ("l1-sparse", "weights"),
            ("knn", "exact"),
            ("lda", "exact"),
            ("newton", "weights"),
        ),
    ]
    assert {design.stored for design in designs[:3]} == {"training set"}
