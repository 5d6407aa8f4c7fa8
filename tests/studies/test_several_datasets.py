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
from tests.report.inputs import cases, extra, pairs

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
    """The runs of one data set. shift: added to all but oracles, so that no two data sets are alike."""

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
    """The metrics of a data set: trained systems have no seconds of unlearning, methods none of training."""
    grid = GRIDS[dataset]
    parts = []
    for rate in grid.rates:
        lines = []
        for row, seed, metric in itertools.product(grid.rows, grid.seeds, METRICS):
            if metric != ("unlearn_s" if row.name in TRAINED else "train_s"):
                number = value(metric, row, rate, seed, grid.shift)
                lines.append((seed, row.name, metric, number))
        parts.append(extra(lines, dataset, rate))
    return pd.concat(parts, ignore_index=True)


def all_metrics() -> pd.DataFrame:
    """The metrics of all data sets, with the gap of each seed."""
    parts = [add_seed_gaps(tidy(name), grid.rows) for name, grid in GRIDS.items()]
    return pd.concat(parts, ignore_index=True)


def summary() -> pd.DataFrame:
    """The numbers of the main table."""
    parts = [summarize(tidy(name), grid.rows) for name, grid in GRIDS.items()]
    return pd.concat(parts, ignore_index=True)


def case_summary() -> pd.DataFrame:
    """The numbers of the ablations."""
    names = ("original-m", "retrain-m", "munkey")
    parts = []
    for name, grid in GRIDS.items():
        if grid.cases:
            parts.append(cases(name, dict.fromkeys(grid.cases, grid.shift), names))
    return ablations.summarize_cases(pd.concat(parts, ignore_index=True), CASE_ROWS)


def mean_over_seeds(metric: str, row: Row, rate: float, grid: Grid) -> str:
    """The mean as tables print it."""
    values = [value(metric, row, rate, seed, grid.shift) for seed in grid.seeds]
    return f"{np.mean(values):.2f}"


def gap(row: Row, dataset: str) -> float:
    """Its Avg Gap, whatever the rate."""
    return ROWS.index(row) + GRIDS[dataset].shift


@pytest.mark.parametrize("width", [theme.DOUBLE, theme.NARROW])
def test_gaps_are_drawn_at_the_rates_of_each_data_set(width):
    axes = iter(gap_plot(summary(), "MUNKEY", width).axes)
    for dataset, (gaps, seconds) in zip(GRIDS, zip(axes, axes, strict=True), strict=True):
        grid = GRIDS[dataset]
        rows = [row for row in grid.rows if row.name in grid.methods]  # in the order of their gaps
        assert [label.get_text() for label in gaps.get_yticklabels()] == [row.title for row in rows]
        for rate, container, line in zip(RATES, gaps.containers, seconds.lines, strict=True):
            points = container.lines[0]
            if rate not in grid.rates:
                assert len(points.get_xdata()) == 0
                assert len(line.get_xdata()) == 0
                continue
            assert points.get_xdata().tolist() == pytest.approx([gap(row, dataset) for row in rows])
            heights = points.get_ydata().astype(float)
            assert heights.round().tolist() == list(range(len(rows)))
            assert len(line.get_xdata()) == len(rows)
        assert gaps.get_title(loc="left").startswith(f"{dataset}, n = {len(grid.seeds)}")


@pytest.mark.parametrize("markup", ["markdown", "html"])
def test_the_main_table_has_numbers_for_results_and_dashes_elsewhere(markup):
    tables = make_main_tables(summary(), ROWS, markup)
    assert [table.title.partition(":")[0] for table in tables] == list(GRIDS)
    for table, grid in zip(tables, GRIDS.values(), strict=True):
        assert f"n = {len(grid.seeds)} seed" in table.title
        for row, (_, line) in zip(ROWS, table.frame.iterrows(), strict=True):
            for rate in RATES:
                accuracy = line[f"TA @{100 * rate:g}%"]
                if row in grid.rows and rate in grid.rates:
                    assert accuracy.startswith(mean_over_seeds("TA", row, rate, grid))
                else:
                    assert accuracy == ABSENT


def test_the_main_table_in_latex_and_in_a_terminal_has_the_numbers_of_all_data_sets():
    latex = render_main_table(summary(), ROWS, "latex")
    assert re.findall(r"\{c\}\{(\w+) \(", latex) == list(GRIDS)
    assert latex.count(r"\\") == 2 + len(GRIDS) * (1 + len(ROWS))
    terminal = render_plain(render_main_table(summary(), ROWS, "markdown"))
    for dataset, rate in PLACES:
        mean = mean_over_seeds("FA", ROWS[-1], rate, GRIDS[dataset])
        assert mean in latex
        assert mean in terminal


