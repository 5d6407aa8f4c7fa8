"""Parse the row names that users pass: ids, units, classes and files.

They may be a list, an array, a pandas object or a single value.
"""

import os
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from munkey.data.intake.unit_names import unit_name
from munkey.deploy.store.rows import check_ids
from munkey.estimators.errors import InvalidRequestError


class RowRequest(NamedTuple):
    """The names of rows to forget. ids: (N,) int64; labels: classes."""

    ids: np.ndarray
    units: list[str]
    labels: list[Any]
    files: list[str]


def read_request(ids: Any, units: Any, labels: Any, files: Any) -> RowRequest:
    """Parse the arguments of `forget`. Raises InvalidRequestError if they are invalid."""
    if ids is None and units is None and labels is None and files is None:
        raise InvalidRequestError("name the samples to forget, by ids, units, labels or files")
    if units is not None and labels is not None:
        raise InvalidRequestError(
            "units and labels together are ambiguous (rows of both, or of either?): pass one of them,"
            " or ids"
        )
    unit_names = [unit_name(unit) for unit in list_values(units)]
    return RowRequest(
        ids=read_ids(ids, "ids"),
        units=_require_no_gaps("units", unit_names),
        labels=list_values(labels),
        files=[os.fspath(file) for file in list_values(files)],
    )


def list_values(values: Any) -> list[Any]:
    """List the values of a list, an array, a Series, an Index or a generator.

    A single value becomes a list of one, and None an empty list.
    """
    if values is None:
        return []
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable):
        return [to_python(values)]
    if not hasattr(values, "tolist"):
        return [to_python(value) for value in values]
    python_values = values.tolist()
    if isinstance(python_values, list):
        return python_values
    return [python_values]  # an array without dimensions has a single value


def to_python(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number; return other values unchanged."""
    if isinstance(value, np.generic):
        return value.item()
    return value


def _require_no_gaps(what: str, names: list[str | None]) -> list[str]:
    """Return the names. Raises InvalidRequestError if some are missing values."""
    present_names = [name for name in names if name is not None]
    gap_count = len(names) - len(present_names)
    if gap_count:
        raise InvalidRequestError(
            f"{what}: {gap_count} of {len(names)} are missing values, which match no row; drop them"
        )
    return present_names


def read_ids(ids: Any, what: str) -> np.ndarray:
    """Read ids as int64 (N,), also from floats such as 7.0 and strings of digits, as in tables.

    what: the name of the argument, for the message. Raises InvalidRequestError unless all ids are
    whole numbers.
    """
    whole_numbers: list[Any] = []
    for value in list_values(ids):
        if isinstance(value, bool):
            raise InvalidRequestError(
                f"{what} must be ids of rows, not a boolean mask; pass `ids_[mask]`"
            )
        if isinstance(value, float):
            is_whole = value.is_integer()
        elif isinstance(value, str):
            is_whole = value.strip().isdecimal()
        else:
            is_whole = isinstance(value, int)
        if not is_whole:
            raise InvalidRequestError(f"{what} must be whole numbers from 0 on, not {value!r}")
        whole_numbers.append(int(value))
    try:
        # As objects, because NumPy would convert numbers beyond int64 to floats.
        return check_ids(np.array(whole_numbers, dtype=object))
    except ValueError as error:
        raise InvalidRequestError(str(error).replace("ids", what, 1)) from error


def resolve_ids(
    ids: Any, tables: dict[str, Any], count: int, start: int, stacklevel: int
) -> np.ndarray:
    """Return the user's ids; by default those of an index, or else `start`, `start` + 1, ...

    tables, stacklevel: as for `read_index_ids`.
    """
    if ids is not None:
        return read_ids(ids, "ids")
    index = read_index_ids(tables, count, stacklevel + 1)
    if index is not None:
        return index
    return np.arange(start, start + count)


def read_unit_names(units: Any) -> list[str | None] | None:
    """Read the name of each row's unit; None for a row without a unit.

    Returns None if the user passed no units.
    """
    if units is None:
        return None
    return [unit_name(unit) for unit in list_values(units)]


def read_index_ids(tables: dict[str, Any], count: int, stacklevel: int) -> np.ndarray | None:
    """Read ids from the index of a pandas object.

    Returns None if no object has an index other than 0, 1, ..., and, with a warning, if an index
    cannot be used as ids. tables: X, y and units by name. stacklevel: that of the user's call.
    """
    ids: np.ndarray | None = None
    fault = ""
    for name, table in tables.items():
        index = getattr(table, "index", None)
        # A list also has an attribute `index`, which is a method.
        if not hasattr(index, "dtype") or len(table) != count:
            continue
        values = np.asarray(index)
        is_whole = values.dtype.kind in "iu"
        if is_whole and np.array_equal(values, np.arange(count)):
            continue
        if not is_whole or values.min() < 0 or len(np.unique(values)) < count:
            fault = f"the index of {name} does not consist of distinct whole numbers from 0 on"
        elif ids is not None and not np.array_equal(ids, values):
            fault = f"the index of {name} differs from the other index"
        else:
            ids = values.astype(np.int64)
    if not fault:
        return ids
    warnings.warn(
        f"{fault}, so rows are numbered by position: do not pass index values to `forget(ids=…)`,"
        " where they would select other rows; pass ids=… here, or forget by units",
        UserWarning,
        stacklevel=stacklevel + 1,
    )
    return None
