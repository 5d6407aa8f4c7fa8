"""Forget sets have an exact size, follow the sizes of the classes, and depend on their seed alone."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from munkey.core.randomness import Stage
from munkey.data.forget_draws import (
    Groups,
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


def per_class(chosen):
    return np.bincount(LABELS[np.isin(IDS, chosen)], minlength=3).tolist()


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
@pytest.mark.parametrize(
    ("rate", "count"), [(0.1, 10), (0.02, 2), (0.126, 13), (0.124, 12), (0.5, 50)]
)
def test_a_forget_set_holds_rate_times_n_samples_rounded(sampling, rate, count):
    chosen = draw(IDS, LABELS, rate, sampling, np.random.default_rng(0))
    assert len(chosen) == len(set(chosen.tolist())) == count
    assert set(chosen) <= set(IDS)
    assert (np.diff(chosen) > 0).all()


def test_a_stratified_forget_set_has_each_classs_share():
    assert per_class(draw(IDS, LABELS, 0.1, "stratified", np.random.default_rng(5))) == [5, 3, 2]


def test_a_uniform_forget_set_follows_the_classes_only_on_average():
    drawn = [
        per_class(draw(IDS, LABELS, 0.1, "uniform", np.random.default_rng(seed)))
        for seed in range(500)
    ]
    np.testing.assert_allclose(np.mean(drawn, axis=0), [5, 3, 2], atol=0.3)
    assert len(set(map(tuple, drawn))) > 10


@pytest.mark.parametrize("sampling", ["uniform", "stratified"])
def test_every_sample_is_as_likely_to_be_forgotten(sampling):
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
    with pytest.raises(
        ValueError, match=rf"{rate} of 100 training samples is \d+: change forget\.rates"
    ):
        draw(IDS, LABELS, rate, "stratified", np.random.default_rng(0))
    with pytest.raises(
        ValueError, match=rf"{rate} of 100 training samples is \d+: change forget\.rates"
    ):
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


def test_the_halves_of_a_pool_are_disjoint_equal_and_of_one_pool():
    first, second = halved()
    pool = np.union1d(first, second)
    assert len(first) == len(second) == 10 and len(pool) == 20
    assert per_class(pool) == [10, 6, 4]
    assert all((np.diff(half) > 0).all() for half in (first, second))
    assert np.union1d(*halved(pair=1)).tolist() == pool.tolist()


def test_every_pair_divides_the_pool_in_its_own_way_and_each_sample_falls_on_either_side_as_often():
    firsts = np.array([np.isin(np.union1d(*halved()), halved(pair)[0]) for pair in range(400)])
    assert len({tuple(half) for half in firsts}) > 390
    assert (np.abs(firsts.mean(axis=0) - 0.5) < 0.1).all()
    assert halved(3)[0].tolist() == halved(3)[0].tolist()


def test_of_an_odd_pool_one_sample_is_in_neither_half_the_same_for_every_pair():
    pools = set()
    for pair in range(20):
        first, second = halved(pair, 0.21)
        assert len(first) == len(second) == 10
        pools.add(tuple(np.union1d(first, second)))
    assert len(pools) == 1


def test_a_pool_without_samples_is_refused():
    with pytest.raises(
        ValueError, match=r"0\.001 of 100 training samples is 0: change .*audit\.pool"
    ):
        halved(share=0.001)


def test_the_training_split_is_what_is_retained_what_is_forgotten_and_what_the_model_never_saw(
    tmp_path,
):
    ids = np.arange(8)
    splits = np.array(["train", "val", "train", "test", "train", "train", "val", "test"])
    dataset = Dataset(np.zeros((8, 1, 1, 3), np.uint8), ids, ids % 2, splits, ["a", "b"])
    forget = tmp_path / "forget.csv"
    absent = tmp_path / "absent.csv"
    write(forget, np.array([2, 5]))
    write(absent, np.array([4]))
    parts = [
        split(dataset, *files) for files in ((forget,), (None,), (forget, absent), (None, absent))
    ]
    assert [part.retain.tolist() for part in parts] == [[0, 4], [0, 2, 4, 5], [0], [0, 2, 5]]
    assert [part.forget.tolist() for part in parts] == [[2, 5], [], [2, 5], []]


NAMES = np.array(["a", "b", "c"], dtype=object)[LABELS]


def generator():
    return np.random.default_rng(3)


def test_named_groups_are_forgotten_whole_and_a_class_may_be_left_empty():
    chosen = draw_groups(Groups(IDS, NAMES), LABELS, 0.0, ["b"], generator())
    assert chosen.tolist() == IDS[LABELS == 1].tolist()


def test_groups_are_drawn_whole_as_long_as_they_bring_the_number_nearer():
    """Ten groups of ten: 25 of 100 are three groups or two, which are equally near; 24 are two."""
    groups = Groups(IDS, np.array([f"{i // 10}" for i in range(100)], dtype=object))
    drawn = [
        draw_groups(groups, LABELS, 0.24, None, np.random.default_rng(seed)) for seed in range(20)
    ]
    assert {len(each) for each in drawn} == {20} and len({tuple(each) for each in drawn}) > 10
    assert all(np.bincount(np.searchsorted(IDS, each) // 10).max() == 10 for each in drawn)


def test_samples_of_no_group_are_never_drawn():
    of = np.where(np.arange(100) < 20, "person", "").astype(object)
    assert (
        draw_groups(Groups(IDS, of), LABELS, 0.5, None, generator()).tolist() == IDS[:20].tolist()
    )


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


def test_clusters_are_samples_whose_keys_are_near_the_same_for_the_same_stage():
    around = np.repeat(np.eye(5) * 10, 20, axis=0)
    keys = around + np.random.default_rng(0).normal(size=around.shape)
    first, again = (cluster_samples(IDS, keys, 20, Stage(0, "clusters")) for _ in range(2))
    assert first.names.tolist() == again.names.tolist()
    assert (
        all(len(set(first.names[20 * i : 20 * i + 20])) == 1 for i in range(5))
        and len(set(first.names)) == 5
    )


def test_hard_samples_have_the_fewest_votes_easy_ones_the_most():
    votes = np.linspace(0, 1, 100)
    for sampling, places in (
        ("hard", range(10)),
        ("easy", range(90, 100)),
        ("medium", range(45, 55)),
    ):
        assert (
            draw_by_difficulty(IDS, votes, 0.1, sampling, generator()).tolist()
            == IDS[list(places)].tolist()
        )
    assert draw_by_difficulty(IDS, votes, 0.01, "easy", generator()).tolist() == [IDS[-1]]
    ties = [
        tuple(draw_by_difficulty(IDS, np.ones(100), 0.1, "hard", np.random.default_rng(seed)))
        for seed in range(5)
    ]
    assert len(set(ties)) == 5
    with pytest.raises(ValueError, match="sampling = 'hardest' must be hard, medium or easy"):
        draw_by_difficulty(IDS, votes, 0.1, "hardest", generator())


def test_one_of_each_group_is_its_first_sample():
    of = np.array(["x", "y", "x", "", "y", "z"], dtype=object)
    ids = np.array([3, 5, 8, 9, 11, 12])
    assert find_lowest_ids(Groups(ids, of), np.array([3, 5, 8, 11])).tolist() == [3, 5]


def test_of_what_is_altered_a_share_is_known():
    of = np.array(["altered"] * 40 + [""] * 60, dtype=object)
    groups = Groups(np.arange(100), of)
    ids = set(range(40))
    drawn = [
        set(draw_share(groups, ["altered"], 0.25, np.random.default_rng(seed)).tolist())
        for seed in range(2)
    ]
    assert all(len(each) == 10 and each < ids for each in drawn) and drawn[0] != drawn[1]
    with pytest.raises(ValueError, match=r"0\.01 of the 40 samples of altered is less"):
        draw_share(groups, ["altered"], 0.01, generator())
    with pytest.raises(ValueError, match=r"no sample belongs to 'alterd'; did you mean 'altered'"):
        draw_share(groups, ["alterd"], 0.5, generator())
