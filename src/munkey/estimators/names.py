"""Reading the ids, units, classes and files that users pass.

They may be lists, arrays, pandas objects or single values.
"""

import math
import os
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from munkey.core.console import warn_user
from munkey.data.intake.unit_names import normalize_name, unit_name
from munkey.deploy.model.manifest import ID_LIMIT
from munkey.estimators.errors import InvalidRequestError
from munkey.memory.rows import check_ids

# scikit-learn's functions that fit a model only to measure it.
CROSS_VALIDATION_FUNCTIONS = ("_fit_and_score", "_fit_and_predict")


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
        labels=read_label_request(labels),
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


def resolve_ids(ids: Any, tables: dict[str, Any], count: int, start: int) -> np.ndarray:
    """Return the ids of new rows: the user's, those of a pandas index, or `start`, `start` + 1, ...

    Raises InvalidRequestError if an id is too large for a directory.

    Parameters
    ----------
    tables
        Same as for `read_index_ids`.
    """
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
    return [unit_name(unit) for unit in list_values(units)]


def read_index_ids(tables: dict[str, Any], count: int) -> np.ndarray | None:
    """Read ids from the index of pandas objects; None if every index counts from 0.

    Also None, with a warning, if an index cannot be used as ids. Warns as well if X has no index,
    because its user may take row numbers for ids. Tables with another number of rows than `count`
    are ignored.
    """
    ids: np.ndarray | None = None
    fault = ""
    # The name of the table whose index gives the ids.
    name_of_index = ""
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
        name_of_index = name_of_index or name
    if fault:
        _warn_of_ids(
            f"{fault}, so rows are numbered by position. Do not pass values of the index to"
            " `forget(ids=…)`, where they would refer to other rows. Pass ids=… here, or forget by"
            " units"
        )
        return None
    if ids is not None and name_of_index != "X":
        _warn_of_ids(
            f"the index of {name_of_index} gives the ids, because X has no index: they are not row"
            f" numbers, and the first row has the id {ids[0]}. Pass ids=… here to choose others"
        )
    return ids


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
    names = [class_name(value) for value in flat_values]
    return np.array(names, dtype=str).reshape(values.shape)


def class_name(name: str) -> str:
    """Return the name of a class in Unicode form NFC, without surrounding spaces."""
    return normalize_name(name)


def _is_missing(value: Any) -> bool:
    """Return whether a class is None, NaN, NA, NaT, or a name without letters."""
    if isinstance(value, str):
        return not value.strip()
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def read_label_request(labels: Any) -> list[Any]:
    """Return the classes in a request, with normalized names."""
    return [class_name(label) if isinstance(label, str) else label for label in list_values(labels)]


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
