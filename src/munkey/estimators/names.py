"""Reading the ids, units, classes and files that users pass.

They may be lists, arrays, pandas objects or single values.
"""

import math
import os
import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from munkey.core.console import warn_user
from munkey.data.intake.unit_names import (
    MAX_EXACT_FLOAT,
    normalize_name,
    parse_id,
    unit_name,
)
from munkey.deploy.model.manifest import ID_LIMIT
from munkey.estimators.errors import InvalidRequestError
from munkey.memory.rows import check_ids

# scikit-learn's functions that fit a model only to measure it.
CROSS_VALIDATION_FUNCTIONS = ("_fit_and_score", "_fit_and_predict")
DATES = "mM"  # the kinds of NumPy arrays with dates and durations, which have no form in JSON


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
    given_kinds = [names for names in (units, labels, files) if names is not None]
    if len(given_kinds) > 1:
        raise InvalidRequestError(
            "units, labels and files cannot be combined, because it is unclear whether to forget rows"
            " that match all or any: pass one of them, or ids"
        )
    unit_names = [unit_name(unit) for unit in list_values(units)]
    return RowRequest(
        ids=read_ids(ids, "ids"),
        units=_require_present("units", unit_names),
        labels=read_label_request(labels),
        files=[_read_file_name(file) for file in list_values(files)],
    )


def _read_file_name(file: Any) -> str:
    """Return a file's name as text. Raises InvalidRequestError for anything but text or a path."""
    if not isinstance(file, str | os.PathLike):
        raise InvalidRequestError(
            f"files must be names or paths of pictures, not {file!r}; numbers are ids or units"
        )
    return os.fspath(file)


def list_values(values: Any) -> list[Any]:
    """Return the values of a list, an array, a Series, an Index or a generator as a list.

    A single value gives a list of one value, and None gives an empty list.

    Raises InvalidRequestError for a table or a mapping, whose items would be the names of columns.
    """
    if values is None:
        return []
    if hasattr(values, "columns") or isinstance(values, Mapping):
        raise InvalidRequestError(
            f"expected a list of values, not a {type(values).__name__}; pass one of its columns"
        )
    if hasattr(values, "tolist"):
        values = values.tolist()  # a single value if the array has no dimension
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable):
        values = [values]
    return [to_python(value) for value in values]


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

    Floats such as 7.0 and strings such as "7" and "7.0" are accepted, because tables often contain
    them. Raises InvalidRequestError if an id is not a nonnegative integer.

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
        if isinstance(value, float) and abs(value) >= MAX_EXACT_FLOAT:
            raise InvalidRequestError(
                f"{argument}: {value!r} is a float, which cannot tell integers from 2^53 on apart;"
                " pass integers (one missing value in a pandas column makes all of them floats)"
            )
        whole_number = None
        if isinstance(value, str):
            whole_number = parse_id(value)
        elif isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
            whole_number = int(value)
        if whole_number is None:
            raise InvalidRequestError(f"{argument} must be nonnegative integers, not {value!r}")
        whole_numbers.append(whole_number)
    try:
        # Without dtype=object, NumPy would convert some numbers beyond int64 to floats.
        return check_ids(np.array(whole_numbers, dtype=object))
    except ValueError as error:
        raise InvalidRequestError(str(error).replace("ids", argument, 1)) from error


def resolve_ids(ids: Any, tables: dict[str, Any], count: int, start: int) -> np.ndarray:
    """Return the ids of new rows: the user's, those of a pandas index, or `start`, `start` + 1, ...

    Raises InvalidRequestError if an id is too large for a directory.

    Parameters
    ----------
    tables
        Same as for `read_index_ids`.
    """
    if isinstance(ids, set | frozenset):
        raise InvalidRequestError("ids: pass one id for each row, in the order of the rows")
    if ids is not None:
        row_ids = read_ids(ids, "ids")
    else:
        index_ids = read_index_ids(tables, count)
        row_ids = np.arange(start, start + count) if index_ids is None else index_ids
    largest_id = int(row_ids.max(initial=0))
    if largest_id >= ID_LIMIT:
        raise InvalidRequestError(f"ids must be below 2^62, but the largest is {largest_id}")
    return row_ids


def read_unit_names(units: Any) -> list[str | None] | None:
    """Return the name of each row's unit, with None for a row without a unit.

    If the user passed no units, returns None instead of a list.
    """
    if units is None:
        return None
    names = list_values(units)
    if isinstance(units, set | frozenset) or any(isinstance(name, list) for name in names):
        raise InvalidRequestError("units: pass one name for each row, in the order of the rows")
    return [unit_name(unit) for unit in names]


