"""Ranks, critical differences and the tests over seeds: by hand, and Demšar's published example."""

import math

import numpy as np
import pandas as pd
import pytest
from scikit_posthocs import posthoc_nemenyi_friedman

from munkey.report.figures.ranks import rank_diagram
from munkey.report.tables.ranks import (
    FEWEST_BLOCKS,
    compare_methods,
    compute_critical_difference,
    compute_ranks,
    has_enough_blocks,
    make_rank_table,
    rank_by_seed,
    rank_by_title,
)
from munkey.report.tables.summary import add_seed_gaps
from tests.report.designs import gap_index, gaps
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


def test_the_example_of_demsar_has_its_published_ranks_and_critical_difference():
    comparison = compare_methods(compute_ranks(-DEMSAR))
    assert comparison.mean.round(3).to_dict() == {
        "C4.5+m+cf": 1.964,
        "C4.5+m": 2.000,
        "C4.5+cf": 2.893,
        "C4.5": 3.143,
    }
    assert comparison.blocks == 14
    assert round(comparison.difference, 2) == 1.25
    assert (comparison.pairs >= 0.05).all(axis=None)  # 3.143 - 1.964 = 1.18 is less than 1.25
    # Friedman's statistic is 9.28 there; dividing by 1 - 78 / (14 * 4 * 15) corrects for the ties
    statistic = 9.28 / (1 - 78 / 840)
    tail = math.erfc(math.sqrt(statistic / 2))
    tail += math.sqrt(2 * statistic / math.pi) * math.exp(-statistic / 2)
    assert comparison.p == pytest.approx(tail, rel=0.01)


def test_critical_differences_are_those_of_published_tables():
    # q at 5%, from Demšar's table 5, for 2, 5 and 10 methods
    for methods, q in {2: 1.960, 5: 2.728, 10: 3.164}.items():
        published = q * math.sqrt(methods * (methods + 1) / 60)
        assert compute_critical_difference(methods, 10) == pytest.approx(published, rel=1e-3)


def test_equal_gaps_share_a_rank_also_if_rounding_differs():
    ranks = compute_ranks(pd.DataFrame({"a": [1.0, 5.0], "b": [0.1 + 0.2, 2.0], "c": [0.3, 2.0]}))
    assert ranks.to_numpy().tolist() == [[3, 1.5, 1.5], [3, 1.5, 1.5]]


def test_a_method_that_lacks_a_gap_is_left_out():
    ranks = compute_ranks(pd.DataFrame({"a": [1.0, 5.0], "b": [0.5, math.nan], "c": [2.0, 2.0]}))
    assert ranks.columns.tolist() == ["a", "c"]
    assert ranks.to_numpy().tolist() == [[1, 2], [2, 1]]


def test_a_block_is_a_seed_whose_rates_are_averaged_and_ranked_again():
    ranks = pd.DataFrame(
        [[1, 2, 3], [2, 1, 3], [3, 2, 1], [3, 1, 2]], columns=NAMES, index=gap_index(2)
    )
    # means 1.5 1.5 3 and 3 1.5 1.5
    assert rank_by_seed(ranks).to_numpy().tolist() == [[1.5, 1.5, 3], [3, 1.5, 1.5]]
    assert rank_by_seed(ranks).index.tolist() == [("digits", 0), ("digits", 1)]


def test_a_repetition_at_another_rate_changes_no_comparison():
    random_gaps = np.random.default_rng(0).random((6, 3))
    single = pd.DataFrame(random_gaps, columns=NAMES, index=gap_index(6, (0.1,)))
    repeated = pd.concat([single, single.rename({0.1: 0.02})])
    once = compare_methods(rank_by_seed(compute_ranks(single)))
    twice = compare_methods(rank_by_seed(compute_ranks(repeated)))
    assert (once.p, once.difference, once.blocks) == (twice.p, twice.difference, twice.blocks)
    pd.testing.assert_frame_equal(once.pairs, twice.pairs)


@pytest.mark.parametrize(
    ("seeds", "columns"), [(FEWEST_BLOCKS - 1, NAMES), (FEWEST_BLOCKS, ["a", "b"])]
)
def test_too_few_seeds_or_methods_are_refused_with_the_numbers_needed(seeds, columns):
    assert not has_enough_blocks(seeds, len(columns))
    assert has_enough_blocks(FEWEST_BLOCKS, 3)
    ranks = rank_by_seed(compute_ranks(gaps(seeds))[columns])
    numbers = rf"{FEWEST_BLOCKS} seeds and 3 methods.* {seeds} and {len(columns)}"
    with pytest.raises(ValueError, match=numbers):
        compare_methods(ranks)


