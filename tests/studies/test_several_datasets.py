"""Tables and figures of several data sets, each with forget rates, seeds, methods and ablations of its own.

The paper has such a run: two data sets at two rates, four at one, encoders and K for two of them.
"""

import itertools
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from munkey.core.files import write_text
from munkey.report.figures import theme
from munkey.report.figures.forgetting import gap_plot
from munkey.report.figures.ranks import rank_diagram
from munkey.report.page import page
from munkey.report.tables.main import make_main_tables, render_all_tables, render_main_table
from munkey.report.tables.markup import ABSENT
from munkey.report.tables.ranks import INDEX, make_rank_table, rank_by_title
from munkey.report.tables.runtime import runtime_table
from munkey.report.tables.shares import collect_residue
from munkey.report.tables.summary import Row, add_seed_gaps, summarize
from munkey.report.tables.terminal import render_plain
from munkey.studies.ablations import tables as ablations
from munkey.studies.ablations.figure import neighbors_figure
from munkey.studies.audits.tables import make_attack_tables, make_storage_tables
from munkey.studies.paper import tables as paper
from tests.report.inputs import cases, pairs

ROWS = [
    Row("original-t", "Original (T)", "retrain-t", context=True),
    Row("original-m", "Original (M)", "retrain-m", context=True),
    Row("retrain-t", "Retrain (T)", None),
    Row("retrain-m", "Retrain (M)", None),
    Row("cf", "CF", "retrain-t"),
    Row("scrub", "SCRUB", "retrain-t"),
    Row("ssd", "SSD", "retrain-t"),
    Row("munkey", "MUNKEY", "retrain-m"),
]
TRAINED = [row.name for row in ROWS if row.context or row.oracle is None]
CASE_ROWS = [row for row in ROWS if row.name in ("original-m", "retrain-m", "munkey")]
METRICS = ("TA", "RA", "FA", "MIA", "P_s", "unlearn_s", "train_s", "cpu_s")
MARKUPS = ("markdown", "html", "latex")


@dataclass(frozen=True)
class Grid:
    """What was run of one data set. shift: added to what is not an oracle, so that no two data sets are alike."""

    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    methods: tuple[str, ...]
    cases: tuple[str, ...]
    shift: float

    @property
    def rows(self) -> list[Row]:
        return [row for row in ROWS if row.name in (*TRAINED, *self.methods)]


GRIDS = {
    "bloodmnist": Grid(
        (0.1,), (0, 1), ("cf", "ssd", "munkey"), ("inference.k/4", "inference.k/16"), 1.0
    ),
    "cifar10": Grid(
        (0.1, 0.02),
        (0, 1, 2),
        ("cf", "scrub", "ssd", "munkey"),
        ("inference.k/8", "aggregation/rank", "keys.encoder/clip", "inference.fusion/rank"),
        2.0,
    ),
    "digits": Grid((0.05,), (3,), ("ssd", "munkey"), ("aggregation/ensemble",), 3.0),
    "pathmnist": Grid((0.1,), (0, 1), ("munkey",), (), 4.0),
}
PLACES = [(name, rate) for name, grid in GRIDS.items() for rate in grid.rates]
RATES = sorted({rate for _, rate in PLACES}, reverse=True)


def value(metric: str, row: Row, rate: float, seed: int, shift: float) -> float:
    """Of one run: an oracle is at 50 plus its seed, what is compared with it further away the later it stands."""
    away = 0.0 if row.oracle is None else ROWS.index(row) + shift
    return 50.0 + seed + 10 * rate + METRICS.index(metric) + away


def tidy(dataset: str) -> pd.DataFrame:
    """The metrics of a data set. A method has no seconds of training, and what is trained none of unlearning."""
    grid = GRIDS[dataset]
    lines = []
    for row, rate, seed, metric in itertools.product(grid.rows, grid.rates, grid.seeds, METRICS):
        if metric != ("unlearn_s" if row.name in TRAINED else "train_s"):
            key = {"dataset": dataset, "rate": rate, "seed": seed, "method": row.name}
            lines.append(
                key | {"metric": metric, "value": value(metric, row, rate, seed, grid.shift)}
            )
    return pd.DataFrame(lines)


def measured() -> pd.DataFrame:
    """The metrics of all data sets, with the gap of each seed."""
    return pd.concat(
        [add_seed_gaps(tidy(name), grid.rows) for name, grid in GRIDS.items()], ignore_index=True
    )


