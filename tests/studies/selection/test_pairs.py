"""The choice of (p_image, p_token): health check, gap, and among comparable gaps the smallest P_s (app. E)."""

import math

import pandas as pd
import pytest

from munkey.studies.selection.pairs import (
    NothingPassesError,
    Pair,
    Systems,
    collect_pairs,
    decide_pairs,
    get_chosen_pair,
    make_table,
)
from munkey.studies.selection.settings import SelectionSettings


def settings(threshold=0.3, comparable=0.5):
    return SelectionSettings(
        p_image=[0.1, 0.3], p_token=[0.1, 0.3], threshold=threshold, comparable=comparable
    )


def decide(pairs, **changes):
    """The chosen pair, and the reasons of all."""
    verdicts = decide_pairs(pairs, settings(**changes))
    best = get_chosen_pair(verdicts)
    assert [verdict.pair for verdict in verdicts] == pairs
    assert [verdict.chosen for verdict in verdicts] == [pair is best for pair in pairs]
    return best, [verdict.reason for verdict in verdicts]


def test_the_smallest_gap_wins_if_no_other_is_comparable():
    pairs = [Pair(0.1, 0.1, P_s=0.05, gap=3.0), Pair(0.3, 0.1, P_s=0.25, gap=1.0)]
    best, reasons = decide(pairs)
    assert best is pairs[1]
    assert "2.00 points" in reasons[0]
    assert reasons[1] == "chosen: smallest gap"


def test_among_comparable_gaps_the_smallest_sensitivity_wins():
    pairs = [Pair(0.1, 0.1, 0.20, 1.0), Pair(0.1, 0.3, 0.10, 1.5), Pair(0.3, 0.1, 0.05, 1.51)]
    best, reasons = decide(pairs)
    assert best is pairs[1]
    assert "comparable" in reasons[0]
    assert "P_s is larger" in reasons[0]
    assert reasons[1].startswith("chosen: smallest P_s among the 2")
    assert "0.51 points" in reasons[2]


def test_ties_in_sensitivity_go_to_the_smaller_gap():
    pairs = [Pair(0.1, 0.1, 0.1, 1.4), Pair(0.1, 0.3, 0.1, 1.0), Pair(0.3, 0.3, 0.1, 1.2)]
    best, reasons = decide(pairs)
    assert best is pairs[1]
    assert "its gap is larger" in reasons[0]


def test_the_health_check_comes_before_the_gap_and_the_corner_is_no_candidate():
    pairs = [
        Pair(0, 0, 0.0, 0.0, reference=True),
        Pair(0.1, 0.1, 0.3, 0.0),
        Pair(0.3, 0.3, 0.29, 9.0),
    ]
    best, reasons = decide(pairs)
    assert best is pairs[2]
    assert reasons[0].startswith("for reference")
    assert reasons[1] == "dropped: P_s is not below 0.3"


def test_the_error_lists_the_grid_if_no_pair_passes():
    pairs = [Pair(0, 0, 0.1, 0.0, reference=True), Pair(0.1, 0.3, 0.4, 1.0)]
    with pytest.raises(NothingPassesError) as refused:
        decide_pairs(pairs, settings())
    assert "P_s < 0.3" in str(refused.value)
    assert "- p_image 0, p_token 0: P_s 0.100, gap 0.00" in str(refused.value)
    assert "- p_image 0.1, p_token 0.3: P_s 0.400, gap 1.00" in str(refused.value)


GRID = {
    "p_drop/0.0_0.0": {"p_image": 0.0, "p_token": 0.0},
    "p_drop/0.1_0.3": {"p_image": 0.1, "p_token": 0.3},
}
SYSTEMS = Systems(before="whole", after="cut")


def rows_of(key, metrics):
    """A row for each metric."""
    return [key | {"metric": metric, "value": value} for metric, value in metrics.items()]


def measure_grid():
    """Two seeds of each case. After deletion VA is 90 and 80; FA is 89 and 83 in one case, 80 and 84 in the other."""
    forget = {"p_drop/0.0_0.0": (89.0, 83.0), "p_drop/0.1_0.3": (80.0, 84.0)}
    lines = []
    for case, accuracies in forget.items():
        for seed in (0, 1):
            key = {"case": case, "rate": 0.1, "seed": seed}
            before = {"P_s": 0.1 + 0.2 * seed, "VA": 1.0, "FA": 50.0}
            after = {"VA": 90.0 - 10 * seed, "FA": accuracies[seed], "TA": 70.0, "RA": 99.0}
            after |= {"MIA": 50.0 + seed, "P_s": 9.0}
            lines += rows_of(key | {"method": "whole"}, before)
            lines += rows_of(key | {"method": "cut"}, after)
    return pd.DataFrame(lines)


