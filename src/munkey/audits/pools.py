"""Pools of audits: their size, their halves, and worst cases (hardest and mislabeled samples)."""

import numpy as np

from munkey.core.ids import find_rows
from munkey.core.randomness import Stage
from munkey.data.forget_draws import Members, compute_vote_shares, draw, drop_odd_one
from munkey.data.prepared import Dataset

__all__ = [
    "Members",
    "compute_vote_shares",
    "draw_half",
    "draw_hardest",
    "draw_wrong_labels",
    "require_valid_size",
]
MIN_POOL = 4  # each half needs two samples for a variance
MIN_TEST = 8  # a sham pool takes half of these samples


def require_valid_size(pool: int, dataset: Dataset, depth: int) -> None:
    """Raise ValueError if a pool or the test set is too small, or if too few samples are left.

    Parameters
    ----------
    pool
        Number of samples in the pool.
    depth
        Number of neighbors to retrieve, `keys.depth`.
    """
    train = len(dataset.get_ids("train"))
    test = len(dataset.get_ids("test"))
    if pool < MIN_POOL:
        raise ValueError(
            f"audit.pool: {pool} of {train} training samples; an audit needs {MIN_POOL}: raise it"
        )
    if train - pool < depth:
        raise ValueError(
            f"audit.pool: without the pool of {pool}, {train - pool} of {train} training"
            f" samples are left, but keys.depth is {depth}: lower one of the two"
        )
    if test < MIN_TEST:
        raise ValueError(
            f"{test} test samples; an audit needs {MIN_TEST} for its control, a sham pool of"
            " samples that no model was trained on"
        )


def draw_hardest(members: Members, votes: np.ndarray, share: float, stage: Stage) -> np.ndarray:
    """Select the samples with the fewest votes, as many per class as in a random pool.

    Returns their sorted ids. If their number is odd, one of them is dropped. Raises the same errors
    as `draw`.

    Parameters
    ----------
    share
        The size of the pool as a share of the members.
    votes
        The shares (N,) of `compute_vote_shares`. Ties are broken at random.
    """
    random_pool = draw(members.ids, members.labels, share, "stratified", stage.numpy_generator())
    pool_labels = members.labels[find_rows(members.ids, random_pool)]
    tie_breakers = (stage / "ties").numpy_generator().random(len(votes))
    order = np.lexsort((tie_breakers, votes))  # by votes, then at random
    classes, counts = np.unique(pool_labels, return_counts=True)
    hardest_rows = []
    for label, count in zip(classes, counts, strict=True):
        rows_of_class = order[members.labels[order] == label]
        hardest_rows.append(rows_of_class[:count])
    ids = np.sort(members.ids[np.concatenate(hardest_rows)])
    return drop_odd_one(ids, stage)


def draw_half(pool: np.ndarray, number: int, pair_stage: Stage) -> np.ndarray:
    """Return half `number`, 0 or 1, of a random split of a pool of ids, sorted.

    Raises ValueError if the number of ids is odd.

    Parameters
    ----------
    pair_stage
        The random stage of the pair, which determines the split.
    """
    shuffled_ids = pair_stage.numpy_generator().permutation(pool)
    halves = np.split(shuffled_ids, 2)
    return np.sort(halves[number])


def draw_wrong_labels(
    labels: np.ndarray, pool: np.ndarray, classes: int, generator: np.random.Generator
) -> np.ndarray:
    """Return labels (N,) in which the rows `pool` (n,) have wrong ones, drawn uniformly."""
    # Adding a random number from 1 to C - 1, modulo C, gives each of the other C - 1 classes with
    # the same probability.
    shifts = generator.integers(1, classes, len(pool))
    wrong_labels = labels.copy()
    wrong_labels[pool] = (labels[pool] + shifts) % classes
    return wrong_labels
