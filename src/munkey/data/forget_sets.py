"""Forget set files (sec. 4), which all methods and oracles share. `forget_draws` draws them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import DamagedFileError, read_csv, write_csv
from munkey.data.prepared import Dataset


class ForgetSplit(NamedTuple):
    """Sorted ids of the retain set D_r and the forget set D_f."""

    retain: np.ndarray
    forget: np.ndarray


def write(path: str | Path, ids: np.ndarray, units: Mapping[int, str] | None = None) -> None:
    """Write the ids of a forget set, or of half of a pool with their `units`, as a CSV file."""
    rows: list[dict[str, object]] = []
    for sample_id in ids.tolist():
        row: dict[str, object] = {"id": sample_id}
        if units:
            row["unit"] = units[sample_id]
        rows.append(row)
    write_csv(path, rows)


def read_units(paths: Iterable[str | Path]) -> dict[int, str]:
    """Read the unit of each id from the files of a pool's halves.

    Returns an empty dictionary if they have no column `unit`.
    """
    units = {}
    for path in paths:
        for row in read_csv(path):
            if "unit" in row:
                units[int(row["id"])] = row["unit"]
    return units


def read(path: str | Path | None) -> np.ndarray:
    """Read the sorted ids of a forget set: (M,) int64; none if `path` is None.

    Raises DamagedFileError if the file was changed or contains no ids.
    """
    if path is None:
        return np.array([], dtype=np.int64)
    ids = np.array([int(row["id"]) for row in read_csv(path)], dtype=np.int64)
    if not len(ids):
        raise DamagedFileError(path, "contains no sample to forget")
    return ids


def split(
    dataset: Dataset, path: str | Path | None, absent: str | Path | None = None
) -> ForgetSplit:
    """Split the training samples into a retain set and the forget set in `path`, if any.

    In an audit, the samples in `absent` are in neither.
    """
    forget_ids = read(path)
    excluded_ids = np.union1d(forget_ids, read(absent))
    return ForgetSplit(np.setdiff1d(dataset.get_ids("train"), excluded_ids), forget_ids)


def select_evaluated_ids(dataset: Dataset, pool: Sequence[str | Path]) -> np.ndarray:
    """Return the sorted ids of all samples, or, with an audit's pool, of val, test and the pool."""
    if not pool:
        return dataset.ids
    held_out_ids = dataset.ids[dataset.splits != "train"]
    pool_ids = map(read, pool)
    return np.sort(np.concatenate([held_out_ids, *pool_ids]))