def test_pairs_take_sensitivity_from_before_and_the_gap_of_each_seed_from_after_deletion():
    corner, pair = collect_pairs(measure_grid(), GRID, SYSTEMS)
    assert (corner.p_image, corner.p_token, corner.reference) == (0.0, 0.0, True)
    assert (pair.p_image, pair.p_token, pair.reference) == (0.1, 0.3, False)
    assert corner.P_s == pytest.approx(0.2)
    assert pair.P_s == pytest.approx(0.2)
    assert corner.gap == (1 + 3) / 2
    assert pair.gap == (10 + 4) / 2


def test_a_pair_without_metrics_is_refused():
    with pytest.raises(KeyError, match=r"'lost' in the case p_drop/0\.0_0\.0"):
        collect_pairs(measure_grid(), GRID, Systems("whole", "lost"))


def test_the_table_has_every_pair_with_its_reason_and_its_means():
    pairs = collect_pairs(measure_grid(), GRID, SYSTEMS)
    lines = make_table("digits", decide_pairs(pairs, settings()), measure_grid(), GRID, SYSTEMS)
    assert list(lines[0]) == [
        *("dataset", "p_image", "p_token", "P_s", "gap", "reference", "chosen", "reason"),
        *("TA", "RA", "FA", "VA", "MIA", "n"),
    ]
    reference, pair_line = lines
    assert reference["reason"].startswith("for reference")
    assert pair_line.pop("P_s") == pytest.approx(0.2)
    assert pair_line.pop("reason") == "chosen: smallest gap"
    pair = {"dataset": "digits", "p_image": 0.1, "p_token": 0.3, "gap": 7.0}
    means = {"TA": 70.0, "RA": 99.0, "FA": 82.0, "VA": 85.0, "MIA": 50.5, "n": 2}
    assert pair_line == pair | means | {"reference": False, "chosen": True}


def test_the_table_says_that_no_pair_passes_if_no_choice_is_required():
    pairs = [Pair(0, 0, 0.1, 0.0, reference=True), Pair(0.1, 0.3, 0.4, 1.0)]
    verdicts = decide_pairs(pairs, settings(), required=False)
    assert get_chosen_pair(verdicts) is None
    assert [verdict.chosen for verdict in verdicts] == [False, False]
    assert "P_s is not below 0.3" in verdicts[1].reason
    assert verdicts[1].reason.endswith("no pair passes")


def test_a_pair_whose_training_diverged_is_not_chosen_and_has_no_numbers():
    grid = {
        "p_drop/a": {"p_image": 0.1, "p_token": 0.1},
        "p_drop/b": {"p_image": 0.3, "p_token": 0.1},
    }
    lines = []
    for case in grid:
        for seed in (0, 1):
            key = {"case": case, "seed": seed}
            before = {"P_s": 0.1}
            after = dict.fromkeys(("TA", "RA", "FA", "MIA"), 50.0) | {"VA": 52.0}
            if case == "p_drop/a" and seed == 1:
                before = {"diverged": 1.0}
                after = {"diverged": 1.0}
            lines += rows_of(key | {"method": SYSTEMS.before}, before)
            lines += rows_of(key | {"method": SYSTEMS.after}, after)
    tidy = pd.DataFrame(lines)
    verdicts = decide_pairs(collect_pairs(tidy, grid, SYSTEMS), settings())
    reasons = [(verdict.chosen, verdict.reason) for verdict in verdicts]
    assert reasons == [(False, "diverged"), (True, "chosen: smallest gap")]
    first, second = make_table("digits", verdicts, tidy, grid, SYSTEMS)
    assert math.isnan(first["TA"])
    assert math.isnan(first["P_s"])
    assert second["TA"] == 50.0
    all_diverged = collect_pairs(tidy.assign(metric="diverged"), grid, SYSTEMS)
    assert get_chosen_pair(decide_pairs(all_diverged, settings(), required=False)) is None
