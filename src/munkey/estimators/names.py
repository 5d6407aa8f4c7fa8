"""The names of rows as users pass them: ids, units, classes, files; as a list, an array, a pandas object, a value."""

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
    """The request in the arguments of `forget`. Raises InvalidRequestError."""
    if ids is None and units is None and labels is None and files is None:
        raise InvalidRequestError("name what is to be forgotten: ids, units, labels or files")
    if units is not None and labels is not None:
        raise InvalidRequestError(
            "units and labels together are ambiguous (rows of both, or of either?): pass one of them,"
            " or ids"
        )
    return RowRequest(
        ids=read_ids(ids, "ids"),
        units=_require_no_gaps("units", [unit_name(unit) for unit in list_values(units)]),
        labels=list_values(labels),
        files=[os.fspath(file) for file in list_values(files)],
    )


def list_values(values: Any) -> list[Any]:
    """The values of a list, an array, a Series, an Index or a generator; a single value in a list."""
    if values is None:
        return []
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable):
        return [to_python(values)]
    if not hasattr(values, "tolist"):
        return [to_python(value) for value in values]
    items = values.tolist()
    if isinstance(items, list):
        return items
    return [items]  # of an array without dimensions


def to_python(value: Any) -> Any:
    """The value, as a Python number if it is a NumPy scalar."""
    if isinstance(value, np.generic):
        return value.item()
    return value


def _require_no_gaps(what: str, names: list[str | None]) -> list[str]:
    """The names. Raises InvalidRequestError if some are missing values."""
    present = [name for name in names if name is not None]
    if len(present) < len(names):
        gaps = len(names) - len(present)
        raise InvalidRequestError(
            f"{what}: {gaps} of {len(names)} are missing values, which stand for no row; drop them"
        )
    return present


def read_ids(ids: Any, what: str) -> np.ndarray:
    """Ids as int64 (N,). Tables may have them as floats, such as 7.0, or as strings of digits.

    Raises InvalidRequestError unless all are whole numbers.
    """
    numbers: list[Any] = []
    for value in list_values(ids):
        if isinstance(value, bool):
            raise InvalidRequestError(
                f"{what} must be ids of rows, not a boolean mask; pass `ids_[mask]`"
            )
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not is_whole and not (isinstance(value, str) and value.strip().isdecimal()):
            raise InvalidRequestError(f"{what} must be whole numbers from 0 on, not {value!r}")
        numbers.append(int(value))
    try:
        return check_ids(np.array(numbers, dtype=object))
    except ValueError as error:
        raise InvalidRequestError(str(error).replace("ids", what, 1)) from error


def resolve_ids(
    ids: Any, tables: dict[str, Any], count: int, start: int, stacklevel: int
) -> np.ndarray:
    """The ids that the user gave; else those of an index; else `start`, `start` + 1, ...

    tables, stacklevel: as for `read_index_ids`.
    """
    if ids is not None:
        return read_ids(ids, "ids")
    index = read_index_ids(tables, count, stacklevel + 1)
    if index is not None:
        return index
    return np.arange(start, start + count)


def read_unit_names(units: Any) -> list[str | None] | None:
    """The unit of each row, None for a row without one; None if the user gave no units."""
    if units is None:
        return None
    return [unit_name(unit) for unit in list_values(units)]


def read_index_ids(tables: dict[str, Any], count: int, stacklevel: int) -> np.ndarray | None:
    """Ids from the index of a pandas object; None if no object has one other than 0, 1, ...

    Warns if an index cannot serve as ids. tables: X, y and units by name; stacklevel: of the user's
    call.
    """
    ids: np.ndarray | None = None
    trouble = ""
    for name, table in tables.items():
        index = getattr(table, "index", None)
        # A list has `index`, too, a method.
        if not hasattr(index, "dtype") or len(table) != count:
            continue
        values = np.asarray(index)
        if values.dtype.kind in "iu" and np.array_equal(values, np.arange(count)):
            continue
        if values.dtype.kind not in "iu" or values.min() < 0 or len(np.unique(values)) < count:
            trouble = f"the index of {name} does not consist of distinct whole numbers from 0 on"
        elif ids is not None and not np.array_equal(ids, values):
            trouble = f"the index of {name} differs from that of the others"
        else:
            ids = values.astype(np.int64)
    if not trouble:
        return ids
    warnings.warn(
        f"{trouble}, so rows are numbered by position: do not pass values of the index to"
        " `forget(ids=…)`, where they would name other rows; pass ids=… here, or forget by units",
        UserWarning,
        stacklevel=stacklevel + 1,
    )
    return None
