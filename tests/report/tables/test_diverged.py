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


def tidy(seeds: int = 3, gone: dict[str, int] | None = None) -> pd.DataFrame:
    """Metrics of all rows. gone: of a method, the seed that diverged."""
    lines = []
    for place, row in enumerate(ROWS):
        for seed in range(seeds):
            key = {"dataset": "digits", "rate": 0.1, "seed": seed, "method": row.name}
            if (gone or {}).get(row.name) == seed:
                lines.append(key | {"metric": "diverged", "value": 1.0, "why": WHY})
                continue
            for number, metric in enumerate(("TA", "RA", "FA", "MIA")):
                lines.append(key | {"metric": metric, "value": 90.0 + place - number + seed / 8})
    return pd.DataFrame(lines)


def test_a_diverged_seed_costs_its_row_and_all_other_lines_stay_as_they_are():
    whole = summarize(add_seed_gaps(tidy(), ROWS), ROWS)
    gone = summarize(add_seed_gaps(tidy(gone={"ssd": 1}), ROWS), ROWS)
    others = gone[gone["method"] != "ssd"]
    assert others["diverged"].isna().all()
    pd.testing.assert_frame_equal(others.drop(columns="diverged"), whole[whole["method"] != "ssd"])
    (line,) = gone[gone["method"] == "ssd"].to_dict("records")
    assert np.isnan(line["TA_mean"]) and np.isnan(line["gap_mean"]) and line["n"] == 3
    assert line["diverged"] == f"seed 1: {WHY}"


def texts_of(metrics):
    return render_all_tables(metrics, pairs(summarize(metrics, ROWS)), ROWS)


def test_the_tables_name_method_seed_rate_and_log():
    texts = texts_of(tidy(gone={"ssd": 1}))
    (line,) = [line for line in texts["markdown"].splitlines() if line.startswith("| SSD")]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "SSD",
        "diverged",
        "–",
        "–",
        "–",
        "diverged",
    ]
    for name in ("markdown", "html", "latex"):
        assert f"Diverged: SSD @10%, seed 1: {WHY}." in texts[name]
    assert "| CF" in texts["markdown"] and "diverged" in texts["runtime"]
    assert "why" not in texts_of(tidy())["tidy"] and "diverged" not in texts_of(tidy())["csv"]


def test_without_its_oracle_a_system_has_metrics_and_no_gap_and_the_table_says_so():
    texts = texts_of(tidy(gone={"retrain-t": 0}))
    (line,) = [line for line in texts["markdown"].splitlines() if line.startswith("| CF")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1] == "92.12 ± 0.12" and cells[5] == "–"
    assert "Methods compared with Retrain (T) have no Avg Gap there." in texts["markdown"]


def test_all_that_a_diverged_original_takes_with_it_is_said_once():
    texts = texts_of(tidy(gone={"original-t": 2, "cf": 2, "ssd": 2}))
    assert f"Diverged: Original (T) @10%, CF @10%, SSD @10%, seed 2: {WHY}." in texts["markdown"]


@pytest.mark.parametrize("seeds", [1, 2])
def test_where_every_system_diverged_there_is_still_a_table(seeds):
    everything = pd.concat([tidy(seeds, {row.name: seed for row in ROWS}) for seed in range(seeds)])
    only = everything[everything["metric"] == "diverged"]
    texts = texts_of(only)
    assert texts["markdown"].count("| diverged") == 2 * len(ROWS)  # TA and Avg Gap


def test_a_method_without_a_gap_everywhere_is_not_ranked_and_the_others_are():
    measured = add_seed_gaps(tidy(6, {"ssd": 1}), ROWS)
    ranks = rank_by_title(measured, ROWS)
    assert list(ranks.columns) == ["CF", "SCRUB", "EU-k"]
    table = make_rank_table(ranks, ROWS)
    assert (
        list(table.frame["Method"]) and table.remark == "Not ranked because a gap is missing: SSD."
    )


def test_where_too_few_methods_have_a_gap_the_ranks_say_so_and_the_run_goes_on():
    ranks = rank_by_title(add_seed_gaps(tidy(5, {"retrain-t": 1}), ROWS), ROWS)
    assert make_rank_table(ranks, ROWS).title.startswith(
        "Ranks need at least 5 seeds and 3 methods that have a gap everywhere; there"
    )
    assert rank_diagram(ranks, "MUNKEY").get_size_inches()[0] > 5
