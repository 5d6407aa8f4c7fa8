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
    "require_fitting",
]
LEAST_POOL = 4  # each half needs two samples for a variance
LEAST_TEST = 8  # a sham pool takes half of these samples


def require_fitting(pool: int, dataset: Dataset, depth: int) -> None:
    """Raise ValueError if a pool is too small to audit, or too large to train without.

    Parameters
    ----------
    depth
        The number of neighbors to retrieve, `keys.depth`.
    """
    train = len(dataset.get_ids("train"))
    test = len(dataset.get_ids("test"))
    if pool < LEAST_POOL:
        raise ValueError(
            f"audit.pool: {pool} of {train} training samples; an audit needs {LEAST_POOL}: raise it"
        )
    if train - pool < depth:
        raise ValueError(
            f"audit.pool: without the pool of {pool}, {train - pool} of {train} training"
            " samples are left, and"
            f" keys.depth wants {depth}: lower one of the two"
        )
    if test < LEAST_TEST:
        raise ValueError(
            f"{test} test samples; an audit needs {LEAST_TEST}, to try itself on samples never"
            " trained on"
        )


def draw_hardest(members: Members, votes: np.ndarray, share: float, stage: Stage) -> np.ndarray:
    """Select the samples with the fewest votes, as many per class as in a random pool.

    Returns their sorted ids. One is left out if their number is odd. Raises ValueError as `draw`
    does.

    Parameters
    ----------
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


def draw_half(pool: np.ndarray, number: int, pair: Stage) -> np.ndarray:
    """Return the sorted ids of a random half of a pool, number 0 or 1, drawn from the stage `pair`.

    Raises ValueError for an odd number of samples.
    """
    shuffled_ids = pair.numpy_generator().permutation(pool)
    halves = np.split(shuffled_ids, 2)
    return np.sort(halves[number])


def draw_wrong_labels(
    labels: np.ndarray, pool: np.ndarray, classes: int, generator: np.random.Generator
) -> np.ndarray:
    """Return labels (N,) with wrong ones, uniform over the other classes, in the rows `pool` (n,)."""
    shifts = generator.integers(1, classes, len(pool))
    wrong_labels = labels.copy()
    wrong_labels[pool] = (labels[pool] + shifts) % classes
    return wrong_labels
