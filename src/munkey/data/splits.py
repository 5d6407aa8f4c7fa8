"""Draw the splits that data sets lack. They are the same for all seeds."""

from collections.abc import Sequence

import numpy as np

from munkey.core.randomness import Stage
from munkey.data.sizes import SIZES
from munkey.data.source import SourceError

UNSPLIT = ""  # the split of samples whose source lists none
VAL_SHARE = 0.4  # val's share of an original validation or test set (app. B.1)


def split_held_out(name: str, count: int, val: int | None = None) -> np.ndarray:
    """Split `count` held-out samples into val, 40% by default (app. B.1), and test: (count,) names.

    `name`, the data set's, seeds the draw.
    """
    if val is None:
        val = round(VAL_SHARE * count)
    splits = np.full(count, "test", dtype="<U5")
    order = Stage(name, "held out").numpy_generator().permutation(count)
    splits[order[:val]] = "val"
    return splits


def complete_splits(
    name: str,
    split_names: Sequence[str],
    labels: np.ndarray,
    shares: list[float],
    units: Sequence[str | None] | None = None,
) -> np.ndarray:
    """Complete the splits of a source: (N,) names. Units stay in one split where it is drawn here.

    Parameters
    ----------
    name
        Seeds the draw.
    split_names
        The split of each sample. If any is UNSPLIT, all are drawn; else, if none is val, test is
        divided into val and test.
    shares
        The shares of train, val and test within each class.
    units
        The unit of each sample, if there are units.
    """
    # A unit's leader is its first sample. A sample without a unit is its own leader.
    leader_of_sample = np.arange(len(labels))
    leader_of_unit: dict[str, int] = {}
    for index, unit in enumerate(units or []):
        if unit:
            leader_of_sample[index] = leader_of_unit.setdefault(unit, index)
    # Each leader draws a split, which its other samples share. `positions` maps samples to leaders.
    if UNSPLIT in split_names:
        leaders, positions = np.unique(leader_of_sample, return_inverse=True)
        splits_of_leaders = split_by_class(name, labels[leaders], shares)
        return splits_of_leaders[positions]
    splits = np.array(split_names, dtype="<U5")  # the longest name is "train"
    if "val" not in split_names:
        is_test = splits == "test"
        leaders, positions = np.unique(leader_of_sample[is_test], return_inverse=True)
        splits_of_leaders = split_held_out(name, len(leaders))
        splits[is_test] = splits_of_leaders[positions]
    return splits


def require_given_splits(split_names: Sequence[str], val_from: str | None) -> None:
    """Raise SourceError for `source.val_from` if all splits are drawn, val among them."""
    if val_from is not None and UNSPLIT in split_names:
        raise SourceError(
            "source.val_from",
            ["must be null here: these samples have no splits, so source.split draws all three"],
        )


def split_by_class(name: str, labels: np.ndarray, shares: list[float]) -> np.ndarray:
    """Split samples within each class into these shares of train, val and test: (N,) names."""
    splits = np.empty(len(labels), dtype="<U5")
    generator = Stage(name, "split").numpy_generator()
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        sizes = apportion(np.asarray(shares), len(members))
        splits[members] = np.repeat(["train", "val", "test"], sizes)
    return splits


def require_published_sizes(name: str, splits: np.ndarray) -> None:
    """Raise ValueError if a split does not have its published number of samples."""
    size = SIZES[name]
    expected = {"train": size.train, "val": size.val, "test": size.test}
    actual = {split: int((splits == split).sum()) for split in expected}
    if actual != expected:
        raise ValueError(
            f"{name} should have {expected} samples, but the files have {actual}:"
            " download them again"
        )


def apportion(sizes: np.ndarray, count: int) -> np.ndarray:
    """Split `count` in proportion to `sizes` by largest remainder: integers that sum to `count`.

    Equal remainders are served in the order of `sizes`.
    """
    quotas = count * sizes / sizes.sum()
    shares = np.floor(quotas).astype(int)
    # After rounding down, the sum is too small: add 1 to the shares with the largest remainders.
    order = np.argsort(-(quotas - shares), kind="stable")
    shares[order[: count - shares.sum()]] += 1
    return shares