def test_residual_shares_are_beside_the_data_sets_that_were_audited(tmp_path):
    line = {"name": "munkey", "role": "method", "path": "deployed", "verdict": "none found"}
    line |= {"flagged": "", "share": 2.0, "share_low": 1.0, "share_high": 3.0}
    residue = collect_residue({tmp_path / "cifar10": pd.DataFrame([line])})
    tables = make_main_tables(summary(), ROWS, "markdown", residue)
    for table, dataset in zip(tables, GRIDS, strict=True):
        column = table.frame.set_index("Method")["residual share [%]"]
        assert column["MUNKEY"] == ("2.0 [1.0, 3.0]" if dataset == "cifar10" else ABSENT)


def test_all_tables_are_made_if_data_sets_differ_in_rates_and_seeds():
    rows = [row for row in ROWS if row.name in (*TRAINED, "ssd", "munkey")]
    lines = pd.concat([tidy(name) for name in ("bloodmnist", "cifar10", "digits")])
    lines = lines[lines["method"].isin([row.name for row in rows])]
    texts = render_all_tables(lines, pairs(summarize(lines, rows)), rows)
    for name, text in texts.items():
        assert text, name
    largest = texts["datasets"]
    assert "@10%" in largest
    assert "@5%" in largest
    assert "@2%" not in largest  # of no data set the largest
    assert texts["runtime"].count("| cifar10") == 2 * len(rows)
    assert texts["runtime"].count("| digits") == len(rows)


@pytest.mark.parametrize("markup", MARKUPS)
def test_run_times_have_a_line_for_each_system_of_a_data_set_and_rate(markup):
    frame = runtime_table(summary(), ROWS, markup).frame
    expected = []
    unlearning = 0
    for name, rate in PLACES:
        expected += [[name, f"{100 * rate:g}%", row.title] for row in GRIDS[name].rows]
        unlearning += len(GRIDS[name].methods) + 2  # oracles unlearn by training
    assert frame[["Data set", "Forget", "Method"]].values.tolist() == expected
    assert (frame["Unlearn [s]"] != ABSENT).sum() == unlearning


@pytest.mark.parametrize("markup", MARKUPS)
def test_ablations_show_the_data_sets_that_have_values(markup):
    tables = {}
    titles = {}
    for name, make_tables in ablations.TABLES.items():
        tables[name] = list(make_tables(case_summary(), CASE_ROWS, markup))
        titles[name] = [table.title.partition(":")[0] for table in tables[name]]
    assert titles == {
        "ablations": ["bloodmnist", "cifar10", "digits"],
        "aggregation": ["cifar10", "digits"],
        "strategies": ["P_s and Avg Gap (lower is better)"],
        "fusion": ["cifar10"],
        "encoders": ["cifar10"],
    }
    strategies = tables["strategies"][0].frame.set_index("Strategy")
    absent = strategies[["Avg Gap, cifar10", "Avg Gap, digits"]] == ABSENT
    assert absent.loc["Rank"].tolist() == [False, True]
    assert absent.loc["Ensemble"].tolist() == [True, False]


def test_the_methods_of_every_data_set_are_ranked():
    lines = all_metrics()
    ranks = rank_by_title(lines[lines["dataset"].isin(["bloodmnist", "cifar10"])], ROWS)
    assert ranks.columns.tolist() == ["CF", "SSD", "MUNKEY"]
    assert len(ranks) == 1 * 2 + 2 * 3  # rates and seeds of both
    assert (ranks == [1.0, 2.0, 3.0]).all(axis=None)
    table = make_rank_table(ranks)
    assert table.title.startswith("bloodmnist, cifar10: ")
    assert "n = 5 pairs of data set and seed" in table.title
    assert table.frame["at 2%"].tolist() == ["1.00", "2.00", "3.00"]  # a rate of one data set