def summary() -> pd.DataFrame:
    """The numbers of the main table."""
    return pd.concat(
        [summarize(tidy(name), grid.rows) for name, grid in GRIDS.items()], ignore_index=True
    )


def case_summary() -> pd.DataFrame:
    """The numbers of the ablations."""
    names = ("original-m", "retrain-m", "munkey")
    lines = [
        cases(name, dict.fromkeys(grid.cases, grid.shift), names)
        for name, grid in GRIDS.items()
        if grid.cases
    ]
    return ablations.summarize_cases(pd.concat(lines, ignore_index=True), CASE_ROWS)


def gap(row: Row, dataset: str) -> float:
    """Its Avg Gap, whatever the rate."""
    return ROWS.index(row) + GRIDS[dataset].shift


@pytest.mark.parametrize("width", [theme.DOUBLE, theme.NARROW])
def test_gaps_are_drawn_where_a_data_set_has_the_rate_and_nowhere_else(width):
    axes = iter(gap_plot(summary(), "MUNKEY", width).axes)
    for dataset, (gaps, seconds) in zip(GRIDS, zip(axes, axes, strict=True), strict=True):
        grid = GRIDS[dataset]
        rows = [row for row in grid.rows if row.name in grid.methods]  # in the order of their gaps
        assert [label.get_text() for label in gaps.get_yticklabels()] == [row.title for row in rows]
        drawn = {
            rate: (points.lines[0].get_xdata().tolist(), line.get_xdata().tolist())
            for rate, points, line in zip(RATES, gaps.containers, seconds.lines, strict=True)
        }
        for rate in RATES:
            expected = [gap(row, dataset) for row in rows] if rate in grid.rates else []
            assert drawn[rate][0] == pytest.approx(expected)
            assert len(drawn[rate][1]) == len(expected)
            place = {row.title: number for number, row in enumerate(rows)}
            heights = gaps.containers[RATES.index(rate)].lines[0].get_ydata()
            assert [round(height) for height in heights] == [place[row.title] for row in rows][
                : len(expected)
            ]
        n = len(grid.seeds)
        assert gaps.get_title(loc="left") == f"{dataset}, n = {n}: further left is better"


@pytest.mark.parametrize("markup", ["markdown", "html"])
def test_the_main_table_has_a_number_where_something_was_run_and_nothing_elsewhere(markup):
    tables = make_main_tables(summary(), ROWS, markup)
    assert [table.title.partition(":")[0] for table in tables] == list(GRIDS)
    for table, grid in zip(tables, GRIDS.values(), strict=True):
        assert f"n = {len(grid.seeds)} seed" in table.title
        for row, (_, line) in zip(ROWS, table.frame.iterrows(), strict=True):
            for rate in RATES:
                accuracy = line[f"TA @{100 * rate:g}%"]
                if row not in grid.rows or rate not in grid.rates:
                    assert accuracy == ABSENT
                    continue
                mean = np.mean([value("TA", row, rate, seed, grid.shift) for seed in grid.seeds])
                assert accuracy.startswith(f"{mean:.2f}")


def test_the_main_table_in_latex_and_in_a_terminal_has_every_number_of_the_others():
    latex = render_main_table(summary(), ROWS, "latex")
    assert re.findall(r"\{c\}\{(\w+) \(", latex) == list(GRIDS)
    assert latex.count(r"\\") == 2 + len(GRIDS) * (1 + len(ROWS))
    shown = render_plain(render_main_table(summary(), ROWS, "markdown"))
    for dataset, rate in PLACES:
        grid = GRIDS[dataset]
        mean = np.mean([value("FA", ROWS[-1], rate, seed, grid.shift) for seed in grid.seeds])
        assert f"{mean:.2f}" in latex and f"{mean:.2f}" in shown


def test_what_audits_found_stands_beside_the_data_sets_that_were_audited(tmp_path):
    line = {
        "name": "munkey",
        "role": "method",
        "path": "deployed",
        "verdict": "none found",
        "flagged": "",
    }
    audit = pd.DataFrame([line | {"share": 2.0, "share_low": 1.0, "share_high": 3.0}])
    residue = collect_residue({tmp_path / "cifar10": audit})
    for table, dataset in zip(
        make_main_tables(summary(), ROWS, "markdown", residue), GRIDS, strict=True
    ):
        column = table.frame.set_index("Method")["residual share [%]"]
        assert column["MUNKEY"] == ("2.0 [1.0, 3.0]" if dataset == "cifar10" else ABSENT)


