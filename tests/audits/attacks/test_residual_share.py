"""The residual share: by hand, in what must not change it, and in how often it is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm, ttest_1samp
from scipy.stats import t as student

from munkey.audits.attacks.residual_share import (
    compute_contrasts,
    compute_differences,
    estimate_chance_sd,
    estimate_ratio,
    make_statistics,
    residual_share,
)
from munkey.audits.evidence import Halves, draw_halves, draw_sham_pairs
from munkey.audits.registry import NoFinding
from tests.audits.inputs import population

SIMULATIONS = 200
ALLOWED = binom.interval(0.999, SIMULATIONS, 0.05)  # rejections at the 5% level


FIRST = np.array([[True, True, False, False]] * 2)


def by_hand(gain):
    """Scores of two pairs: difficulty 5, -2, 1, 0; model 1 is 10 higher; what is deleted gains `gain` of its pair.

    The second partners are 1 higher on one sample of each half and 1 lower on the other.
    """
    scores = np.tile([5.0, -2, 1, 0], (4, 1))
    scores[1] += 10
    scores[1::2] += [1, -1, 1, -1]
    return scores + np.repeat(gain, 2)[:, None] * np.stack([FIRST, ~FIRST], axis=1).reshape(4, 4)


def contrasts_of(pairs):
    return compute_contrasts(
        compute_differences(pairs.scores, pairs.halves.first), pairs.halves.first
    )


def test_a_contrast_is_deleted_minus_never_seen_without_difficulty_and_level():
    np.testing.assert_allclose(
        compute_contrasts(compute_differences(by_hand([2.0, 3.0]), FIRST), FIRST),
        [2, 3],
        rtol=1e-12,
    )


def test_the_share_is_in_percent_of_the_mean_contrast_of_doing_nothing():
    pairs = population(4, 0.5, np.random.default_rng(0))
    result = residual_share(pairs)
    assert result.contrasts == pytest.approx(contrasts_of(pairs))
    assert result.contrast == pytest.approx(contrasts_of(pairs).mean())
    assert result.share.value == pytest.approx(
        100 * contrasts_of(pairs).mean() / contrasts_of(pairs.nothing).mean()
    )
    test = pairs.halves.test
    spread = pairs.margins[:, test].std(axis=1, ddof=1).mean()
    assert result.unit == pytest.approx(
        spread / pairs.nothing.margins[:, test].std(axis=1, ddof=1).mean()
    )


def test_the_share_of_doing_nothing_is_100_even_where_many_answers_tie():
    pairs = population(4, 0.5, np.random.default_rng(0)).nothing
    tied = replace(pairs, margins=pairs.margins.round(1))
    share = residual_share(tied).share
    assert (share.value, share.low, share.high) == pytest.approx((100, 100, 100), abs=1e-9)


def test_halves_of_unequal_size_have_equal_weight():
    first = np.array([[True, False, False]])
    assert compute_contrasts(np.array([[6.0, 2, 4]]), first) == pytest.approx(
        [(6 + (2 + 4) / 2) / 2]
    )


def test_no_bound_holds_where_doing_nothing_cannot_be_told_from_zero():
    # t = 5 with 1 df: p is over 5%
    share = estimate_ratio(np.array([2.0, 3.0]), np.array([2.0, 3.0]), paired=True)
    assert (share.value, share.low, share.high) == (pytest.approx(100), -np.inf, np.inf)


def test_the_share_is_0_where_partners_answer_alike_to_the_bit():
    pairs = population(4, 0.0, np.random.default_rng(0))
    exact = replace(pairs, margins=np.repeat(pairs.margins[::2], 2, axis=0))
    result = residual_share(exact)
    assert (result.contrast, result.chance, result.p_pairs) == (0, 0, 1)
    assert (result.share.value, result.share.low, result.share.high) == (0, 0, 0)
    assert "even without deletion" in residual_share(replace(exact, nothing=None)).why


def assert_estimate(estimate, a, b, c):
    """The estimate is 25%, and its interval ends at the roots of a x^2 - 2 b x + c."""
    root = np.sqrt(b**2 - a * c)
    assert estimate.value == pytest.approx(25)
    assert estimate.low == pytest.approx(100 * (b - root) / a)
    assert estimate.high == pytest.approx(100 * (b + root) / a)


def test_fiellers_interval_by_hand():
    """Independent means 1 and 4 with variances 1/4 each; t(1) at 97.5% is 12.706: the quadratic's roots."""
    contrasts = np.array([0.5, 1.5])
    nothing = np.array([3.5, 4.5])
    t = 12.706204736
    assert estimate_ratio(contrasts, nothing, paired=False).low == -np.inf  # 16 < t² / 4
    contrasts = contrasts / 10 + 0.9
    nothing = nothing / 10 + 3.6  # variances 1/400: means 1 and 4 again
    a = 16 - t**2 / 400
    b = 4.0
    c = 1 - t**2 / 400
    assert_estimate(estimate_ratio(contrasts, nothing, paired=False), a, b, c)
    b = 4 - t**2 / 400  # paired, they rise together
    assert_estimate(estimate_ratio(contrasts, nothing, paired=True), a, b, c)


