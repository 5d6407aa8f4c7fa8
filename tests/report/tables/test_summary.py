"""Summaries: means and deviations over seeds, the gap to the oracle, by hand and from the paper's printed numbers."""

import math

import pandas as pd
import pytest

from munkey.report.tables.summary import (
    GAP_METRICS,
    Row,
    add_seed_gaps,
    round_to_four_digits,
    summarize,
)
from tests.conftest import ROOT
from tests.report.inputs import MEASURED, ROWS, line, tidy

PAPER = ROOT.parent / "shared/paper/tables.csv"


def test_means_and_deviations_are_taken_over_seeds_with_one_degree_of_freedom_lost():
    cf = line(summarize(tidy(), ROWS), "cf")
    assert cf["n"] == 3
    assert cf["TA_mean"] == 81
    assert cf["TA_sd"] == pytest.approx(math.sqrt((9 + 1 + 16) / 2))


def test_the_gap_compares_means_over_seeds_with_the_oracles():
    cf = line(summarize(tidy(), ROWS), "cf")
    # means: CF 81, 98, 82, 62; its oracle 82, 100, 72, 50
    assert cf["gap_mean"] == pytest.approx((1 + 2 + 10 + 12) / 4)
    variances = [13, 1, 4, 4], [4, 0, 4, 4]
    assert cf["gap_sd"] == pytest.approx(math.sqrt(sum(map(sum, variances))) / 4)


def test_the_gap_of_each_seed_shows_failures_that_means_hide():
    measured = MEASURED | {"cf": [(82, 100, 70, 50), (72, 100, 72, 52), (92, 100, 74, 48)]}
    gaps = add_seed_gaps(tidy(measured), ROWS)
    of_cf = gaps[(gaps["method"] == "cf") & (gaps["metric"] == "gap")].set_index("seed")["value"]
    assert of_cf.to_dict() == {0: 2 / 4, 1: 10 / 4, 2: 8 / 4}
    assert line(summarize(gaps, ROWS), "cf")["gap_mean"] == 0


def test_seed_gaps_are_added_and_nothing_else_changes():
    metrics = tidy()
    gaps = add_seed_gaps(metrics, ROWS)
    pd.testing.assert_frame_equal(gaps[gaps["metric"] != "gap"].reset_index(drop=True), metrics)
    assert set(gaps.loc[gaps["metric"] == "gap", "method"]) == {"original-t", "cf", "scrub"}


def test_a_gap_is_measured_within_its_own_data_set_and_rate():
    better = MEASURED | {"cf": MEASURED["retrain-t"]}
    both = pd.concat([tidy(), tidy(better, rate=0.02), tidy(better, dataset="other")])
    gaps = summarize(both, ROWS).set_index(["dataset", "rate", "method"])["gap_mean"]
    assert gaps[("digits", 0.1, "cf")] == 25 / 4
    assert gaps[("digits", 0.02, "cf")] == 0
    assert gaps[("other", 0.1, "cf")] == 0


@pytest.mark.parametrize("make", [summarize, add_seed_gaps])
@pytest.mark.parametrize("missing", ["retrain-t", "cf"])
def test_a_missing_oracle_or_method_is_an_error(make, missing):
    measured = dict(MEASURED)
    del measured[missing]
    with pytest.raises(KeyError, match=missing):
        make(tidy(measured), ROWS)


def test_a_seed_without_its_oracle_is_an_error():
    with pytest.raises(KeyError, match="retrain-t"):
        add_seed_gaps(tidy(MEASURED | {"retrain-t": MEASURED["retrain-t"][:2]}), ROWS)


def test_one_missing_metric_is_an_error():
    metrics = tidy()
    lost = (metrics["method"] == "cf") & (metrics["seed"] == 1) & (metrics["metric"] == "MIA")
    with pytest.raises(KeyError, match="cf and its oracle retrain-t"):
        add_seed_gaps(metrics[~lost], ROWS)


def test_rows_stand_in_their_given_order_with_the_larger_rate_first():
    shuffled = pd.concat([tidy(rate=0.02), tidy()]).sample(frac=1, random_state=0)
    summary = summarize(shuffled, ROWS)
    assert summary["rate"].tolist() == [0.1] * 5 + [0.02] * 5
    assert summary["title"].tolist() == [row.title for row in ROWS] * 2


# The paper's tables hold 120 gaps. Known slips, where a printed gap does not follow from its own row:
GAP_SLIPS = {("unlearning-tinyimagenet", "NegGrad+")}
SD_SLIPS = {("unlearning-cifar100", "SSD")}
WRONG_TABLE = "unlearning-pathmnist"  # its rows repeat another data set's


def oracle_in_paper(name):
    group, model = name.split("|")
    if group == "munkey":
        return f"retrained|{model}"
    if model.startswith("Key Encoder "):
        encoder = model.removeprefix("Key Encoder ").replace("Pretrained-ViT/B", "ViT")
        return f"|Retrained ({encoder})"
    return "|Retrain (M)" if model == "MUNKEY" else "|Retrain (T)"


def paper_tables():
    """Per table: its printed gaps, and our summary of its rows, as if two seeds had given each mean and deviation."""
    printed = pd.read_csv(PAPER).fillna({"group": ""}).rename(columns={"forget_rate": "rate"})
    printed["method"] = (
        printed["group"] + "|" + printed["model"].replace("Retrain (V)", "Retrain (T)")
    )
    usable = printed[printed["table"] != WRONG_TABLE]
    for (table, *_), part in usable.groupby(["table", "dataset", "rate"]):
        gaps = part[part["metric"] == "AvgGap"].set_index("method")
        rows = part[part["metric"].isin(GAP_METRICS)]
        if len(gaps) and len(rows):
            off = rows["std"] / math.sqrt(2)
            seeds = [
                rows.assign(seed=0, value=rows["mean"] - off),
                rows.assign(seed=1, value=rows["mean"] + off),
            ]
            systems = [Row(name, name, oracle_in_paper(name)) for name in gaps.index]
            yield table, gaps, summarize(pd.concat(seeds), systems).set_index("method")


@pytest.mark.skipif(
    not PAPER.exists(), reason="the paper's printed tables are not beside this checkout"
)
def test_the_papers_printed_gaps_follow_from_its_printed_rows():
    checked = 0
    for table, gaps, summary in paper_tables():
        for name, gap in gaps.iterrows():
            ours = summary.loc[name]
            slip = (table, gap["model"])
            if slip not in GAP_SLIPS:
                checked += 1
                assert ours["gap_mean"] == pytest.approx(gap["mean"], abs=0.0201), slip
            if slip not in SD_SLIPS:
                assert ours["gap_sd"] == pytest.approx(gap["std"], abs=0.03), slip
    assert checked == 109


@pytest.mark.parametrize(
    ("value", "rounded"), [(80.33333, 80.33), (0.00081234, 0.0008123), (1234.56, 1235), (0, 0)]
)
def test_numbers_to_be_read_have_four_digits(value, rounded):
    assert round_to_four_digits(value) == rounded