def test_all_tables_are_made_where_data_sets_differ_in_rates_and_seeds():
    grids = {name: grid for name, grid in GRIDS.items() if set(grid.methods) >= {"ssd", "munkey"}}
    rows = [row for row in ROWS if row.name in (*TRAINED, "ssd", "munkey")]
    lines = pd.concat([tidy(name) for name in grids], ignore_index=True)
    lines = lines[lines["method"].isin([row.name for row in rows])]
    texts = render_all_tables(lines, pairs(summarize(lines, rows)), rows)
    assert all(texts.values())
    largest = texts["datasets"]
    # 2% is never the largest
    assert "@10%" in largest and "@5%" in largest and "@2%" not in largest
    assert texts["runtime"].count("| cifar10") == 2 * len(rows) and texts["runtime"].count(
        "| digits"
    ) == len(rows)


@pytest.mark.parametrize("markup", MARKUPS)
def test_run_times_have_a_line_for_each_system_that_was_run(markup):
    frame = runtime_table(summary(), ROWS, markup).frame
    lines = [(line["Data set"], line["Forget"], line["Method"]) for _, line in frame.iterrows()]
    expected = [
        (name, f"{100 * rate:g}%", row.title) for name, rate in PLACES for row in GRIDS[name].rows
    ]
    assert lines == expected
    assert (frame["Unlearn [s]"] != ABSENT).sum() == sum(
        len(GRIDS[name].methods) + 2 for name, _ in PLACES
    )


@pytest.mark.parametrize("markup", MARKUPS)
def test_ablations_show_the_values_that_a_data_set_has(markup):
    found = case_summary()
    titled = {
        name: list(table(found, CASE_ROWS, markup)) for name, table in ablations.TABLES.items()
    }
    shown = {
        name: [each.title.partition(":")[0] for each in tables] for name, tables in titled.items()
    }
    assert shown == {
        "ablations": ["bloodmnist", "cifar10", "digits"],
        "aggregation": ["cifar10", "digits"],
        "strategies": ["P_s and Avg Gap (lower is better)"],
        "fusion": ["cifar10"],
        "encoders": ["cifar10"],
    }
    strategies = titled["strategies"][0].frame.set_index("Strategy")
    assert (
        strategies.loc["Rank", "Avg Gap, digits"]
        == ABSENT
        != strategies.loc["Rank", "Avg Gap, cifar10"]
    )
    assert (
        strategies.loc["Ensemble", "Avg Gap, cifar10"]
        == ABSENT
        != strategies.loc["Ensemble", "Avg Gap, digits"]
    )


def test_ranks_are_of_the_methods_that_every_data_set_has():
    # both have CF, SSD and MUNKEY
    grids = {name: GRIDS[name] for name in ("bloodmnist", "cifar10")}
    lines = measured()
    ranks = rank_by_title(lines[lines["dataset"].isin(grids)], ROWS)
    assert ranks.columns.tolist() == ["CF", "SSD", "MUNKEY"]
    assert len(ranks) == sum(len(grid.rates) * len(grid.seeds) for grid in grids.values())
    assert (ranks == [1.0, 2.0, 3.0]).all(axis=None)
    table = make_rank_table(ranks)
    assert (
        table.title.startswith("bloodmnist, cifar10: ")
        and "n = 5 pairs of data set and seed" in table.title
    )
    assert table.frame["at 2%"].tolist() == ["1.00", "2.00", "3.00"]  # which one of the two has
    assert "n = 5 pairs of data set and seed" in " ".join(
        text.get_text() for text in rank_diagram(ranks, "MUNKEY").axes[0].texts
    )


def test_the_papers_numbers_stand_beside_those_that_were_run():
    both = paper.compare(summary(), case_summary())
    compared = both.groupby(["table", "dataset", "rate"])["method"].apply(set)
    assert set(compared.index) == {
        *(("main", name, 0.1) for name in ("bloodmnist", "cifar10", "pathmnist")),
        *(
            (table, "cifar10", 0.1)
            for table in ("runtime", "aggregation", "strategies", "encoders")
        ),
        ("main", "cifar10", 0.02),
    }
    assert compared["main", "pathmnist", 0.1] == {"retrain-t", "retrain-m", "munkey"}
    assert set(
        paper.make_agreement_table(both, paper.read_printed_numbers()).frame["Data set"]
    ) == {
        "bloodmnist",
        "cifar10",
        "pathmnist",
        "",
    }
    assert len(paper.make_side_by_side_tables(both)) == len(compared)
    assert all(paper.render_texts(both, ["why"]).values())