def test_the_smaller_number_of_pairs_gives_the_degrees_of_freedom():
    contrasts = np.array([0.95, 1.05])
    nothing = np.array([3.95, 4.0, 4.05])
    t = student.ppf(0.975, 1)
    a = 16 - t**2 * 0.0025 / 3
    b = 4.0
    c = 1 - t**2 * 0.0025
    assert_estimate(estimate_ratio(contrasts, nothing, paired=False), a, b, c)


def test_the_variance_over_samples_is_added_to_that_over_pairs():
    """Fieller with t² / n of the pairs, and z² of the samples."""
    contrasts = np.array([0.95, 1.05])
    nothing = np.array([3.95, 4.05])
    t = student.ppf(0.975, 1)
    z = norm.ppf(0.975)
    a = 16 - t**2 * 0.0025 - z**2 * 0.04
    b = 4 - t**2 * 0.0025 - z**2 * 0.02
    c = 1 - t**2 * 0.0025 - z**2 * 0.03
    estimate = estimate_ratio(
        contrasts, nothing, paired=True, over_samples=np.array([[0.03, 0.02], [0.02, 0.04]])
    )
    assert_estimate(estimate, a, b, c)


def test_the_interval_ends_where_a_t_test_of_the_difference_rejects():
    random = np.random.default_rng(0)
    contrasts = random.normal(0.1, 0.1, 6)
    nothing = random.normal(1, 0.1, 6)
    estimate = estimate_ratio(contrasts, nothing, paired=True)
    for end in (estimate.low, estimate.high):
        assert ttest_1samp(contrasts - end / 100 * nothing, 0).pvalue == pytest.approx(0.05)


def test_doing_nothing_with_other_pairs_counts_as_independent():
    pairs = population(6, 0.5, np.random.default_rng(0))
    other = population(6, 0.5, np.random.default_rng(1)).nothing
    apart = residual_share(replace(pairs, nothing=other)).share
    contrasts = contrasts_of(pairs)
    assert apart == estimate_ratio(contrasts, contrasts_of(other), paired=False)
    assert apart != estimate_ratio(contrasts, contrasts_of(other), paired=True)
    fewer = population(3, 0.5, np.random.default_rng(1)).nothing
    with_fewer = residual_share(replace(pairs, nothing=fewer)).share
    assert with_fewer == estimate_ratio(contrasts, contrasts_of(fewer), paired=False)


def test_p_of_pairs_and_chance_by_hand():
    pairs = population(3, 0.5, np.random.default_rng(0))
    share = residual_share(pairs)
    variances = 0.0
    for differences, half in zip(pairs.differences, pairs.halves.first, strict=True):
        for part in (differences[half], differences[~half]):
            variances += part.var(ddof=1) / len(part)
    assert estimate_chance_sd(pairs) == pytest.approx(np.sqrt(variances) / 6)
    assert share.p_pairs == pytest.approx(ttest_1samp(contrasts_of(pairs), 0).pvalue)
    assert share.chance == pytest.approx(
        100 * estimate_chance_sd(pairs) / contrasts_of(pairs.nothing).mean()
    )


