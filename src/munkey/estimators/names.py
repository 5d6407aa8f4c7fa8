"""Reading the ids, units, classes and files that users pass.

They may be lists, arrays, pandas objects or single values.
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
    """A request to forget all rows with any of these ids, units, classes or files."""

    ids: np.ndarray
    units: list[str]
    labels: list[Any]
    files: list[str]


def read_request(ids: Any, units: Any, labels: Any, files: Any) -> RowRequest:
    """Read the arguments of `forget`. Raises InvalidRequestError if they are invalid."""
    if ids is None and units is None and labels is None and files is None:
        raise InvalidRequestError("name the samples to forget: pass ids, units, labels or files")
    if units is not None and labels is not None:
        raise InvalidRequestError(
            "units and labels cannot be combined, because it is unclear whether to forget rows with"
            " both or with either: pass one of them, or ids"
        )
    unit_names = [unit_name(unit) for unit in list_values(units)]
    return RowRequest(
        ids=read_ids(ids, "ids"),
        units=_require_present("units", unit_names),
        labels=list_values(labels),
        files=[os.fspath(file) for file in list_values(files)],
    )


def list_values(values: Any) -> list[Any]:
    """Return the values of a list, an array, a Series, an Index or a generator as a list.

    A single value gives a list of one value, and None gives an empty list.
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
    return [python_values]  # the single value of a zero-dimensional array


def to_python(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value. Returns any other value unchanged."""
    if isinstance(value, np.generic):
        return value.item()
    return value


def _require_present(argument: str, names: list[str | None]) -> list[str]:
    """Return the names unchanged. Raises InvalidRequestError if any is None."""
    present_names = [name for name in names if name is not None]
    missing_count = len(names) - len(present_names)
    if missing_count:
        raise InvalidRequestError(
            f"{argument}: {missing_count} of {len(names)} are missing values, which no row has;"
            " remove them"
        )
    return present_names


def read_ids(ids: Any, argument: str) -> np.ndarray:
    """Read ids as an int64 array (N,).

    Floats such as 7.0 and strings of digits are accepted, because tables often contain them.
    Raises InvalidRequestError if an id is not a nonnegative integer.

    Parameters
    ----------
    argument
        The name of the user's argument, for messages.
    """
    whole_numbers: list[Any] = []
    for value in list_values(ids):
        if isinstance(value, bool):
            raise InvalidRequestError(
                f"{argument} must be ids of rows, not a boolean mask; pass `ids_[mask]`"
            )
        if isinstance(value, float):
            is_whole = value.is_integer()
        elif isinstance(value, str):
            is_whole = value.strip().isdecimal()
        else:
            is_whole = isinstance(value, int)
        if not is_whole:
            raise InvalidRequestError(f"{argument} must be nonnegative integers, not {value!r}")
        whole_numbers.append(int(value))
    try:
        # Without dtype=object, NumPy would convert some numbers beyond int64 to floats.
        return check_ids(np.array(whole_numbers, dtype=object))
    except ValueError as error:
        raise InvalidRequestError(str(error).replace("ids", argument, 1)) from error


def resolve_ids(
    ids: Any, tables: dict[str, Any], count: int, start: int, stacklevel: int
) -> np.ndarray:
    """Return the ids of rows: the user's, those of a pandas index, or `start`, `start` + 1, ...

    Parameters
    ----------
    tables, stacklevel
        Same as for `read_index_ids`.
    """
    if ids is not None:
        return read_ids(ids, "ids")
    index_ids = read_index_ids(tables, count, stacklevel + 1)
    if index_ids is not None:
        return index_ids
    return np.arange(start, start + count)


def read_unit_names(units: Any) -> list[str | None] | None:
    """Return the name of each row's unit, with None for a row without a unit.

    If the user passed no units, returns None instead of a list.
    """
    if units is None:
        return None
    return [unit_name(unit) for unit in list_values(units)]


def read_index_ids(tables: dict[str, Any], count: int, stacklevel: int) -> np.ndarray | None:
    """Read ids from the index of a pandas object.

    Returns None if every index is the default one, which counts from 0. Also returns None, with a
    warning, if an index cannot be used as ids.

    Parameters
    ----------
    tables
        X, y and units, by name.
    count
        The number of rows. Tables of a different length are ignored.
    stacklevel
        The stack level of the user's call, seen from the caller.
    """
    ids: np.ndarray | None = None
    fault = ""
    for name, table in tables.items():
        index = getattr(table, "index", None)
        # The `index` of a list is a method, which has no dtype.
        if not hasattr(index, "dtype") or len(table) != count:
            continue
        values = np.asarray(index)
        is_integer = values.dtype.kind in "iu"
        if is_integer and np.array_equal(values, np.arange(count)):
            continue
        if not is_integer or values.min() < 0 or len(np.unique(values)) < count:
            fault = f"the index of {name} does not consist of distinct nonnegative integers"
            break
        if ids is not None and not np.array_equal(ids, values):
            fault = f"the index of {name} differs from the others"
            break
        ids = values.astype(np.int64)
    if not fault:
        return ids
    warnings.warn(
        f"{fault}, so rows are numbered by position. Do not pass values of the index to"
        " `forget(ids=…)`, where they would refer to other rows. Pass ids=… here, or forget by"
        " units",
        UserWarning,
        stacklevel=stacklevel + 1,
    )
    return None