def read_index_ids(tables: dict[str, Any], count: int) -> np.ndarray | None:
    """Read ids from the index of pandas objects; None if every index counts from 0.

    Also None, with a warning, if an index cannot be used as ids. Warns as well if X has no index,
    because its user may take row numbers for ids. Tables with another number of rows than `count`
    are ignored.

    Raises InvalidRequestError if two indices hold the same values in another order.
    """
    indices: dict[str, np.ndarray] = {}
    for name, table in tables.items():
        index = getattr(table, "index", None)
        # The `index` of a list is a method, which has no dtype.
        if hasattr(index, "dtype") and len(table) == count:
            indices[name] = np.asarray(index)
    _require_same_order(indices)
    # An index that counts from 0 is that of a table without ids.
    chosen = {
        name: values
        for name, values in indices.items()
        if values.dtype.kind not in "iu" or not np.array_equal(values, np.arange(count))
    }
    if not chosen:
        return None
    name_of_index, ids = next(iter(chosen.items()))
    fault = ""
    for name, values in chosen.items():
        if not _is_usable_index(values):
            fault = f"the index of {name} does not consist of distinct nonnegative integers"
            break
        if not np.array_equal(ids, values):
            fault = f"the index of {name} differs from the others"
            break
    if fault:
        _warn_of_ids(
            f"{fault}, so rows are numbered by position. Do not pass values of the index to"
            " `forget(ids=…)`, where they would refer to other rows. Pass ids=… here, or forget by"
            " units"
        )
        return None
    if name_of_index != "X":
        reason = "has no index" if "X" not in indices else "is numbered from 0"
        _warn_of_ids(
            f"the index of {name_of_index} gives the ids, because X {reason}: they are not row"
            f" numbers, and the first row has the id {ids[0]}. Pass ids=… here to choose others"
        )
    return ids.astype(np.int64)


def _is_usable_index(values: np.ndarray) -> bool:
    """Return whether the values of an index can be ids."""
    if values.dtype.kind not in "iu" or len(np.unique(values)) < len(values):
        return False
    return bool(values.min() >= 0 and values.max() < ID_LIMIT)


def _require_same_order(indices: dict[str, np.ndarray]) -> None:
    """Raise InvalidRequestError if two tables have the same index in another order.

    Rows are matched by position, so each unit or class would belong to another row.
    """
    if not indices:
        return
    [first_name, *other_names] = indices
    first_values = indices[first_name]
    for name in other_names:
        values = indices[name]
        is_shuffled = (
            first_values.dtype.kind in "iu"
            and values.dtype.kind in "iu"
            and not np.array_equal(first_values, values)
            and np.array_equal(np.sort(first_values), np.sort(values))
        )
        if is_shuffled:
            raise InvalidRequestError(
                f"{first_name} and {name} have the same index in another order, but rows are matched"
                f" by position: sort them alike, e.g. {name}.loc[{first_name}.index]"
            )


def _warn_of_ids(message: str) -> None:
    """Warn about ids, except in cross-validation, whose models forget nothing."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package == "sklearn" and frame.f_code.co_name in CROSS_VALIDATION_FUNCTIONS:
            return
        frame = frame.f_back
    warn_user(message)


def read_labels(y: Any) -> Any:
    """Return classes as an array. Names are normalized like those of units.

    Text has Unicode form NFC and no surrounding spaces, whatever holds it: a list, an array, or a
    pandas object. Anything that cannot be classes is returned unchanged, and scikit-learn refuses it.

    Raises
    ------
    ValueError
        If a class is missing (None, NaN, NA, or a name without letters), or if text is mixed with
        numbers.
    """
    # Without dtype=object, NumPy would convert None and numbers beside text to text.
    values = np.asarray(y, dtype=None if hasattr(y, "dtype") else object)
    if values.ndim == 0:
        return y
    if values.dtype.kind in DATES:
        raise ValueError(f"y: classes cannot be of type {values.dtype}; make them text")
    if values.dtype.kind not in "OUf":
        return values
    flat_values = values.ravel().tolist()
    missing_positions = [row for row, value in enumerate(flat_values) if _is_missing(value)]
    if missing_positions:
        raise ValueError(
            f"y: {len(missing_positions):,} of {len(flat_values):,} classes are missing, the first"
            f" in row {missing_positions[0]}; name them, or leave out their rows"
        )
    text_count = sum(isinstance(value, str) for value in flat_values)
    if not text_count:
        return np.array(values.tolist()) if values.dtype.kind == "O" else values
    if text_count < len(flat_values):
        example = next(value for value in flat_values if not isinstance(value, str))
        raise ValueError(
            f"y: {text_count:,} of {len(flat_values):,} classes are text, but others are not, such"
            f" as {example!r}; make all of them text, or all numbers"
        )
    names = [normalize_name(value) for value in flat_values]
    return np.array(names, dtype=str).reshape(values.shape)


def _is_missing(value: Any) -> bool:
    """Return whether a class is None, NaN, NA, NaT, or a name without letters."""
    if isinstance(value, str):
        return not value.strip()
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def read_label_request(labels: Any) -> list[Any]:
    """Return the classes in a request, with normalized names.

    Raises InvalidRequestError if a class is missing or is no single value.
    """
    names = []
    for label in list_values(labels):
        if isinstance(label, list):
            raise InvalidRequestError("labels must be a list of classes, not a table")
        if _is_missing(label):
            raise InvalidRequestError("labels: a class is missing (None, NaN, or no letters)")
        names.append(normalize_name(label) if isinstance(label, str) else label)
    return names


def describe_kind(values: Iterable[Any]) -> str:
    """Return the kind of classes: text, booleans, integers or numbers; empty without classes."""
    kind = ""
    for value in values:
        if isinstance(value, str):
            return "text"
        if isinstance(value, bool):
            return "booleans"
        if isinstance(value, float):
            return "numbers"
        kind = "integers"
    return kind