def test_swapping_the_labels_within_pairs_changes_the_sign():
    pairs = population(4, 0.5, np.random.default_rng(0))
    turned = replace(
        pairs, halves=Halves(pairs.halves.absent, pairs.halves.deleted, pairs.halves.test)
    )
    np.testing.assert_allclose(contrasts_of(turned), -contrasts_of(pairs), rtol=1e-12)
    assert residual_share(turned).share.value == pytest.approx(-residual_share(pairs).share.value)


def test_the_sd_by_chance_is_that_of_contrasts_with_other_halves_of_the_same_pool():
    pairs = population(3, 0.0, np.random.default_rng(0))
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(2000):
        halves = draw_halves(pairs.halves.pool, pairs.halves.test, 3, random)
        drawn.append(
            compute_contrasts(compute_differences(pairs.scores, halves.first), halves.first).mean()
        )
    assert np.std(drawn) == pytest.approx(estimate_chance_sd(pairs), rel=0.06)
    assert np.mean(drawn) == pytest.approx(0, abs=4 * np.std(drawn) / np.sqrt(2000))


def test_the_sd_by_chance_does_not_grow_with_the_share_that_is_left():
    """It widens the differences of the pool three times, but hardly those within a half."""
    nothing = population(3, 0.0, np.random.default_rng(0), effect=5.0, spread=0.0)
    all_left = population(3, 1.0, np.random.default_rng(0), effect=5.0, spread=0.0)
    assert estimate_chance_sd(all_left) < 1.3 * estimate_chance_sd(nothing)
    assert all_left.differences.std() > 2 * nothing.differences.std()


def test_the_statistic_is_the_absolute_contrast():
    for remaining in (0.5, -0.5):
        pairs = population(4, remaining, np.random.default_rng(0))
        assert make_statistics(pairs)(pairs.halves.first)["share"] == pytest.approx(
            abs(contrasts_of(pairs).mean())
        )


def test_one_pair_is_refused():
    refused = residual_share(population(1, 0.5, np.random.default_rng(0)))
    assert isinstance(refused, NoFinding)
    assert "2 pairs" in refused.why


def test_the_share_is_rejected_at_its_level_where_nothing_is_left():
    random = np.random.default_rng(0)
    by_p = 0
    by_interval = 0
    for _ in range(SIMULATIONS):
        result = residual_share(population(6, 0.0, random))
        by_p += result.p_pairs < 0.05
        by_interval += not result.share.low <= 0 <= result.share.high
    assert ALLOWED[0] <= by_p <= ALLOWED[1]
    assert ALLOWED[0] <= by_interval <= ALLOWED[1]


def test_a_sham_is_rejected_at_its_level_although_everything_is_left():
    random = np.random.default_rng(0)
    rejections = 0
    for _ in range(SIMULATIONS):
        sham = draw_sham_pairs(population(4, 1.0, random), random)
        rejections += residual_share(sham).p_pairs < 0.05
    assert ALLOWED[0] <= rejections <= ALLOWED[1]


@pytest.mark.parametrize("remaining", [0.04, 0.86, -0.4])
@pytest.mark.parametrize("pairs", [4, 8])
def test_the_interval_covers_the_truth_at_its_level(pairs, remaining):
    random = np.random.default_rng(0)

    def draw_share(pairs):
        return residual_share(population(pairs, remaining, random, spread=0.3)).share

    # not quite `remaining`: unlearning adds noise, and ranks end at the last test sample
    truth = np.mean([draw_share(40).value for _ in range(20)])
    assert truth == pytest.approx(100 * remaining, abs=6)
    missed = 0
    for _ in range(SIMULATIONS):
        share = draw_share(pairs)
        assert np.isfinite([share.low, share.high]).all()
        missed += not share.low <= truth <= share.high
    assert missed <= ALLOWED[1]