def test_the_numbers_of_the_paper_are_beside_those_of_results():
    both = paper.compare(summary(), case_summary())
    methods = both.groupby(["table", "dataset", "rate"])["method"].apply(set)
    assert set(methods.index) == {
        ("main", "bloodmnist", 0.1),
        ("main", "cifar10", 0.1),
        ("main", "cifar10", 0.02),
        ("main", "pathmnist", 0.1),
        ("runtime", "cifar10", 0.1),
        ("aggregation", "cifar10", 0.1),
        ("strategies", "cifar10", 0.1),
        ("encoders", "cifar10", 0.1),
    }
    assert methods["main", "pathmnist", 0.1] == {"retrain-t", "retrain-m", "munkey"}
    agreement = paper.make_agreement_table(both, paper.read_printed_numbers()).frame
    assert set(agreement["Data set"]) == {"bloodmnist", "cifar10", "pathmnist", ""}
    assert len(paper.make_side_by_side_tables(both)) == len(methods)
    for name, text in paper.render_texts(both, ["why"]).items():
        assert text, name


def test_results_outside_the_paper_give_no_comparison():
    lines = summary()
    nothing = paper.compare(lines[lines["dataset"] == "digits"], case_summary().iloc[:0])
    assert paper.make_side_by_side_tables(nothing) == []
    assert paper.make_comparison_tables(nothing) == []
    agreement = paper.make_agreement_table(nothing, paper.read_printed_numbers()).frame
    assert agreement[["Printed", "Compared", "Within"]].values.tolist() == [[0] * 3]


def test_the_neighbors_figure_has_the_values_of_each_data_set(tmp_path, figures):
    write_text(tmp_path / "ablations.csv", case_summary().to_csv(index=False))
    neighbors_figure(tmp_path / "ablations.csv", tmp_path / "neighbors.svg")
    accuracy, _ = figures[0].axes
    values = {bars.get_label(): bars.lines[0].get_xdata().tolist() for bars in accuracy.containers}
    assert values == {"bloodmnist": [4, 16], "cifar10": [8]}


def test_every_chapter_of_the_page_is_made():
    lines = all_metrics()
    ranks = rank_by_title(lines[lines["dataset"].isin(["bloodmnist", "cifar10"])], ROWS)
    results = page.PageResults(summary(), ROWS, {}, [ranks.reset_index()])
    chapters = page.make_chapters(results) + ablations.make_chapters(case_summary(), CASE_ROWS)
    assert {chapter.id: len(chapter.tables) for chapter in chapters} == {
        **{"main": 4, "ranks": 1, "runtime": 1},
        **{"ablations": 3, "aggregation": 2, "strategies": 1, "fusion": 1, "encoders": 1},
    }
    assert list(results.ranks[0].columns[:3]) == INDEX


def test_tables_of_attacks_have_the_seeds_of_each_data_set_and_dashes_for_missing_methods():
    rows = [row for row in ROWS if row.name not in TRAINED]
    scores = ("auroc", "auroc_low", "auroc_high", "tpr_1", "tpr_1_low", "tpr_1_high")
    lines = []
    titles = []
    for name, rate in PLACES:
        grid = GRIDS[name]
        seeds = "1 seed" if len(grid.seeds) == 1 else f"{len(grid.seeds)} seeds"
        titles.append(f"{name}, forget rate {100 * rate:g}%: n = {seeds}")
        for seed, method in itertools.product(grid.seeds, grid.methods):
            line = {"dataset": name, "rate": str(rate), "seed": seed, "method": method}
            lines.append(line | {"attack": "loss"} | dict.fromkeys(scores, 50.0))
    tables = make_attack_tables(pd.DataFrame(lines), all_metrics(), rows)
    assert [table.title for table in tables] == titles
    pathmnist = tables[-1].frame.set_index("Method")  # it has MUNKEY alone
    cf = pathmnist.loc["CF", ["MIA", "Loss: AUROC", "Loss: TPR @ 1%"]]
    assert cf.tolist() == [ABSENT] * 3
    assert pathmnist.loc["MUNKEY", "Loss: AUROC"] == "50.0 [50.0, 50.0]"


def test_tables_of_traces_in_files_have_the_rates_and_seeds_of_each_data_set():
    lines = []
    for name, rate in PLACES:
        for seed, file in itertools.product(GRIDS[name].seeds, ("original", "unlearned")):
            line = {"dataset": name, "rate": rate, "seed": seed, "title": "MUNKEY", "file": file}
            lines.append(line | {"why": np.nan, "rows": 1, "rows_of": 1, "ids": 1, "ids_of": 1})
    tables = {}
    for table in make_storage_tables(pd.DataFrame(lines)):
        tables[table.title.partition(":")[0]] = table
    assert list(tables) == list(GRIDS)
    for name, table in tables.items():
        assert len(table.frame) == len(GRIDS[name].rates)
    assert tables["cifar10"].title.endswith("n = 3 seeds")
    assert tables["digits"].title.endswith("n = 1 seed")
