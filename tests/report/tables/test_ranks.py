"""Ranks, critical differences and the tests over seeds: by hand, and Demšar's published example."""

import math

import numpy as np
import pandas as pd
import pytest
from scikit_posthocs import posthoc_nemenyi_friedman

from munkey.report.figures.ranks import rank_diagram
from munkey.report.tables.ranks import (
    FEWEST_BLOCKS,
    INDEX,
    compare_methods,
    compute_critical_difference,
    compute_ranks,
    has_enough_blocks,
    make_rank_table,
    rank_by_seed,
    rank_by_title,
)
from munkey.report.tables.summary import add_seed_gaps
from tests.report.inputs import ROWS, tidy

# Table 6 of Demšar (2006): AUC of four versions of C4.5 on 14 data sets, larger is better.
DEMSAR = pd.DataFrame(
    [
        (0.763, 0.768, 0.771, 0.798),
        (0.599, 0.591, 0.590, 0.569),
        (0.954, 0.971, 0.968, 0.967),
        (0.628, 0.661, 0.654, 0.657),
        (0.882, 0.888, 0.886, 0.898),
        (0.936, 0.931, 0.916, 0.931),
        (0.661, 0.668, 0.609, 0.685),
        (0.583, 0.583, 0.563, 0.625),
        (0.775, 0.838, 0.866, 0.875),
        (1.000, 1.000, 1.000, 1.000),
        (0.940, 0.962, 0.965, 0.962),
        (0.619, 0.666, 0.614, 0.669),
        (0.972, 0.981, 0.97501, 0.975),  # both are printed as 0.975, with the ranks 2 and 3
        (0.957, 0.978, 0.946, 0.970),
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)
NAMES = ["a", "b", "c"]


def lines(seeds, rates=(0.1, 0.02), dataset="digits"):
    """The index of gaps."""
    return pd.MultiIndex.from_product([[dataset], range(seeds), rates], names=INDEX)


def gaps(seeds=6, **columns):
    """Gaps of methods; by default a < b < c at every seed and rate."""
    index = lines(seeds)
    return pd.DataFrame({"a": 1.0, "b": 2.0, "c": 3.0} | columns, index=index)


def test_demsars_example_comes_out_as_published():
    found = compare_methods(compute_ranks(-DEMSAR))
    assert found.mean.round(3).to_dict() == {
        "C4.5+m+cf": 1.964,
        "C4.5+m": 2.000,
        "C4.5+cf": 2.893,
        "C4.5": 3.143,
    }
    assert found.blocks == 14 and round(found.difference, 2) == 1.25
    apart = {
        (one, other)
        for one in found.pairs
        for other in found.pairs
        if found.pairs.loc[one, other] < 0.05
    }
    assert apart == set()  # as published: 3.143 - 1.964 = 1.18 is less than 1.25
    # Friedman's statistic is 9.28 there; dividing by 1 - 78 / (14 * 4 * 15) corrects for the ties
    statistic = 9.28 / (1 - 78 / 840)
    chi_square = math.erfc(math.sqrt(statistic / 2)) + math.sqrt(
        2 * statistic / math.pi
    ) * math.exp(-statistic / 2)
    assert found.p == pytest.approx(chi_square, rel=0.01)


def test_critical_differences_are_those_of_published_tables():
    # q at 5%, from Demšar's table 5, for 2, 5 and 10 methods
    for methods, q in {2: 1.960, 5: 2.728, 10: 3.164}.items():
        assert compute_critical_difference(methods, 10) == pytest.approx(
            q * math.sqrt(methods * (methods + 1) / 60), rel=1e-3
        )


def test_ranks_within_a_line_are_shared_by_equal_gaps_also_where_rounding_differs():
    ranks = compute_ranks(pd.DataFrame({"a": [1.0, 5.0], "b": [0.1 + 0.2, 2.0], "c": [0.3, 2.0]}))
    assert ranks.to_numpy().tolist() == [[3, 1.5, 1.5], [3, 1.5, 1.5]]


def test_a_method_without_a_gap_somewhere_is_left_out():
    ranks = compute_ranks(pd.DataFrame({"a": [1.0, 5.0], "b": [0.5, math.nan], "c": [2.0, 2.0]}))
    assert ranks.columns.tolist() == ["a", "c"] and ranks.to_numpy().tolist() == [[1, 2], [2, 1]]


def test_a_block_is_a_seed_whose_rates_are_averaged_and_ranked_again():
    ranks = pd.DataFrame(
        [[1, 2, 3], [2, 1, 3], [3, 2, 1], [3, 1, 2]], columns=NAMES, index=lines(2)
    )
    # means 1.5 1.5 3 and 3 1.5 1.5
    assert rank_by_seed(ranks).to_numpy().tolist() == [[1.5, 1.5, 3], [3, 1.5, 1.5]]
    assert rank_by_seed(ranks).index.tolist() == [("digits", 0), ("digits", 1)]


def test_repeating_a_run_at_another_rate_makes_nothing_more_certain():
    one = pd.DataFrame(
        np.random.default_rng(0).random((6, 3)), columns=NAMES, index=lines(6, (0.1,))
    )
    both = pd.concat([one, one.rename({0.1: 0.02})])
    once, twice = (compare_methods(rank_by_seed(compute_ranks(each))) for each in (one, both))
    assert (once.p, once.difference, once.blocks) == (twice.p, twice.difference, twice.blocks)
    pd.testing.assert_frame_equal(once.pairs, twice.pairs)


@pytest.mark.parametrize(
    ("seeds", "columns"), [(FEWEST_BLOCKS - 1, NAMES), (FEWEST_BLOCKS, ["a", "b"])]
)
def test_too_little_to_rank_is_refused_with_what_to_add(seeds, columns):
    assert not has_enough_blocks(seeds, len(columns)) and has_enough_blocks(FEWEST_BLOCKS, 3)
    with pytest.raises(
        ValueError,
        match=rf"{FEWEST_BLOCKS} seeds and 3 methods.*there are {seeds} and {len(columns)}",
    ):
        compare_methods(rank_by_seed(compute_ranks(gaps(seeds))[columns]))


def test_methods_that_never_differ_are_not_told_apart():
    found = compare_methods(rank_by_seed(compute_ranks(gaps(20, b=1.0, c=1.0))))
    assert found.mean.tolist() == [2, 2, 2] and (found.pairs == 1).all(axis=None) and found.p == 1


def test_nobody_is_told_apart_where_friedmans_test_finds_no_difference():
    ranks = pd.DataFrame(np.random.default_rng(145).random((10, 10))).rank(axis="columns")
    # Nemenyi's alone would tell two apart
    assert posthoc_nemenyi_friedman(ranks).min(axis=None) < 0.02
    found = compare_methods(ranks)
    assert found.p == pytest.approx(0.073, abs=5e-4) and (found.pairs == 1).all(axis=None)


def test_ranks_are_of_methods_alone_in_a_line_for_each_seed_and_rate():
    metrics = pd.concat([tidy(), tidy(rate=0.02)])
    ranks = rank_by_title(add_seed_gaps(metrics, ROWS), ROWS)
    assert ranks.columns.tolist() == ["CF", "SCRUB"]  # not the original, nor what has no oracle
    assert ranks.index.names == ["dataset", "seed", "rate"] and len(ranks) == 6
    # MEASURED: gaps of 5.75, 5.5, 5.5 against 1.25, 0.5, 2.5
    assert ranks["SCRUB"].tolist() == [1] * 6


def test_the_table_has_the_best_first_and_what_each_is_told_apart_from():
    index = lines(10)
    swapped = {"b": np.where(index.get_level_values("rate") == 0.02, 0.5, 2.0)}
    title, frame, _ = make_rank_table(compute_ranks(gaps(10, **swapped)))
    # a: 1 at 10%, 2 at 2%; b: 2 and 1; so both 1.5 by seed. Three methods, 10 seeds: q 2.343 * sqrt(12 / 60) = 1.05
    assert frame.to_dict("records") == [
        {
            "Method": "a",
            "Rank, by seed": "1.50",
            "by seed and rate": "1.50",
            "at 10%": "1.00",
            "at 2%": "2.00",
        }
        | {"told apart from": "c"},
        {
            "Method": "b",
            "Rank, by seed": "1.50",
            "by seed and rate": "1.50",
            "at 10%": "2.00",
            "at 2%": "1.00",
        }
        | {"told apart from": "c"},
        {
            "Method": "c",
            "Rank, by seed": "3.00",
            "by seed and rate": "3.00",
            "at 10%": "3.00",
            "at 2%": "3.00",
        }
        | {"told apart from": "a, b"},
    ]
    assert title == (
        "digits: mean ranks of 3 methods by Avg Gap, n = 10 seeds; Friedman p < 0.001; critical difference 1.05 by seed"
        " (0.74 if all 20 pairs of seed and rate were independent)"
    )


def test_the_blocks_of_several_data_sets_are_pairs():
    ranks = compute_ranks(
        pd.concat([gaps(5), gaps(5).rename(index={"digits": "cells"}, level="dataset")])
    )
    assert (
        ": mean ranks of 3 methods by Avg Gap, n = 10 pairs of data set and seed;"
        in make_rank_table(ranks).title
    )
    (axes,) = rank_diagram(ranks, "b").axes
    assert "n = 10 pairs of data set and seed" in texts(axes)[3]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_the_figure_names_every_method_at_its_rank_and_joins_what_is_not_told_apart():
    drawn = rank_diagram(compute_ranks(gaps(10)), "b")
    (axes,) = drawn.axes
    assert [text.split() for text in texts(axes)[:3]] == [
        ["a", "1.00"],
        ["b", "2.00"],
        ["3.00", "c"],
    ]
    assert texts(axes)[3].split("\n") == [
        "  critical difference 1.05, n = 10 seeds",
        "  Friedman p < 0.001",
    ]
    bars = [tuple(line.get_xdata()) for line in axes.lines if line.get_linewidth() == 2.5]
    assert bars == [(1, 2), (2, 3)]
    noise = pd.DataFrame(
        np.random.default_rng(0).random((10, 3)), columns=NAMES, index=lines(10)[:10]
    )
    assert texts(rank_diagram(compute_ranks(noise), "b").axes[0])[3].endswith(
        ": no significant differences"
    )


def test_the_axis_of_the_figure_has_all_ranks_also_those_that_no_method_reaches():
    ranks = compute_ranks(
        pd.DataFrame(np.random.default_rng(0).random((10, 9)), index=lines(10, (0.1,))).add_prefix(
            "m"
        )
    )
    (axes,) = rank_diagram(ranks, "m0").axes
    low, high = axes.get_xlim()
    (joined,) = [line.get_xdata() for line in axes.lines if line.get_linewidth() == 2.5]
    # in one order, so that the same run gives the same bytes
    assert list(joined) == sorted(rank_by_seed(ranks).mean())
    assert (
        rank_by_seed(ranks).mean().max() < 8
        and low <= 1
        and high >= 9
        and set(axes.get_xticks()) == set(range(1, 10))
    )