def test_methods_with_equal_gaps_have_equal_ranks_and_do_not_differ():
    comparison = compare_methods(rank_by_seed(compute_ranks(gaps(20, b=1.0, c=1.0))))
    assert comparison.mean.tolist() == [2, 2, 2]
    assert (comparison.pairs == 1).all(axis=None)
    assert comparison.p == 1


def test_no_methods_differ_if_friedmans_test_finds_no_difference():
    ranks = pd.DataFrame(np.random.default_rng(145).random((10, 10))).rank(axis="columns")
    # Nemenyi's test alone would find a difference
    assert posthoc_nemenyi_friedman(ranks).min(axis=None) < 0.02
    comparison = compare_methods(ranks)
    assert comparison.p == pytest.approx(0.073, abs=5e-4)
    assert (comparison.pairs == 1).all(axis=None)


def test_methods_alone_are_ranked_for_each_seed_and_rate():
    metrics = pd.concat([tidy(), tidy(rate=0.02)])
    ranks = rank_by_title(add_seed_gaps(metrics, ROWS), ROWS)
    assert ranks.columns.tolist() == ["CF", "SCRUB"]  # not the original, nor what has no oracle
    assert ranks.index.names == ["dataset", "seed", "rate"]
    assert len(ranks) == 6
    # MEASURED: gaps of 5.75, 5.5, 5.5 against 1.25, 0.5, 2.5
    assert ranks["SCRUB"].tolist() == [1] * 6


def test_the_table_of_ranks_has_the_best_first_and_the_methods_that_each_differs_from():
    rates = gap_index(10).get_level_values("rate")
    ranks = compute_ranks(gaps(10, b=np.where(rates == 0.02, 0.5, 2.0)))
    title, frame, _ = make_rank_table(ranks)
    # a: 1 at 10%, 2 at 2%; b: 2 and 1; so both 1.5 by seed
    assert list(frame) == [
        *("Method", "Rank, by seed", "by seed and rate", "at 10%", "at 2%", "told apart from"),
    ]
    assert frame.to_numpy().tolist() == [
        ["a", "1.50", "1.50", "1.00", "2.00", "c"],
        ["b", "1.50", "1.50", "2.00", "1.00", "c"],
        ["c", "3.00", "3.00", "3.00", "3.00", "a, b"],
    ]
    # three methods, 10 seeds: q 2.343 * sqrt(12 / 60) = 1.05; 20 pairs: 2.343 * sqrt(12 / 120) = 0.74
    for part in ("digits", "3 methods", "n = 10 seeds", "p < 0.001", "1.05", "0.74", "20 pairs"):
        assert part in title


def test_the_blocks_of_several_data_sets_are_pairs_of_data_set_and_seed():
    cells = gaps(5).rename(index={"digits": "cells"}, level="dataset")
    ranks = compute_ranks(pd.concat([gaps(5), cells]))
    assert "n = 10 pairs of data set and seed" in make_rank_table(ranks).title
    (axes,) = rank_diagram(ranks, "b").axes
    assert "n = 10 pairs of data set and seed" in texts(axes)[3]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def list_bars(axes):
    """The ends of the bars that join methods."""
    return [line.get_xdata() for line in axes.lines if line.get_linewidth() == 2.5]


def test_the_figure_names_every_method_at_its_rank_and_joins_those_that_do_not_differ():
    (axes,) = rank_diagram(compute_ranks(gaps(10)), "b").axes
    *methods, legend = (text.split() for text in texts(axes)[:4])
    assert methods == [["a", "1.00"], ["b", "2.00"], ["3.00", "c"]]
    for part in ("1.05,", "10", "0.001"):
        assert part in legend
    assert [tuple(ends) for ends in list_bars(axes)] == [(1, 2), (2, 3)]


def test_the_rank_diagram_of_random_ranks_has_no_significant_difference():
    noise = np.random.default_rng(0).random((10, 3))
    ranks = compute_ranks(pd.DataFrame(noise, columns=NAMES, index=gap_index(10)[:10]))
    (axes,) = rank_diagram(ranks, "b").axes
    assert texts(axes)[3].endswith("no significant differences")


def test_the_rank_diagram_has_every_rank_on_its_axis():
    noise = np.random.default_rng(0).random((10, 9))
    ranks = compute_ranks(pd.DataFrame(noise, index=gap_index(10, (0.1,))).add_prefix("m"))
    (axes,) = rank_diagram(ranks, "m0").axes
    (ends,) = list_bars(axes)
    # in one order, so that the same run gives the same bytes
    assert list(ends) == sorted(rank_by_seed(ranks).mean())
    assert rank_by_seed(ranks).mean().max() < 8  # no method has the last ranks
    low, high = axes.get_xlim()
    assert low <= 1
    assert high >= 9
    assert set(axes.get_xticks()) == set(range(1, 10))
