"""AUROC and true-positive rates: by hand, with ties, and against the metric's and scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from munkey.audits.registry import Estimate, Refused
from munkey.audits.roc import Ranking, Rates, redraw, with_intervals
from munkey.evaluation.metrics import auroc


def test_scores_that_rounding_parts_tie():
    rates = Ranking(np.array([1.0, 1 + 4e-6]), np.array([1.0, 1 - 4e-6])).rates()
    assert rates == Rates(50, 0, 0)
    assert Ranking(np.array([1 + 2e-5]), np.array([1.0])).rates().auroc == 100


@pytest.mark.parametrize("decimals", [1, 9])
def test_auroc_is_that_of_others(decimals):
    random = np.random.default_rng(0)
    positives, negatives = random.normal(0.3, 1, 200).round(decimals), random.normal(0, 1, 300).round(decimals)
    found = Ranking(positives, negatives).rates().auroc
    assert found == pytest.approx(100 * auroc(positives, negatives), abs=1e-2)
    truth = np.repeat([1, 0], [200, 300])
    assert found == pytest.approx(100 * roc_auc_score(truth, np.concatenate([positives, negatives])), abs=1e-2)


def test_true_positives_are_counted_where_false_ones_are_at_most_so_many():
    """With one false alarm, positives above 0.73 are found: 3 of 10; with five, those above 0.55: 5 of 10."""
    negatives = np.concatenate([[0.905, 0.7, 0.71, 0.72, 0.73, 0.55], np.full(94, -1.0)])
    rates = Ranking(np.arange(1, 11) / 10, negatives).rates()
    assert (rates.tpr_1, rates.tpr_5) == pytest.approx((30, 50))


def test_a_tie_over_the_limit_counts_for_neither():
    negatives = np.concatenate([[1.0, 1.0], np.zeros(98)])
    assert Ranking(np.array([2.0, 1.0, 1.0, 0.5]), negatives).rates().tpr_1 == pytest.approx(25)


def test_weights_count_like_copies():
    random = np.random.default_rng(0)
    positives, negatives = random.normal(size=(2, 3)), random.normal(size=(4, 2))
    often, seldom = random.integers(1, 4, (2, 3)), random.integers(0, 3, (4, 2))
    copies = Ranking(np.repeat(positives, often.ravel()), np.repeat(negatives, seldom.ravel()))
    assert Ranking(positives, negatives).rates(often, seldom) == copies.rates()


def test_scores_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        Ranking(np.array([np.nan]), np.array([1.0]))


@pytest.mark.parametrize(("negatives", "one", "five"), [(99, False, True), (100, True, True), (19, False, False)])
def test_a_rate_at_a_false_positive_rate_that_so_few_negatives_cannot_show_is_refused(negatives, one, five):
    found = with_intervals(Rates(50, 1, 5), lambda: Rates(50, 1, 5), negatives)
    for rate, given, percent in ((found.tpr_1, one, 1), (found.tpr_5, five, 5)):
        assert isinstance(rate, Estimate if given else Refused)
        if not given:
            assert rate.why == f"{percent} % of {negatives} negatives is less than one: {100 // percent} are needed"


def test_the_interval_is_of_percentiles():
    drawn = iter(range(101))
    found = with_intervals(Rates(7, 1, 5), lambda: Rates(next(drawn), 0, 0), 100, p=0.2, draws=101)
    assert found.auroc == Estimate(7, 2.5, 97.5) and found.p == 0.2


def test_a_bootstrap_sample_is_as_large_as_what_it_is_drawn_from():
    counts = redraw(1000, np.random.default_rng(0))
    assert counts.sum() == 1000 and np.mean(counts == 0) == pytest.approx(np.exp(-1), abs=0.04)
