"""The residual share: by hand, in what must not change it, and in how often it is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm, ttest_1samp
from scipy.stats import t as student

from munkey.audits.attacks.residual_share import chance_sd, contrasts, ratio, residual_share
from munkey.audits.evidence import Halves, Pairs, random_halves, sham
from munkey.audits.registry import Refused
from tests.audits.inputs import population

SIMULATIONS = 200
ALLOWED = binom.interval(0.999, SIMULATIONS, 0.05)  # rejections at the 5 % level


def by_hand(gain):
    """Two pairs; pool of 4, of which models 0 and 2 deleted the first two; test margins -1, 0, 1 and so a unit of 1.

    Difficulty 5, -2, 1, 0; model 1 is 10 higher throughout on the pool; what is deleted gains `gain` of its pair. The
    second partners are 1 higher on one sample of each half and 1 lower on the other; they have a unit of 3.
    """
    deleted = np.zeros((4, 7), bool)
    deleted[[0, 2], :2] = deleted[[1, 3], 2:4] = True
    margins = np.tile([5.0, -2, 1, 0, -1, 0, 1], (4, 1))
    margins[1, :4] += 10
    margins[1::2, :4] += [1, -1, 1, -1]
    margins += deleted * np.repeat(gain, 2)[:, None]
    margins[1::2] *= 3
    return Pairs(margins, Halves(deleted, deleted[[1, 0, 3, 2]], np.arange(7) > 3))


def test_a_contrast_is_deleted_less_never_seen_and_neither_difficulty_nor_level_is_in_it():
    np.testing.assert_allclose(contrasts(by_hand([2.0, 3.0])), [2, 3], rtol=1e-12)
    assert residual_share(by_hand([2.0, 3.0])).contrast == pytest.approx(2.5)
    assert residual_share(by_hand([2.0, 3.0])).contrasts == pytest.approx((2, 3))


def test_the_share_is_in_percent_of_the_mean_contrast_of_doing_nothing():
    share = residual_share(replace(by_hand([0.5, 0.0]), nothing=by_hand([2.0, 3.0]))).share
    assert share.value == pytest.approx(10)


def test_halves_of_unequal_size_count_alike():
    deleted = np.zeros((2, 6), bool)
    deleted[0, 0] = deleted[1, 1:3] = True
    margins = np.array([[7.0, 0, 0, -1, 0, 1], [1.0, 2, 4, -1, 0, 1]])
    pairs = Pairs(margins, Halves(deleted, deleted[::-1], np.arange(6) > 2))
    assert contrasts(pairs) == pytest.approx([(6 + (2 + 4) / 2) / 2])


def test_no_bound_holds_where_doing_nothing_cannot_be_told_from_zero():
    share = residual_share(by_hand([2.0, 3.0])).share  # t = 5 with 1 df: p is over 5 %
    assert (share.value, share.low, share.high) == (pytest.approx(100), -np.inf, np.inf)


def test_fiellers_interval_by_hand():
    """Independent means 1 and 4 with variances 1/4 each; t(1) at 97.5 % is 12.706: the quadratic's roots."""
    own, nothing = np.array([0.5, 1.5]), np.array([3.5, 4.5])
    t = 12.706204736
    assert ratio(own, nothing, paired=False).low == -np.inf  # 16 < t² / 4
    own, nothing = own / 10 + 0.9, nothing / 10 + 3.6  # variances 1/400: means 1 and 4 again
    a, b, c = 16 - t**2 / 400, 4.0, 1 - t**2 / 400
    roots = [100 * (b + sign * np.sqrt(b**2 - a * c)) / a for sign in (-1, 1)]
    estimate = ratio(own, nothing, paired=False)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((25, *roots))
    b = 4 - t**2 / 400  # paired, they rise together
    roots = [100 * (b + sign * np.sqrt(b**2 - a * c)) / a for sign in (-1, 1)]
    estimate = ratio(own, nothing, paired=True)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((25, *roots))


def test_of_unequal_numbers_of_pairs_the_fewer_give_the_degrees_of_freedom():
    own, nothing, t = np.array([0.95, 1.05]), np.array([3.95, 4.0, 4.05]), student.ppf(0.975, 1)
    a, b, c = 16 - t**2 * 0.0025 / 3, 4.0, 1 - t**2 * 0.0025
    estimate = ratio(own, nothing, paired=False)
    roots = [100 * (b + sign * np.sqrt(b**2 - a * c)) / a for sign in (-1, 1)]
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((25, *roots))


def test_the_interval_ends_where_a_t_test_of_the_difference_rejects():
    random = np.random.default_rng(0)
    own, nothing = random.normal(0.1, 0.1, 6), random.normal(1, 0.1, 6)
    estimate = ratio(own, nothing, paired=True)
    for end in (estimate.low, estimate.high):
        assert ttest_1samp(own - end / 100 * nothing, 0).pvalue == pytest.approx(0.05)


