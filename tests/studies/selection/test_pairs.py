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


def reasons(pairs, **changes):
    verdicts = decide_pairs(pairs, settings(**changes))
    best = get_chosen_pair(verdicts)
    assert [verdict.pair for verdict in verdicts] == pairs
    assert [verdict.chosen for verdict in verdicts] == [pair is best for pair in pairs]
    return best, [verdict.reason for verdict in verdicts]


def test_the_smallest_gap_wins_where_none_is_comparable():
    pairs = [Pair(0.1, 0.1, P_s=0.05, gap=3.0), Pair(0.3, 0.1, P_s=0.25, gap=1.0)]
    best, why = reasons(pairs)
    assert best is pairs[1]
    assert "2.00 points" in why[0]
    assert why[1] == "chosen: smallest gap"


def test_among_comparable_gaps_the_smallest_sensitivity_wins():
    pairs = [Pair(0.1, 0.1, 0.20, 1.0), Pair(0.1, 0.3, 0.10, 1.5), Pair(0.3, 0.1, 0.05, 1.51)]
    best, why = reasons(pairs)
    assert best is pairs[1]
    assert "comparable" in why[0]
    assert "P_s is larger" in why[0]
    assert why[1].startswith("chosen: smallest P_s among the 2")
    assert "0.51 points" in why[2]


def test_ties_in_sensitivity_go_to_the_smaller_gap():
    pairs = [Pair(0.1, 0.1, 0.1, 1.4), Pair(0.1, 0.3, 0.1, 1.0), Pair(0.3, 0.3, 0.1, 1.2)]
    assert reasons(pairs)[0] is pairs[1]


def test_the_health_check_comes_first_and_the_corner_takes_no_part():
    pairs = [
        Pair(0, 0, 0.0, 0.0, reference=True),
        Pair(0.1, 0.1, 0.3, 0.0),
        Pair(0.3, 0.3, 0.29, 9.0),
    ]
    best, why = reasons(pairs)
    assert best is pairs[2]
    assert why[0].startswith("for reference")
    assert why[1] == "dropped: P_s is not below 0.3"


def test_the_error_lists_the_whole_grid_where_nothing_passes():
    with pytest.raises(
        NothingPassesError,
        match=r"(?s)P_s < 0\.3.*p_image 0\.1, p_token 0\.3: P_s 0\.400, gap 1\.00",
    ):
        decide_pairs([Pair(0, 0, 0.1, 0.0, reference=True), Pair(0.1, 0.3, 0.4, 1.0)], settings())
    with pytest.raises(NothingPassesError, match=r"- p_image 0, p_token 0: P_s 0\.100, gap 0\.00"):
        decide_pairs([Pair(0, 0, 0.1, 0.0, reference=True), Pair(0.1, 0.3, 0.4, 1.0)], settings())


GRID = {
    "p_drop/0.0_0.0": {"p_image": 0.0, "p_token": 0.0},
    "p_drop/0.1_0.3": {"p_image": 0.1, "p_token": 0.3},
}
SYSTEMS = Systems(before="whole", after="cut")


def rows_of(key, metrics):
    """A row for each metric."""
    return [key | {"metric": metric, "value": value} for metric, value in metrics.items()]


def measured():
    """Two seeds of each case. After deletion VA is 90 and 80; FA is 89 and 83 in one case, 80 and 84 in the other."""
    forget = {"p_drop/0.0_0.0": (89.0, 83.0), "p_drop/0.1_0.3": (80.0, 84.0)}
    lines = []
    for case, accuracies in forget.items():
        for seed in (0, 1):
            after = {
                "VA": 90.0 - 10 * seed,
                "FA": accuracies[seed],
                "TA": 70.0,
                "RA": 99.0,
                "MIA": 50.0 + seed,
            }
            systems = {
                "whole": {"P_s": 0.1 + 0.2 * seed, "VA": 1.0, "FA": 50.0},
                "cut": after | {"P_s": 9.0},
            }
            key = {"case": case, "rate": 0.1, "seed": seed}
            for method, metrics in systems.items():
                lines += rows_of(key | {"method": method}, metrics)
    return pd.DataFrame(lines)


def test_pairs_take_sensitivity_from_before_and_the_gap_of_each_seed_from_after_deletion():
    corner, pair = collect_pairs(measured(), GRID, SYSTEMS)
    assert (corner.p_image, corner.p_token, corner.reference) == (0.0, 0.0, True)
    assert (pair.p_image, pair.p_token, pair.reference) == (0.1, 0.3, False)
    assert corner.P_s == pair.P_s == pytest.approx(0.2)
    assert corner.gap == (1 + 3) / 2
    assert pair.gap == (10 + 4) / 2


def test_a_pair_that_was_not_measured_is_an_error():
    with pytest.raises(KeyError, match=r"'lost' in the case p_drop/0\.0_0\.0"):
        collect_pairs(measured(), GRID, Systems("whole", "lost"))


def test_the_table_has_every_pair_with_its_reason_and_its_means():
    pairs = collect_pairs(measured(), GRID, SYSTEMS)
    lines = make_table("digits", decide_pairs(pairs, settings()), measured(), GRID, SYSTEMS)
    assert list(lines[0]) == [
        *("dataset", "p_image", "p_token", "P_s", "gap", "reference", "chosen", "reason"),
        *("TA", "RA", "FA", "VA", "MIA", "n"),
    ]
    assert [line["reason"] for line in lines] == [
        "for reference: no pathway is ever dropped",
        "chosen: smallest gap",
    ]
    assert lines[1] | {"P_s": 0.2} == {
        **{
            "dataset": "digits",
            "p_image": 0.1,
            "p_token": 0.3,
            "P_s": 0.2,
            "gap": 7.0,
            "reference": False,
        },
        **{"chosen": True, "reason": "chosen: smallest gap"},
        **{"TA": 70.0, "RA": 99.0, "FA": 82.0, "VA": 85.0, "MIA": 50.5, "n": 2},
    }


def test_the_table_says_that_nothing_passes_where_no_choice_is_required():
    pairs = [Pair(0, 0, 0.1, 0.0, reference=True), Pair(0.1, 0.3, 0.4, 1.0)]
    verdicts = decide_pairs(pairs, settings(), required=False)
    assert get_chosen_pair(verdicts) is None
    assert [verdict.chosen for verdict in verdicts] == [False, False]
    assert verdicts[1].reason == "dropped: P_s is not below 0.3; no pair passes"


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
    assert [(verdict.chosen, verdict.reason) for verdict in verdicts] == [
        (False, "diverged"),
        (True, "chosen: smallest gap"),
    ]
    first, second = make_table("digits", verdicts, tidy, grid, SYSTEMS)
    assert math.isnan(first["TA"])
    assert math.isnan(first["P_s"])
    assert second["TA"] == 50.0
    all_diverged = collect_pairs(tidy.assign(metric="diverged"), grid, SYSTEMS)
    assert get_chosen_pair(decide_pairs(all_diverged, settings(), required=False)) is None
