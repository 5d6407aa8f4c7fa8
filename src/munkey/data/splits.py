"""Splits that a data set does not bring along: fixed, the same for all seeds."""

import numpy as np

from munkey.randomness import numpy_generator

VAL_SHARE = 0.4  # of an original validation or test set: 40 % val, 60 % test (app. B.1)


def held_out(name: str, count: int, val: int | None = None) -> np.ndarray:
    """Split held-out samples at random: `val` of them, by default 40 %, become val, the rest test (app. B.1)."""
    splits = np.full(count, "test", dtype="<U5")
    chosen = numpy_generator(name, "held out").permutation(count)[: round(VAL_SHARE * count) if val is None else val]
    splits[chosen] = "val"
    return splits


def by_class(name: str, labels: np.ndarray, shares: list[float]) -> np.ndarray:
    """Split samples into train, val, test in these shares, within each class: (N,) names."""
    splits = np.empty(len(labels), dtype="<U5")
    generator = numpy_generator(name, "split")
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        sizes = apportion(np.asarray(shares), len(members))
        splits[members] = np.repeat(["train", "val", "test"], sizes)
    return splits


def expect(name: str, splits: np.ndarray, **counts: int) -> None:
    """Raise ValueError where a published data set does not have its published counts."""
    found = {split: int((splits == split).sum()) for split in counts}
    if found != counts:
        raise ValueError(f"{name} should have {counts} images, but the files here hold {found}: get them anew")


def apportion(sizes: np.ndarray, count: int) -> np.ndarray:
    """Split `count` in proportion to `sizes` by largest remainder: integers that sum to `count`."""
    quota = count * sizes / sizes.sum()
    shares = np.floor(quota).astype(int)
    order = np.argsort(-(quota - shares), kind="stable")
    shares[order[: count - shares.sum()]] += 1
    return shares
