"""Pools of the worst case: samples that are hardest to classify, and samples trained with a wrong label."""

import numpy as np

from munkey.core.ids import rows_of
from munkey.core.randomness import Stage
from munkey.data.forget_draws import Members, draw, even, vote_shares
from munkey.data.prepared import Dataset

__all__ = ["Members", "half_of", "hardest", "mislabeled", "require_fitting", "vote_shares"]
LEAST_POOL, LEAST_TEST = 4, 8  # so that each half, also one of a sham pool of test samples, has a variance


def require_fitting(pool: int, dataset: Dataset, depth: int) -> None:
    """Raise ValueError where a pool of this size leaves too little to train on, or is too small to audit.

    depth: the neighbors that are looked up, `keys.depth`.
    """
    train, test = len(dataset.ids_of("train")), len(dataset.ids_of("test"))
    if pool < LEAST_POOL:
        raise ValueError(f"audit.pool: {pool} of {train} training samples; an audit needs {LEAST_POOL}: raise it")
    if train - pool < depth:
        raise ValueError(
            f"audit.pool: without the pool of {pool}, {train - pool} of {train} training samples are left, and"
            f" keys.depth wants {depth}: lower one of the two"
        )
    if test < LEAST_TEST:
        raise ValueError(f"{test} test samples; an audit needs {LEAST_TEST}, to try itself on samples never trained on")


def hardest(members: Members, votes: np.ndarray, share: float, stage: Stage) -> np.ndarray:
    """Sorted ids of the samples with the fewest votes, as many of each class as a random pool of this share has.

    votes: (N,), as `vote_shares`; ties are drawn. Of an odd number, one is left out. Raises ValueError as `draw`.
    """
    drawn = draw(members.ids, members.labels, share, "stratified", stage.numpy_generator())
    drawn_labels = members.labels[rows_of(members.ids, drawn)]
    order = np.lexsort(((stage / "ties").numpy_generator().random(len(votes)), votes))
    chosen = [
        order[members.labels[order] == label][:count]
        for label, count in zip(*np.unique(drawn_labels, return_counts=True), strict=True)
    ]
    return even(np.sort(members.ids[np.concatenate(chosen)]), stage)


def half_of(pool: np.ndarray, number: int, pair: Stage) -> np.ndarray:
    """Sorted ids of one of two random halves of a pool, number 0 or 1; equal in size. pair: where they are drawn from.

    Raises ValueError for a pool of an odd number.
    """
    return np.sort(np.split(pair.numpy_generator().permutation(pool), 2)[number])


def mislabeled(labels: np.ndarray, pool: np.ndarray, classes: int, generator: np.random.Generator) -> np.ndarray:
    """Labels (N,) with a wrong one, uniform over the other classes, in the rows `pool` (n,)."""
    wrong = labels.copy()
    wrong[pool] = (labels[pool] + generator.integers(1, classes, len(pool))) % classes
    return wrong