def test_other_pairs_than_those_of_doing_nothing_count_as_independent():
    pairs = population(6, 0.5, np.random.default_rng(0))
    other = population(6, 0.5, np.random.default_rng(1)).nothing
    apart = residual_share(replace(pairs, nothing=other)).share
    own, nothing = contrasts(pairs), contrasts(other)
    assert apart == ratio(own, nothing, paired=False) != ratio(own, nothing, paired=True)
    fewer = population(3, 0.5, np.random.default_rng(1)).nothing
    assert residual_share(replace(pairs, nothing=fewer)).share == ratio(own, contrasts(fewer), paired=False)


def test_p_values_by_hand():
    """Contrasts 2 and 3 have t = 2.5 / 0.5 with 1 df; within a half, partners' differences, 1 and -1, vary by 2."""
    pairs = by_hand([2.0, 3.0])
    share = residual_share(pairs)
    sd = np.sqrt(2 * 2 * (1 / 2 + 1 / 2)) / 4
    assert chance_sd(pairs) == pytest.approx(sd)
    assert share.p_chance == pytest.approx(2 * norm.sf(2.5 / sd))
    assert share.p_pairs == pytest.approx(2 * student.sf(5, 1))
    assert share.chance == pytest.approx(100 * sd / 2.5)


def test_swapping_the_labels_within_pairs_changes_the_sign():
    pairs = population(4, 0.5, np.random.default_rng(0))
    turned = replace(pairs, halves=Halves(pairs.halves.absent, pairs.halves.deleted, pairs.halves.test))
    np.testing.assert_allclose(contrasts(turned), -contrasts(pairs), rtol=1e-12)
    assert residual_share(turned).share.value == pytest.approx(-residual_share(pairs).share.value)


def test_a_models_units_and_level_do_not_count():
    pairs = population(4, 0.5, np.random.default_rng(0))
    scale, level = np.random.default_rng(1).uniform(0.5, 2, (2, 8, 1))
    np.testing.assert_allclose(contrasts(replace(pairs, margins=scale * pairs.margins + level)), contrasts(pairs))


def test_the_sd_by_chance_is_that_of_contrasts_with_other_halves_of_the_same_pool():
    pairs = population(3, 0.0, np.random.default_rng(0))
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(2000):
        halves = random_halves(pairs.halves.pool, pairs.halves.test, 3, random)
        drawn.append(contrasts(replace(pairs, halves=halves)).mean())
    assert np.std(drawn) == pytest.approx(chance_sd(pairs), rel=0.06)
    assert np.mean(drawn) == pytest.approx(0, abs=4 * np.std(drawn) / np.sqrt(2000))


def test_what_is_left_does_not_count_as_luck():
    """The same for every sample, it widens the differences of the pool, but not within a half."""
    nothing, all_left = (population(3, left, np.random.default_rng(0), effect=5.0, spread=0.0) for left in (0.0, 1.0))
    assert chance_sd(all_left) == pytest.approx(chance_sd(nothing))


def test_partners_that_are_one_model_are_refused():
    pairs = population(2, 0.5, np.random.default_rng(0))
    pairs.margins[1] = pairs.margins[0]
    with pytest.raises(ValueError, match="one model"):
        residual_share(pairs)


def test_one_pair_is_refused():
    refused = residual_share(population(1, 0.5, np.random.default_rng(0)))
    assert isinstance(refused, Refused) and "2 pairs" in refused.why


def test_where_nothing_is_left_the_share_is_rejected_at_its_level():
    random = np.random.default_rng(0)
    shares = [residual_share(population(6, 0.0, random)) for _ in range(SIMULATIONS)]
    for rejected in (
        sum(share.p_chance < 0.05 for share in shares),
        sum(share.p_pairs < 0.05 for share in shares),
        sum(not share.share.low <= 0 <= share.share.high for share in shares),
    ):
        assert ALLOWED[0] <= rejected <= ALLOWED[1]


def test_a_sham_is_rejected_at_its_level_though_all_was_left():
    random = np.random.default_rng(0)
    shares = [residual_share(sham(population(4, 1.0, random), random)) for _ in range(SIMULATIONS)]
    for rejected in (sum(share.p_chance < 0.05 for share in shares), sum(share.p_pairs < 0.05 for share in shares)):
        assert ALLOWED[0] <= rejected <= ALLOWED[1]


@pytest.mark.parametrize("left", [0.04, 0.86, -0.4])
@pytest.mark.parametrize("pairs", [4, 8])
def test_the_interval_covers_the_truth_at_its_level(pairs, left):
    random = np.random.default_rng(0)
    truth = 100 * left * np.sqrt(5 / 5.09)  # unlearning adds noise to the unit: variance 4 + 1, and 0.09 more
    shares = [residual_share(population(pairs, left, random, spread=0.3)).share for _ in range(SIMULATIONS)]
    missed = sum(not share.low <= truth <= share.high for share in shares)
    assert missed <= ALLOWED[1]
    assert all(np.isfinite([share.low, share.high]).all() for share in shares)
