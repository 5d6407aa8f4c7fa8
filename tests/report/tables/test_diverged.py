"""One method that diverges costs its row of the tables, and nothing else."""

import numpy as np
import pandas as pd
import pytest

from munkey.report.figures.ranks import rank_diagram
from munkey.report.tables.main import render_all_tables
from munkey.report.tables.ranks import make_rank_table, rank_by_title
from munkey.report.tables.summary import Row, add_seed_gaps, summarize
from tests.report.inputs import pairs

ROWS = [
    Row("original-t", "Original (T)", "retrain-t", context=True),
    Row("retrain-t", "Retrain (T)", None),
    Row("cf", "CF", "retrain-t"),
    Row("ssd", "SSD", "retrain-t"),
    Row("scrub", "SCRUB", "retrain-t"),
    Row("eu-k", "EU-k", "retrain-t"),
]
WHY = "the loss of epoch 2 is nan; log: logs/default/unlearn/digits/seed1/rate0.1/ssd.log"


def tidy(seeds: int = 3, diverged: dict[str, int] | None = None) -> pd.DataFrame:
    """Metrics of all rows. diverged: the seed that diverged, by method."""
    lines = []
    for place, row in enumerate(ROWS):
        for seed in range(seeds):
            key = {"dataset": "digits", "rate": 0.1, "seed": seed, "method": row.name}
            if (diverged or {}).get(row.name) == seed:
                lines.append(key | {"metric": "diverged", "value": 1.0, "why": WHY})
                continue
            for number, metric in enumerate(("TA", "RA", "FA", "MIA")):
                lines.append(key | {"metric": metric, "value": 90.0 + place - number + seed / 8})
    return pd.DataFrame(lines)


def test_a_diverged_seed_costs_its_row_and_no_other():
    whole = summarize(add_seed_gaps(tidy(), ROWS), ROWS)
    summary = summarize(add_seed_gaps(tidy(diverged={"ssd": 1}), ROWS), ROWS)
    others = summary[summary["method"] != "ssd"]
    assert others["diverged"].isna().all()
    pd.testing.assert_frame_equal(others.drop(columns="diverged"), whole[whole["method"] != "ssd"])
    (line,) = summary[summary["method"] == "ssd"].to_dict("records")
    assert np.isnan(line["TA_mean"])
    assert np.isnan(line["gap_mean"])
    assert line["n"] == 3
    assert line["diverged"] == f"seed 1: {WHY}"


def render_tables(metrics):
    return render_all_tables(metrics, pairs(summarize(metrics, ROWS)), ROWS)


def read_cells(markdown, title):
    """The cells of a row of a Markdown table."""
    (line,) = [line for line in markdown.splitlines() if line.startswith(f"| {title}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_tables_name_method_seed_rate_and_log():
    texts = render_tables(tidy(diverged={"ssd": 1}))
    cells = read_cells(texts["markdown"], "SSD")
    assert cells == ["SSD", "diverged", "–", "–", "–", "diverged"]
    for name in ("markdown", "html", "latex"):
        assert f"Diverged: SSD @10%, seed 1: {WHY}." in texts[name]
    assert "| CF" in texts["markdown"]
    assert "diverged" in texts["runtime"]
    assert "why" not in render_tables(tidy())["tidy"]
    assert "diverged" not in render_tables(tidy())["csv"]


def test_a_system_whose_oracle_diverged_has_metrics_but_no_gap():
    markdown = render_tables(tidy(diverged={"retrain-t": 0}))["markdown"]
    cells = read_cells(markdown, "CF")
    assert cells[1] == "92.12 ± 0.12"
    assert cells[5] == "–"
    assert "Retrain (T) have no Avg Gap" in markdown


def test_a_reason_is_given_once_for_all_systems_that_diverged_with_the_original():
    texts = render_tables(tidy(diverged={"original-t": 2, "cf": 2, "ssd": 2}))
    assert f"Original (T) @10%, CF @10%, SSD @10%, seed 2: {WHY}." in texts["markdown"]


@pytest.mark.parametrize("seeds", [1, 2])
def test_there_is_a_table_if_every_system_diverged(seeds):
    parts = []
    for seed in range(seeds):
        metrics = tidy(seeds, {row.name: seed for row in ROWS})
        parts.append(metrics[metrics["metric"] == "diverged"])
    texts = render_tables(pd.concat(parts))
    assert texts["markdown"].count("| diverged") == 2 * len(ROWS)  # TA and Avg Gap


def test_a_method_that_lacks_a_gap_is_not_ranked_and_the_others_are():
    metrics = add_seed_gaps(tidy(6, {"ssd": 1}), ROWS)
    ranks = rank_by_title(metrics, ROWS)
    assert list(ranks.columns) == ["CF", "SCRUB", "EU-k"]
    table = make_rank_table(ranks, ROWS)
    assert list(table.frame["Method"])
    assert table.remark.endswith("missing: SSD.")


def test_too_few_methods_with_a_gap_have_a_title_and_a_figure_but_no_ranks():
    ranks = rank_by_title(add_seed_gaps(tidy(5, {"retrain-t": 1}), ROWS), ROWS)
    assert "at least 5 seeds and 3 methods" in make_rank_table(ranks, ROWS).title
    assert rank_diagram(ranks, "MUNKEY").get_size_inches()[0] > 5
