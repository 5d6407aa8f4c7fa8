"""How a user names rows: by ids, units, classes and files, as lists, arrays, Series, an Index, or one value."""

import os
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from munkey.data.intake.unit_names import unit_name
from munkey.deploy.store.rows import checked_ids
from munkey.estimators.errors import InvalidRequestError


class RowRequest(NamedTuple):
    """What is to be forgotten: the rows that any of these names. ids: (N,) int64; labels: classes."""

    ids: np.ndarray
    units: list[str]
    labels: list[Any]
    files: list[str]


def read_request(ids: Any, units: Any, labels: Any, files: Any) -> RowRequest:
    """A request from the arguments of `forget`. Raises InvalidRequestError that says what to pass instead."""
    if ids is None and units is None and labels is None and files is None:
        raise InvalidRequestError("name what is to be forgotten: ids, units, labels or files")
    if units is not None and labels is not None:
        raise InvalidRequestError(
            "units and labels: both, or either? Name one, or the ids of the rows"
        )
    return RowRequest(
        read_ids(ids, "ids"),
        _without_gaps("units", [unit_name(unit) for unit in values_of(units)]),
        values_of(labels),
        [os.fspath(file) for file in values_of(files)],
    )


def values_of(given: Any) -> list[Any]:
    """The values of a list, an array, a Series, an Index or a generator; of one text, path or number, itself."""
    if given is None:
        return []
    if isinstance(given, str | bytes | os.PathLike) or not isinstance(given, Iterable):
        return [given.item() if isinstance(given, np.generic) else given]
    if hasattr(given, "tolist"):
        listed = given.tolist()
        return listed if isinstance(listed, list) else [listed]
    return [value.item() if isinstance(value, np.generic) else value for value in given]


def _without_gaps(what: str, names: list[str | None]) -> list[str]:
    """The names. Raises InvalidRequestError where some are missing: these would name nobody, or all without one."""
    present = [name for name in names if name is not None]
    if len(present) < len(names):
        gaps = len(names) - len(present)
        raise InvalidRequestError(
            f"{what}: {gaps} of {len(names)} are missing values, which name nobody; drop them"
        )
    return present


def read_ids(given: Any, what: str) -> np.ndarray:
    """Ids as int64 (N,): also of whole floats and of texts of digits, as a table may hold them.

    Raises InvalidRequestError for what is no whole number.
    """
    numbers: list[Any] = []
    for value in values_of(given):
        if isinstance(value, bool):
            raise InvalidRequestError(
                f"{what} must be numbers of rows, not a mask of booleans; pass `ids_[mask]`"
            )
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not is_whole and not (isinstance(value, str) and value.strip().isdecimal()):
            raise InvalidRequestError(f"{what} must be whole numbers from 0 on, not {value!r}")
        numbers.append(int(value))
    try:
        return checked_ids(np.array(numbers, dtype=object))
    except ValueError as error:
        raise InvalidRequestError(str(error).replace("ids", what, 1)) from error


def ids_of_rows(
    ids: Any, tables: dict[str, Any], count: int, start: int, stacklevel: int
) -> np.ndarray:
    """The ids that were given; else those of an index; else numbers from `start` on. As for `ids_of_index`."""
    if ids is not None:
        return read_ids(ids, "ids")
    of_index = ids_of_index(tables, count, stacklevel + 1)
    return np.arange(start, start + count) if of_index is None else of_index


def unit_names_of(units: Any) -> list[str | None] | None:
    """The names of the units of rows; None where none were given."""
    return None if units is None else [unit_name(unit) for unit in values_of(units)]


def ids_of_index(tables: dict[str, Any], count: int, stacklevel: int) -> np.ndarray | None:
    """The ids of rows by the index of what pandas holds them in; None where no table says any.

    An index 0, 1, … says nothing. A warning says why another one gives no ids. tables: X, y and units by name;
    stacklevel: of the user's call.
    """
    chosen: np.ndarray | None = None
    trouble = ""
    for name, table in tables.items():
        index = getattr(table, "index", None)
        if not hasattr(index, "dtype") or len(table) != count:  # a list has a method of this name
            continue
        values = np.asarray(index)
        if values.dtype.kind in "iu" and np.array_equal(values, np.arange(count)):
            continue
        if values.dtype.kind not in "iu" or values.min() < 0 or len(np.unique(values)) < count:
            trouble = f"the index of {name} is no list of different whole numbers from 0 on"
        elif chosen is not None and not np.array_equal(chosen, values):
            trouble = f"the index of {name} is another one than that of the others"
        else:
            chosen = values.astype(np.int64)
    if not trouble:
        return chosen
    warnings.warn(
        f"{trouble}, so the rows are numbered by place: do not pass its values to `forget(ids=…)`, they would name"
        " other rows; pass ids=… here, or forget by units",
        UserWarning,
        stacklevel=stacklevel + 1,
    )
    return None