def test_where_nothing_of_the_paper_was_run_the_comparison_says_so():
    nothing = paper.compare(
        summary()[lambda lines: lines["dataset"] == "digits"], case_summary().iloc[:0]
    )
    assert (
        paper.make_side_by_side_tables(nothing) == []
        and paper.make_comparison_tables(nothing) == []
    )
    assert paper.make_agreement_table(nothing, paper.read_printed_numbers()).frame[
        ["Printed", "Compared", "Within"]
    ].values.tolist() == [[0] * 3]


def test_the_curve_over_k_has_the_values_of_each_data_set_that_varies_it(tmp_path, monkeypatch):
    write_text(tmp_path / "ablations.csv", case_summary().to_csv(index=False))
    figures = []
    monkeypatch.setattr(theme, "save", lambda figure, path: figures.append(figure))
    neighbors_figure(tmp_path / "ablations.csv", tmp_path / "neighbors.svg")
    accuracy, _ = figures[0].axes
    drawn = {bars.get_label(): bars.lines[0].get_xdata().tolist() for bars in accuracy.containers}
    assert drawn == {"bloodmnist": [4, 16], "cifar10": [8]}


def test_every_chapter_of_the_page_is_made():
    ranked = measured()[lambda lines: lines["dataset"].isin(["bloodmnist", "cifar10"])]
    results = page.PageResults(
        main=summary(),
        rows=ROWS,
        residue={},
        ranks=[rank_by_title(ranked, ROWS).reset_index()],
    )
    chapters = page.make_chapters(results) + ablations.make_chapters(case_summary(), CASE_ROWS)
    counts = {chapter.id: len(chapter.tables) for chapter in chapters}
    assert counts == {
        **{"main": 4, "ranks": 1, "runtime": 1},
        **{"ablations": 3, "aggregation": 2, "strategies": 1, "fusion": 1, "encoders": 1},
    }
    assert list(results.ranks[0].columns[:3]) == INDEX


def test_attacks_and_storage_count_the_seeds_of_each_data_set_and_show_nothing_where_nothing_was_attacked():
    attacked = [
        {"dataset": name, "rate": str(rate), "seed": seed, "method": method, "attack": "loss"}
        | {f"{score}{end}": 50.0 for score in ("auroc", "tpr_1") for end in ("", "_low", "_high")}
        for name, rate in PLACES
        for seed in GRIDS[name].seeds
        for method in GRIDS[name].methods
    ]
    rows = [row for row in ROWS if row.name not in TRAINED]
    titled = make_attack_tables(pd.DataFrame(attacked), measured(), rows)
    assert [table.title for table in titled] == [
        f"{name}, forget rate {100 * rate:g}%: n = {len(GRIDS[name].seeds)} seed{'s' * (len(GRIDS[name].seeds) > 1)}"
        for name, rate in PLACES
    ]
    last = titled[-1].frame.set_index("Method")  # pathmnist has MUNKEY alone
    assert last.loc["CF", ["MIA", "Loss: AUROC", "Loss: TPR @ 1%"]].tolist() == [ABSENT] * 3
    assert last.loc["MUNKEY", "Loss: AUROC"] == "50.0 [50.0, 50.0]"
    searched = [
        {
            "dataset": name,
            "rate": rate,
            "seed": seed,
            "title": "MUNKEY",
            "file": file,
            "why": np.nan,
        }
        | {"rows": 1, "rows_of": 1, "ids": 1, "ids_of": 1}
        for name, rate in PLACES
        for seed in GRIDS[name].seeds
        for file in ("original", "unlearned")
    ]
    tables = {
        table.title.partition(":")[0]: table
        for table in make_storage_tables(pd.DataFrame(searched))
    }
    assert {name: len(table.frame) for name, table in tables.items()} == {
        name: len(grid.rates) for name, grid in GRIDS.items()
    }
    assert tables["cifar10"].title.endswith("n = 3 seeds") and tables["digits"].title.endswith(
        "n = 1 seed"
    )
