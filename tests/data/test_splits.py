"""Splits that a data set lacks are fixed, and shares are rounded by largest remainder."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medmnist import INFO

from munkey.data.sizes import SIZES
from munkey.data.splits import apportion, require_published_sizes, split_by_class, split_held_out


def test_held_out_samples_are_split_40_to_60_the_same_every_time():
    first = split_held_out("cifar10", 10_000)
    assert ((first == "val").sum(), (first == "test").sum()) == (4_000, 6_000)
    np.testing.assert_array_equal(first, split_held_out("cifar10", 10_000))
    assert (split_held_out("pathmnist", 10_004, 4_000) == "test").sum() == 6_004


def test_the_sizes_of_known_data_sets_are_those_of_what_is_downloaded_and_held_out():
    counts = {
        "cifar10": 60_000,
        "cifar100": 60_000,
        "cifar20": 60_000,
        "tinyimagenet": 110_000,
        "digits": 1_797,
    }
    published = {
        name: dict(INFO[name]["n_samples"]) for name in ("bloodmnist", "dermamnist", "pathmnist")
    }
    del published["pathmnist"]["test"]  # not used: what is held out is its val split
    counts |= {name: sum(sizes.values()) for name, sizes in published.items()}
    assert {name: size.images for name, size in SIZES.items()} == counts


# 1.2 and 1.6 of the first two
@pytest.mark.parametrize(("count", "val"), [(3, 1), (4, 2), (20_000, 8_000)])
def test_the_share_of_val_is_rounded_to_the_nearest(count, val):
    assert (split_held_out("cifar10", count) == "val").sum() == val


LABELS = np.arange(300) % 3


def test_classes_are_split_by_their_shares_at_random_the_same_every_time():
    splits = split_by_class("pets", LABELS, [0.6, 0.15, 0.25])
    for label in range(3):
        members = splits[label == LABELS]
        assert [(members == split).sum() for split in ("train", "val", "test")] == [60, 15, 25]
        assert len(set(members[:60])) == 3  # not the first 60 of the class
    np.testing.assert_array_equal(splits, split_by_class("pets", LABELS, [0.6, 0.15, 0.25]))


@pytest.mark.parametrize(
    "split",
    [split_held_out, lambda name, count: split_by_class(name, LABELS[:count], [0.6, 0.15, 0.25])],
)
def test_two_data_sets_have_different_splits(split):
    assert (split("pets", 300) != split("plants", 300)).any()


def test_wrong_counts_are_refused():
    with pytest.raises(ValueError, match=r"should have .*'train': 7007.* have .*'train': 3"):
        require_published_sizes("dermamnist", np.array(["train"] * 3))


@pytest.mark.parametrize(
    ("sizes", "count", "shares"),
    [
        ([50, 30, 20], 10, [5, 3, 2]),  # exact
        ([7, 2, 1], 4, [3, 1, 0]),  # quotas 2.8, 0.8, 0.4
        ([5, 3, 2], 5, [3, 1, 1]),  # quotas 2.5, 1.5, 1.0: the tie goes to the lower class
        ([10, 10, 10], 4, [2, 1, 1]),
        ([1113, 223, 6], 134, [111, 22, 1]),  # quotas 111.13, 22.27, 0.60
    ],
)
def test_classes_share_by_largest_remainder(sizes, count, shares):
    assert apportion(np.array(sizes), count).tolist() == shares


def test_the_first_of_many_classes_with_equal_remainders_get_one_more():
    sizes = np.array([10, 30] * 20)
    assert apportion(sizes, 90).tolist() == [1, 4] * 10 + [1, 3] * 10  # quotas 1.125 and 3.375


@given(st.lists(st.integers(1, 10**5), min_size=1, max_size=30), st.data())
def test_shares_add_up_and_lie_within_one_of_proportional(sizes, data):
    count = data.draw(st.integers(0, sum(sizes)))
    shares = apportion(np.array(sizes), count)
    assert shares.sum() == count
    assert (shares >= 0).all()
    assert (shares <= sizes).all()
    assert (np.abs(shares - count * np.array(sizes) / sum(sizes)) < 1).all()
