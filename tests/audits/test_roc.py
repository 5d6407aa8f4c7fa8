"""AUROC and true-positive rates: by hand, with ties, and against the metric's and scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from munkey.audits.evidence import Roles, split_by_role
from munkey.audits.registry import Estimate, NoFinding
from munkey.audits.roc import (
    Ranking,
    Rates,
    attack_pairs,
    bootstrap_intervals,
    make_rate_statistics,
    redraw,
)
from munkey.evaluation.metrics import compute_auroc
from tests.audits.inputs import population


def test_scores_that_differ_by_rounding_tie():
    rates = Ranking(np.array([1.0, 1 + 4e-6]), np.array([1.0, 1 - 4e-6])).compute_rates()
    assert rates == Rates(50, 0, 0)
    assert Ranking(np.array([1 + 2e-5]), np.array([1.0])).compute_rates().auroc == 100


@pytest.mark.parametrize("decimals", [1, 9])
def test_auroc_is_that_of_the_metric_and_of_scikit_learn(decimals):
    random = np.random.default_rng(0)
    positives = random.normal(0.3, 1, 200).round(decimals)
    negatives = random.normal(0, 1, 300).round(decimals)
    auroc = Ranking(positives, negatives).compute_rates().auroc
    assert auroc == pytest.approx(100 * compute_auroc(positives, negatives), abs=1e-2)
    truth = np.repeat([1, 0], [200, 300])
    assert auroc == pytest.approx(
        100 * roc_auc_score(truth, np.concatenate([positives, negatives])), abs=1e-2
    )


def test_true_positive_rates_are_those_at_1_and_5_percent_false_positives():
    """With one false alarm, positives above 0.73 are found: 3 of 10; with five, those above 0.55: 5 of 10."""
    negatives = np.concatenate([[0.905, 0.7, 0.71, 0.72, 0.73, 0.55], np.full(94, -1.0)])
    rates = Ranking(np.arange(1, 11) / 10, negatives).compute_rates()
    assert (rates.tpr_1, rates.tpr_5) == pytest.approx((30, 50))


def test_scores_that_tie_over_the_limit_count_for_neither():
    negatives = np.concatenate([[1.0, 1.0], np.zeros(98)])
    assert Ranking(
        np.array([2.0, 1.0, 1.0, 0.5]), negatives
    ).compute_rates().tpr_1 == pytest.approx(25)


def test_weights_count_as_copies():
    random = np.random.default_rng(0)
    positives = random.normal(size=(2, 3))
    negatives = random.normal(size=(4, 2))
    often = random.integers(1, 4, (2, 3))
    seldom = random.integers(0, 3, (4, 2))
    copies = Ranking(np.repeat(positives, often.ravel()), np.repeat(negatives, seldom.ravel()))
    assert Ranking(positives, negatives).compute_rates(often, seldom) == copies.compute_rates()


def test_scores_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        Ranking(np.array([np.nan]), np.array([1.0]))


@pytest.mark.parametrize(
    ("negatives", "one", "five"), [(99, False, True), (100, True, True), (19, False, False)]
)
def test_a_true_positive_rate_is_refused_if_there_are_too_few_negatives(negatives, one, five):
    attack = bootstrap_intervals(Rates(50, 1, 5), lambda: Rates(50, 1, 5), negatives)
    for rate, is_estimated, percent in ((attack.tpr_1, one, 1), (attack.tpr_5, five, 5)):
        assert isinstance(rate, Estimate if is_estimated else NoFinding)
        if not is_estimated:
            assert f"{percent}% of {negatives}" in rate.why
            assert f"{100 // percent} are needed" in rate.why


def test_the_interval_has_the_percentiles_of_the_bootstrap():
    drawn = iter(range(101))
    attack = bootstrap_intervals(Rates(7, 1, 5), lambda: Rates(next(drawn), 0, 0), 100, draws=101)
    assert attack.auroc == Estimate(7, 2.5, 97.5)


def test_a_bootstrap_sample_is_as_large_as_the_original_sample():
    counts = redraw(1000, np.random.default_rng(0))
    assert counts.sum() == 1000
    assert np.mean(counts == 0) == pytest.approx(np.exp(-1), abs=0.04)


def test_an_attack_pools_the_scores_of_all_models():
    pairs = population(5, 1.0, np.random.default_rng(0))
    deleted, absent = split_by_role(pairs.scores, pairs.halves.first)
    attack = attack_pairs(
        lambda first: split_by_role(pairs.scores, first), pairs, np.random.default_rng(0)
    )
    every = deleted.reshape(-1, 1), absent.reshape(1, -1)
    wins = (np.greater(*every).mean() + np.greater_equal(*every).mean()) / 2
    assert attack.auroc.value == pytest.approx(100 * wins, abs=0.01)
    assert attack.auroc.low < attack.auroc.value < attack.auroc.high
    assert isinstance(attack.tpr_1, Estimate)


@pytest.mark.parametrize("decimals", [1, 9])
def test_the_statistics_are_the_rates_of_the_attack(decimals):
    pairs = population(5, 0.0, np.random.default_rng(0))
    drawn = Roles(
        *np.random.default_rng(1).normal([[[0.0]], [[0.4]]], size=(2, 5, 120)).round(decimals)
    )
    rates = Ranking(*drawn).compute_rates()
    statistics = make_rate_statistics("mine", lambda _: drawn, pairs)(pairs.halves.first)
    assert rates.auroc < 45
    assert rates.tpr_1 > 0
    assert statistics["mine_auroc"] == pytest.approx(abs(rates.auroc - 50) / 100)
    assert statistics["mine_tpr_1"] == pytest.approx(rates.tpr_1 / 100)
    few = Roles(drawn.deleted[:, :19], drawn.absent[:, :19])
    of_95_negatives = make_rate_statistics("mine", lambda _: few, pairs)(pairs.halves.first)
    assert of_95_negatives.keys() == {"mine_auroc"}


def test_the_bootstrap_draws_pairs_and_examples():
    """One pair tells all, the others nothing: its weight moves the interval far more than examples do."""
    pairs = population(5, 0.0, np.random.default_rng(0))
    scores = [Roles(*np.random.default_rng(0).normal(size=(2, 5, 120)))]
    scores[0].deleted[0] += 100
    of_pairs = attack_pairs(lambda _: scores[0], pairs, np.random.default_rng(0)).auroc
    assert of_pairs.high - of_pairs.low > 15
    few = Roles(*np.random.default_rng(0).normal(size=(2, 5, 120)))
    few.deleted[:, :3] += 100  # three examples that all pairs agree on
    few.deleted[:, 3:] = few.absent[:, 3:]
    of_examples = attack_pairs(lambda _: few, pairs, np.random.default_rng(0)).auroc
    assert of_examples.high - of_examples.low > 1.5
