"""Forget sets have an exact size, follow the sizes of the classes, and depend on their seed alone."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from munkey.core.randomness import Stage
from munkey.data.forget_draws import (
    Groups,
    check_group_names,
    cluster_samples,
    draw,
    draw_by_difficulty,
    draw_groups,
    draw_halves,
    draw_share,
    find_lowest_ids,
    group_samples,
)
from munkey.data.forget_sets import read, split, write
from munkey.data.prepared import Dataset
from tests.conftest import global_state

SIZES = [50, 30, 20]
LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], SIZES))
IDS = 7 + 3 * np.arange(100)


def per_class(ids):
    return np.bincount(LABELS[np.isin(IDS, ids)], minlength=3).tolist()


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
@pytest.mark.parametrize(
    ("rate", "count"), [(0.1, 10), (0.02, 2), (0.126, 13), (0.124, 12), (0.5, 50)]
)
def test_a_forget_set_has_rate_times_n_samples_rounded(sampling, rate, count):
    ids = draw(IDS, LABELS, rate, sampling, np.random.default_rng(0))
    assert len(ids) == len(set(ids.tolist())) == count
    assert set(ids) <= set(IDS)
    assert (np.diff(ids) > 0).all()


def test_a_stratified_forget_set_has_each_classs_share():
    assert per_class(draw(IDS, LABELS, 0.1, "stratified", np.random.default_rng(5))) == [5, 3, 2]


def test_a_uniform_forget_set_follows_the_classes_only_on_average():
    counts = []
    for seed in range(500):
        ids = draw(IDS, LABELS, 0.1, "uniform", np.random.default_rng(seed))
        counts.append(tuple(per_class(ids)))
    np.testing.assert_allclose(np.mean(counts, axis=0), [5, 3, 2], atol=0.3)
    assert len(set(counts)) > 10


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
def test_every_sample_is_equally_likely_to_be_forgotten(sampling):
    generator = np.random.default_rng(1)
    times = np.zeros(len(IDS))
    for _ in range(2000):
        times[np.isin(IDS, draw(IDS, LABELS, 0.1, sampling, generator))] += 1
    assert chisquare(times).pvalue > 0.01


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
def test_a_forget_set_depends_on_its_generator_alone(sampling):
    def drawn(*parts):
        return draw(IDS, LABELS, 0.1, sampling, Stage(*parts).numpy_generator()).tolist()

    state = global_state()
    first = drawn(0, "digits", "forget", "0.1")
    assert global_state() == state
    np.random.seed(2)  # noqa: NPY002 (the global one, which must not matter)
    assert drawn(0, "digits", "forget", "0.1") == first
    assert drawn(1, "digits", "forget", "0.1") != first


@pytest.mark.parametrize("rate", [0.001, 0.999])
def test_a_forget_set_of_nothing_or_everything_is_refused(rate):
    message = rf"{rate} of 100 .*forget\.rates"
    with pytest.raises(ValueError, match=message):
        draw(IDS, LABELS, rate, "stratified", np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        draw_by_difficulty(IDS, np.zeros(100), rate, "hard", np.random.default_rng(0))


def test_forgetting_a_whole_class_is_refused():
    labels = np.array([0] * 9 + [1])
    with pytest.raises(ValueError, match=r"none of class \[1\]"):
        draw(np.arange(10), labels, 0.6, "stratified", np.random.default_rng(0))


def test_a_forget_set_reads_back_as_written(tmp_path):
    write(tmp_path / "forget.csv", np.array([4, 9, 11]))
    assert (tmp_path / "forget.csv").read_text() == "id\n4\n9\n11\n"
    assert read(tmp_path / "forget.csv").tolist() == [4, 9, 11]


def halved(pair=0, share=0.2):
    return draw_halves(IDS, LABELS, share, Stage("pool"), Stage("pair", pair))


def test_the_halves_of_a_pool_are_disjoint_and_equal_in_size():
    first, second = halved()
    pool = np.union1d(first, second)
    assert len(first) == len(second) == 10
    assert len(pool) == 20
    assert per_class(pool) == [10, 6, 4]
    for half in (first, second):
        assert (np.diff(half) > 0).all()
    assert np.union1d(*halved(pair=1)).tolist() == pool.tolist()


def test_every_pair_divides_the_pool_differently_and_each_sample_is_equally_often_in_either_half():
    firsts = np.array([np.isin(np.union1d(*halved()), halved(pair)[0]) for pair in range(400)])
    assert len(np.unique(firsts, axis=0)) > 390
    assert (np.abs(firsts.mean(axis=0) - 0.5) < 0.1).all()
    assert halved(3)[0].tolist() == halved(3)[0].tolist()


def test_one_sample_of_an_odd_pool_is_in_neither_half_the_same_for_every_pair():
    pools = set()
    for pair in range(20):
        first, second = halved(pair, 0.21)
        assert len(first) == len(second) == 10
        pools.add(tuple(np.union1d(first, second)))
    assert len(pools) == 1


def test_a_pool_without_samples_is_refused():
    with pytest.raises(ValueError, match=r"0\.001 of 100 .*audit\.pool"):
        halved(share=0.001)


def test_split_divides_the_training_samples_into_retain_forget_and_absent(
    tmp_path,
):
    ids = np.arange(8)
    splits = np.array(["train", "val", "train", "test", "train", "train", "val", "test"])
    dataset = Dataset(np.zeros((8, 1, 1, 3), np.uint8), ids, ids % 2, splits, ["a", "b"])
    forget = tmp_path / "forget.csv"
    absent = tmp_path / "absent.csv"
    write(forget, np.array([2, 5]))
    write(absent, np.array([4]))
    for files, retain_ids, forget_ids in (
        ((forget,), [0, 4], [2, 5]),
        ((None,), [0, 2, 4, 5], []),
        ((forget, absent), [0], [2, 5]),
        ((None, absent), [0, 2, 5], []),
    ):
        parts = split(dataset, *files)
        assert parts.retain.tolist() == retain_ids
        assert parts.forget.tolist() == forget_ids


NAMES = np.array(["a", "b", "c"], dtype=object)[LABELS]


def generator():
    return np.random.default_rng(3)


def test_named_groups_are_forgotten_whole_even_if_a_class_is_left_empty():
    ids = draw_groups(Groups(IDS, NAMES), LABELS, 0.0, ["b"], generator())
    assert ids.tolist() == IDS[LABELS == 1].tolist()


def test_whole_groups_are_drawn_until_the_number_is_nearest_to_the_rate():
    """Ten groups of ten: 25 of 100 are three groups or two, which are equally near; 24 are two."""
    groups = Groups(IDS, np.array([*"0123456789"], dtype=object).repeat(10))
    draws = set()
    for seed in range(20):
        ids = draw_groups(groups, LABELS, 0.24, None, np.random.default_rng(seed))
        assert len(ids) == 20
        assert np.bincount(np.searchsorted(IDS, ids) // 10).max() == 10
        draws.add(tuple(ids))
    assert len(draws) > 10


def test_samples_of_no_group_are_never_drawn():
    of = np.where(np.arange(100) < 20, "person", "").astype(object)
    ids = draw_groups(Groups(IDS, of), LABELS, 0.5, None, generator())
    assert ids.tolist() == IDS[:20].tolist()


@pytest.mark.parametrize(
    ("names", "message"), [(["d"], "no sample belongs to 'd'"), (["a", "b"], "two classes")]
)
def test_names_that_cannot_be_forgotten_are_refused(names, message):
    with pytest.raises(ValueError, match=message) as refused:
        draw_groups(Groups(IDS, NAMES), LABELS, 0.0, names, generator())
    assert "'a', 'b', 'c'" in str(refused.value) or names != ["d"]


def test_groups_are_classes_or_units_of_training_samples():
    splits = np.array(["train"] * 4 + ["test"])
    labels = np.array([0, 1, 1, 0, 1])
    data = Dataset(
        np.zeros((5, 1, 1, 3), np.uint8),
        np.arange(5),
        labels,
        splits,
        ["cat", "dog"],
        ("p", None, "q", "p", "p"),
    )
    assert group_samples(data, "class").names.tolist() == ["cat", "dog", "dog", "cat"]
    assert group_samples(data, "unit").names.tolist() == ["p", "", "q", "p"]
    with pytest.raises(ValueError, match="has no units"):
        group_samples(replace(data, units=None), "unit")


def test_clusters_are_samples_with_near_keys_and_repeatable():
    around = np.repeat(np.eye(5) * 10, 20, axis=0)
    keys = around + np.random.default_rng(0).normal(size=around.shape)
    first = cluster_samples(IDS, keys, 20, Stage(0, "clusters"))
    again = cluster_samples(IDS, keys, 20, Stage(0, "clusters"))
    assert first.names.tolist() == again.names.tolist()
    assert len(set(first.names)) == 5
    for names in first.names.reshape(5, 20):
        assert len(set(names)) == 1


def test_hard_samples_have_the_fewest_votes_and_easy_samples_the_most():
    votes = np.linspace(0, 1, 100)
    for sampling, start in (("hard", 0), ("medium", 45), ("easy", 90)):
        ids = draw_by_difficulty(IDS, votes, 0.1, sampling, generator())
        assert ids.tolist() == IDS[start : start + 10].tolist()
    assert draw_by_difficulty(IDS, votes, 0.01, "easy", generator()).tolist() == [IDS[-1]]
    ties = set()
    for seed in range(5):
        ids = draw_by_difficulty(IDS, np.ones(100), 0.1, "hard", np.random.default_rng(seed))
        ties.add(tuple(ids))
    assert len(ties) == 5
    with pytest.raises(ValueError, match=r"'hardest' must be hard"):
        draw_by_difficulty(IDS, votes, 0.1, "hardest", generator())


def test_find_lowest_ids_gives_the_first_sample_of_each_group():
    of = np.array(["x", "y", "x", "", "y", "z"], dtype=object)
    ids = np.array([3, 5, 8, 9, 11, 12])
    assert find_lowest_ids(Groups(ids, of), np.array([3, 5, 8, 11])).tolist() == [3, 5]


def test_draw_share_draws_a_share_of_the_altered_samples():
    of = np.array(["altered"] * 40 + [""] * 60, dtype=object)
    groups = Groups(np.arange(100), of)
    first = draw_share(groups, ["altered"], 0.25, np.random.default_rng(0))
    second = draw_share(groups, ["altered"], 0.25, np.random.default_rng(1))
    for ids in (first, second):
        assert len(set(ids)) == 10
        assert ids.max() < 40
    assert first.tolist() != second.tolist()
    with pytest.raises(ValueError, match=r"0\.01 of the 40 "):
        draw_share(groups, ["altered"], 0.01, generator())
    with pytest.raises(ValueError, match=r"'alterd'; did you mean 'altered'"):
        draw_share(groups, ["alterd"], 0.5, generator())


def test_a_group_is_found_in_other_spellings_and_lost_zeros_are_offered():
    groups = Groups(np.arange(6), np.array(["0007", "Zo\u00eb", "0012"] * 2, dtype=object))
    assert check_group_names(groups, ["Zoe\u0308 ", "0012"]) == ["Zo\u00eb", "0012"]
    with pytest.raises(ValueError, match="'7'; did you mean '0007'"):
        check_group_names(groups, ["7"])
