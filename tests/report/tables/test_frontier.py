"""The frontier: which design leaves how little at which accuracy, in a sentence, a table and a front."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from munkey.report.tables.frontier import (
    LEFT,
    Design,
    collect_points,
    describe_frontier,
    make_frontier_table,
    recommend_design,
)
from munkey.unlearn.contract import METHODS
from tests.report.designs import (
    ACCURACY,
    ACCURACY_OF_ONE_SEED,
    AUDIT,
    DESIGNS,
    audit_table,
    summary,
)
from tests.report.inputs import assert_in_order


def front(points):
    """The names of the designs on the front."""
    return set(points[points["front"]]["name"])


def test_the_sentence_names_the_best_design_at_each_share_its_ties_and_unknown_ones():
    points = collect_points(summary(), audit_table(**AUDIT), DESIGNS)
    parts = [
        *("at most 1%: LDA (96.00 ± 0.40%).", "at most 5%: LDA (96.00 ± 0.40%), not significantly"),
        *("MUNKEY.", "any share: CF (98.50 ± 0.30%), not significantly", "SSD."),
        *("Retraining", "ANEW (99.00 ± 0.50%, 20 s).", "Not audited", "SSD."),
    ]
    assert_in_order(describe_frontier(points), parts)
    without_lda = [design for design in DESIGNS if design.name != "lda"]
    points = collect_points(summary(), audit_table(**AUDIT), without_lda)
    assert_in_order(describe_frontier(points), ["at most 1%: no design", "at most 5%: MUNKEY"])


def uncompared(accuracy):
    """A summary of one seed, without differences."""
    return summary(accuracy).assign(n=1).drop(columns="differences")


def test_the_sentence_claims_no_difference_between_designs_that_were_not_compared():
    points = collect_points(uncompared(ACCURACY_OF_ONE_SEED), audit_table(**AUDIT), DESIGNS)
    sentence = describe_frontier(points)
    assert "CF (98.50%). Retraining" in sentence
    assert "significantly" not in sentence


def test_accuracies_of_one_seed_have_intervals_over_test_samples():
    one_seed = summary(ACCURACY_OF_ONE_SEED).assign(n=1, tested_mean=400.0)
    points = collect_points(one_seed, audit_table(**AUDIT), DESIGNS)
    parts = ["CF (98.50 [96.8, 99.3]%), not significantly", "SSD. Retraining"]
    assert_in_order(describe_frontier(points), parts)
    title, frame, _ = make_frontier_table(points, "html")
    assert "95% interval over 400 test samples" in title
    assert frame["Test accuracy"].tolist()[1] == "96.00 [93.6, 97.5]"
    exact = [design for design in DESIGNS if design.kind != "weights"]
    points = collect_points(one_seed, audit_table(**AUDIT), exact)
    parts = ["at most 5%: LDA (96.00 [93.6, 97.5]%), not significantly", "MUNKEY."]
    assert_in_order(describe_frontier(points), parts)


def test_equal_designs_are_all_named_in_sentence_front_and_table():
    """LDA and KNN leave nothing; MUNKEY is as accurate and leaves 1.6%."""
    accuracy = dict.fromkeys(("lda", "knn", "munkey"), (96.0, 0.4))
    designs = [Design(name, name.upper(), "exact", "", "–") for name in ("lda", "knn")]
    designs.append(Design("munkey", "MUNKEY", "rows", "", "–"))
    points = collect_points(summary(accuracy), audit_table(**AUDIT), designs)
    sentence = describe_frontier(points)
    assert "at most 1%: LDA and KNN (96.00 ± 0.40%)." in sentence
    assert "at most 5%: LDA and KNN and MUNKEY (96" in sentence
    assert front(points) == {"lda", "knn", "munkey"}
    names = make_frontier_table(points, "markdown").frame["Method"].tolist()
    assert names == ["**LDA**", "**KNN**", "**MUNKEY**"]


def test_the_advice_is_the_most_accurate_design_with_a_small_share_beside_a_more_accurate_one():
    advice = recommend_design(collect_points(summary(), audit_table(**AUDIT), DESIGNS))
    assert advice.startswith("Deploy LDA (96.00 ± 0.40%): ")
    parts = ["CF is more accurate by 2.5 points", "[1.0, 4.0]", "27.0% [16.0, 38.0]."]
    assert_in_order(advice, parts)


def test_the_advice_names_all_designs_that_do_not_differ_significantly():
    accuracy = {
        "lda": (96.0, 0.4),
        "knn": (96.0, 0.4),
        "ncm": (95.9, 0.4),
        "ssd": (90.0, 0.4),
        "cf": (96.1, 0.4),
    }
    designs = [Design(name, name.upper(), "exact", "", "–") for name in ("lda", "knn", "ncm")]
    designs += [Design(name, name.upper(), "weights", "", "–") for name in ("ssd", "cf")]
    audit = audit_table(ssd=(0.2, -0.5, 0.9, {}), cf=(27.0, 16.0, 38.0, {}))
    advice = recommend_design(collect_points(summary(accuracy), audit, designs))
    names = "LDA (96.00 ± 0.40%) or KNN (96.00 ± 0.40%) or NCM (95.90 ± 0.40%)"
    assert advice.startswith(f"Deploy {names}, which do not differ significantly")
    assert "of the 4 designs" in advice
    assert advice.endswith("at most 1%.")


def test_the_advice_names_all_designs_that_were_not_compared():
    accuracy = {"lda": (96.0, math.nan), "knn": (50.0, math.nan)}
    designs = [Design(name, name.upper(), "exact", "", "–") for name in accuracy]
    advice = recommend_design(collect_points(uncompared(accuracy), None, designs))
    assert advice.startswith("Deploy LDA (96.00%) or KNN (50.00%), ")


def test_without_an_audit_the_advice_is_the_exact_design_and_how_to_audit_the_others():
    advice = recommend_design(collect_points(summary(), None, DESIGNS))
    assert advice.startswith("Deploy LDA (96.00 ± 0.40%): ")
    parts = ["CF is more accurate by 2.5 points", "not been audited (run `make audits`)."]
    assert_in_order(advice, parts)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((0.1, -0.2, 0.3, {"verdict": "no power", "flagged": ""}), "at most 5%"),
        ((0.1, -0.2, 0.3, {"flagged": "few"}), "at most 5%"),
        (None, "none was audited (run `make audits`)"),
    ],
)
def test_the_advice_is_to_retrain_if_no_design_is_shown_to_have_a_small_share(row, reason):
    designs = [design for design in DESIGNS if design.name in ("anew", "munkey")]
    audit = None if row is None else audit_table(munkey=row)
    advice = recommend_design(collect_points(summary(), audit, designs))
    assert advice.startswith("No design can be recommended")
    assert reason in advice
    assert advice.endswith("retrain (ANEW).")


def test_the_advice_is_a_design_that_is_shown_to_have_a_small_share():
    designs = [design for design in DESIGNS if design.name in ("anew", "munkey")]
    audit = audit_table(munkey=(1.6, 1.0, 2.2, {}))
    advice = recommend_design(collect_points(summary(), audit, designs))
    assert advice.startswith("Deploy MUNKEY (95.00 ± 0.80%): the only design")
    assert advice.endswith("at most 5%.")


@pytest.mark.parametrize(
    ("row", "share", "bound"),
    [
        ((0.5, -1.0, 2.0, {}), "0.5 [-1.0, 2.0] ‡", 2.0),
        ((-33.0, -77.0, -5.0, {"verdict": "over-forgets"}), "-33.0 [-77.0, -5.0]", 77.0),
        ((0.1, -0.2, 0.3, {"flagged": "few"}), "0.1 [-0.2, 0.3] †", math.inf),
        ((0.1, -0.2, 0.3, {"verdict": "no power", "flagged": ""}), "no power", math.inf),
    ],
)
def test_the_bound_is_the_end_of_the_interval_further_from_0_unless_the_audit_gives_none(
    row, share, bound
):
    accurate = summary(ACCURACY | {"munkey": (97.0, 0.1)})
    points = collect_points(accurate, audit_table(**AUDIT | {"munkey": row}), DESIGNS)
    line = points.set_index("name").loc["munkey"]
    assert (line["share_text"], line["bound"]) == (share, bound)
    assert ("munkey" in front(points)) == (bound == 2.0)
    assert math.isnan(line["share"]) == (share == "no power")


def test_an_exact_design_has_a_share_of_0_unless_the_audit_finds_one():
    points = collect_points(summary(), None, DESIGNS).set_index("name")
    assert points["share_text"].to_dict() == {
        "anew": "0, by definition",
        "lda": "0, by construction",
        "munkey": "not audited",
        "cf": "not audited",
        "ssd": "not audited",
    }
    clean = collect_points(summary(), audit_table(**AUDIT), DESIGNS).set_index("name")
    assert clean.loc["lda", "share_text"] == "0, to the bit"
    assert clean.loc["lda", "bound"] == 0
    audit = audit_table(**AUDIT | {"lda": (3.0, 1.0, 6.0, {})})
    faulty = collect_points(summary(), audit, DESIGNS).set_index("name")
    assert faulty.loc["lda", "share_text"] == "3.0 [1.0, 6.0]"
    assert faulty.loc["lda", "bound"] == 6


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_a_design_is_on_the_front_unless_a_more_accurate_one_has_no_larger_bound(values):
    shares = {}
    accuracy = {}
    for number, (bound, points_over_90) in enumerate(values):
        shares[f"m{number}"] = (float(bound), 0.0, float(bound), {})
        accuracy[f"m{number}"] = (90.0 + points_over_90, 0.1)
    designs = [Design(name, name, "weights", "", "–") for name in shares]
    points = collect_points(summary(accuracy), audit_table(**shares), designs)
    for design in points.to_dict("records"):
        has_no_larger_bound = points["bound"] <= design["bound"]
        is_more_accurate = points["TA_mean"] > design["TA_mean"]
        assert design["front"] == (not (has_no_larger_bound & is_more_accurate).any())


def test_a_design_without_a_bound_is_not_on_the_front():
    points = collect_points(summary(), None, DESIGNS)
    assert front(points) == {"lda"}


def test_the_advice_says_that_an_audit_diverged():
    audit = audit_table(**AUDIT | {"cf": (27.0, 16.0, 38.0, {"verdict": "diverged"})})
    advice = recommend_design(collect_points(summary(), audit, DESIGNS))
    assert "but its audit diverged" in advice


def test_the_table_shows_the_largest_rate_with_the_front_in_bold():
    both = pd.concat([summary(), summary(dict.fromkeys(ACCURACY, (1.0, 0.1)), rate=0.02)])
    points = collect_points(both, audit_table(**AUDIT), DESIGNS)
    title, frame, _ = make_frontier_table(points, "markdown")
    assert title.startswith("digits, 10% forgotten: mean ± sd over n = 3 seeds")
    assert frame["Method"].tolist() == ["ANEW", "**LDA**", "MUNKEY", "**CF**", "SSD"]
    assert frame.iloc[2].tolist() == [
        "MUNKEY",
        "1.6 [1.0, 2.2]",
        "0.01 [0.00, 0.02] of 0.50",
        "60.0 [55.0, 64.0]",
        "95.00 ± 0.80",
        "0.02",
        "munkey's",
        "–",
        "1.00 ± 0.10",
    ]
    assert frame["Seconds"].tolist()[0] == "20"


@pytest.mark.parametrize(
    ("method", "storage"),
    [
        ("lda", "keys, labels, weights"),
        ("knn", "keys, labels"),
        ("munkey", "weights, keys, tokens"),
        ("cf", "weights, retain set"),
        ("sfron", "weights, training set"),
        ("scrub", "weights, training set, val set"),
        ("sisa", "weights after each slice, retain set"),
    ],
)
def test_the_storage_of_a_method_follows_from_its_family_and_needs(method, storage):
    assert METHODS[method].storage == storage


def test_what_is_left_is_the_contrast_after_deletion_and_0_for_an_exact_design_without_audit():
    points = collect_points(summary(), audit_table(**AUDIT), DESIGNS).set_index("name")
    assert points["before"]["cf"] == 0.5
    assert points["left"]["cf"] == pytest.approx(0.135)
    unaudited = collect_points(summary(), None, DESIGNS).set_index("name")
    assert unaudited["left"]["lda"] == 0
    assert math.isnan(unaudited["left"]["cf"])
    left = make_frontier_table(points.reset_index(), "markdown").frame[LEFT]
    assert left.tolist() == [
        "0",
        "0 of 0.50",
        "0.01 [0.00, 0.02] of 0.50",
        "0.14 [0.00, 0.27] of 0.50",
        "–",
    ]


def test_the_interval_of_what_is_left_is_that_of_a_t_test_over_pairs():
    contrasts = [0.10, 0.25, 0.16, 0.21]
    test = ttest_1samp(contrasts, 0)
    columns = {"contrast": np.mean(contrasts), "pairs": 4, "p_pairs": test.pvalue}
    audit = audit_table(**AUDIT | {"cf": (36.0, 10.0, 62.0, columns)})
    points = collect_points(summary(), audit, DESIGNS).set_index("name")
    interval = test.confidence_interval(0.95)
    assert points["left_low"]["cf"] == pytest.approx(interval.low)
    assert points["left_high"]["cf"] == pytest.approx(interval.high)


def test_the_attack_has_its_auroc_or_chance_for_a_design_that_leaves_nothing_or_none():
    points = collect_points(summary(), audit_table(**AUDIT), DESIGNS)
    aurocs = make_frontier_table(points, "markdown").frame["LiRA AUROC"].tolist()
    assert aurocs == ["50", "50", "60.0 [55.0, 64.0]", "60.0 [55.0, 64.0]", "–"]
    too_few_pairs = audit_table(**AUDIT).drop(columns="u-lira_auroc")
    points = collect_points(summary(), too_few_pairs, DESIGNS)
    aurocs = make_frontier_table(points, "markdown").frame["LiRA AUROC"].tolist()
    assert aurocs == ["50", "50", "–", "–", "–"]
