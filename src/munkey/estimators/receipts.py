"""Deletions by estimators: finding the requested rows, and the receipt of a deletion."""

import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from munkey.core.console import pluralize
from munkey.data.intake.unit_names import unit_name
from munkey.deploy.deletions import DeletionRequest, list_patterns
from munkey.deploy.errors import format_first_ten
from munkey.deploy.model.sources import suggest_near_names
from munkey.deploy.predictor import Predictor
from munkey.estimators.errors import InvalidRequestError, UnknownRowsError
from munkey.estimators.names import RowRequest, class_name


@dataclass(frozen=True, eq=False, repr=False)
class DeletionReceipt:
    """The receipt of a deletion: a sequence of the forgotten rows' ids.

    It supports ``len``, ``for``, ``in``, indexing, ``tolist`` and ``numpy.asarray``. Use ``print`` to
    show a summary.

    Attributes
    ----------
    ids : ndarray of int64, shape (n_forgotten,)
        Ids of the forgotten rows, in ascending order. After ``dry_run=True``, ids of the rows that
        would be forgotten.
    left : int
        Number of remaining rows.
    copies : list of dict
        Remaining rows that are exact copies of forgotten rows, each with its ``id`` and ``unit``.
    emptied : tuple of str
        Classes that lost their last row.
    missing : tuple of str
        Requested ids, units, classes and files without rows, if ``ignore_missing=True``.
    dry_run : bool
        Whether this was a dry run, which changes nothing.
    answer : dict
        The output of ``munkey forget --json``. A model in memory has no chain of deletions, so the
        entries about the chain are None.
    """

    ids: np.ndarray
    left: int
    copies: list[dict[str, Any]]
    emptied: tuple[str, ...]
    missing: tuple[str, ...]
    dry_run: bool
    answer: dict[str, Any]

    def tolist(self) -> list[int]:
        return [int(row_id) for row_id in self.ids]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, position: Any) -> Any:
        return self.ids[position]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.ids, dtype=dtype, copy=copy)

    def __str__(self) -> str:
        if self.dry_run:
            lines = [f"would forget {pluralize(len(self), 'row')} and keep {self.left:,}"]
        else:
            lines = [f"forgot {pluralize(len(self), 'row')}, {self.left:,} left"]
        if len(self):
            lines.append(f"ids {format_first_ten(self.tolist())}")
        else:
            lines.append("found nothing, so nothing was deleted")
        if self.answer["patterns"]:
            lines.append(f"given as patterns: {format_first_ten(self.answer['patterns'])}")
        if self.copies:
            lines.append(_describe_copies(self.copies))
        if self.emptied:
            lines.append(f"no row is left in class {format_first_ten(self.emptied)}")
        if self.missing:
            lines.append(f"not found: {format_first_ten(self.missing)}")
        if "unpurged" in self.answer:
            lines.append(self.answer["unpurged"])
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<DeletionReceipt: {'; '.join(str(self).splitlines())}>"


def _describe_copies(copies: Collection[Mapping[str, Any]]) -> str:
    """Describe remaining rows that are exact copies of forgotten rows."""
    ids = [copy["id"] for copy in copies]
    units = sorted({copy["unit"] for copy in copies if copy["unit"]})
    unit_clause = f", of unit {format_first_ten(units)}" if units else ""
    return (
        f"exact copies of these remain: ids {format_first_ten(ids)}{unit_clause};"
        f" to forget them too, call forget(ids={ids[:10]})"
    )


class NamedRows(NamedTuple):
    """The ids, classes and units of an estimator's rows, sorted by id.

    Attributes
    ----------
    ids
        (N,) int64.
    labels
        (N,): the class of each row, as the value that was passed to `fit`.
    units
        (N,): the unit of each row. None for a row without a unit.
    """

    ids: np.ndarray
    labels: list[Any]
    units: list[str | None]


def read_named_rows(model: Predictor) -> NamedRows:
    """Read the ids, classes and units of a deployed model's rows."""
    # A row lists its class as a string. Users pass the value that was passed to `fit`.
    classes = model.classes
    class_of_name: dict[str | None, Any] = dict(zip(classes.texts, classes.names, strict=True))
    rows = model.rows()
    return NamedRows(
        ids=np.array([row.id for row in rows], dtype=np.int64),
        labels=[class_of_name.get(row.label) for row in rows],
        units=[row.unit for row in rows],
    )


class RowMatches(NamedTuple):
    """The rows that match a request.

    Attributes
    ----------
    ids
        (N,) int64: the ids of these rows, in ascending order.
    missing
        Requested ids, units, classes and files without rows.
    patterns
        The requested files that are patterns.
    hint
        Sentences that suggest names similar to the missing ones; may be empty.
    """

    ids: np.ndarray
    missing: list[str]
    patterns: list[str]
    hint: str = ""


def match_files(model: Predictor, files: list[str]) -> RowMatches:
    """Find the rows of source files. Raises InvalidRequestError if a name matches two files."""
    try:
        selection = model.select(files=files, ignore_missing=True)
    except ValueError as error:
        raise InvalidRequestError(str(error)) from error
    patterns = list_patterns([{"files": files}])
    return RowMatches(selection.ids, list(selection.missing), patterns, selection.hint)


def match_rows(
    request: RowRequest, rows: NamedRows, file_matches: RowMatches, *, ignore_missing: bool
) -> RowMatches:
    """Find the rows that have any of the requested ids, units, classes or files.

    Raises UnknownRowsError if an id, unit, class or file has no row, unless `ignore_missing` is true.

    Parameters
    ----------
    file_matches
        The rows of the requested files, from `match_files`.
    """
    # Normalize the names. Those in the request are already normalized.
    units = [None if unit is None else unit_name(unit) for unit in rows.units]
    labels = [class_name(label) if isinstance(label, str) else label for label in rows.labels]
    present_units = {unit for unit in units if unit is not None}
    present_labels = set(labels)
    unknown_ids = np.setdiff1d(request.ids, rows.ids).tolist()
    # `dict.fromkeys` removes duplicates and keeps the order of the request.
    missing_units = [unit for unit in dict.fromkeys(request.units) if unit not in present_units]
    missing_labels = [
        label for label in dict.fromkeys(request.labels) if label not in present_labels
    ]
    missing = [str(unknown_id) for unknown_id in unknown_ids]
    missing += [f"unit {unit!r}" for unit in missing_units]
    missing += [f"class {label!r}" for label in missing_labels]
    missing += [f"file {file!r}" for file in file_matches.missing]
    if missing and not ignore_missing:
        unit_hint = suggest_near_names("unit", missing_units, present_units)
        missing_texts = [label for label in missing_labels if isinstance(label, str)]
        present_texts = [label for label in present_labels if isinstance(label, str)]
        class_hint = suggest_near_names("class", missing_texts, present_texts)
        hint = f"{unit_hint}{class_hint}{file_matches.hint}".rstrip()
        raise UnknownRowsError(missing, hint)
    requested_units = set(request.units)
    requested_labels = set(request.labels)
    is_match = np.isin(rows.ids, np.union1d(request.ids, file_matches.ids))
    is_match |= np.array([unit in requested_units for unit in units], dtype=bool)
    is_match |= np.array([label in requested_labels for label in labels], dtype=bool)
    return RowMatches(rows.ids[is_match], missing, file_matches.patterns)


def describe_deletion(
    rows: NamedRows, ids: np.ndarray, copy_ids: np.ndarray, *, dry_run: bool
) -> dict[str, Any]:
    """Return the output of `munkey forget --json` for a deletion from a model in memory.

    Parameters
    ----------
    rows
        All rows before the deletion.
    ids
        The ids of the rows to forget.
    copy_ids
        The ids of other rows that are exact copies of these.
    """
    is_deleted = np.isin(rows.ids, ids)
    copies = np.flatnonzero(np.isin(rows.ids, copy_ids))
    deleted_per_class = Counter(str(rows.labels[row]) for row in np.flatnonzero(is_deleted))
    remaining_classes = {str(rows.labels[row]) for row in np.flatnonzero(~is_deleted)}
    output: dict[str, Any] = {
        "request": None,
        "identical": [int(rows.ids[row]) for row in copies],
        "copies": [{"id": int(rows.ids[row]), "unit": rows.units[row]} for row in copies],
        "left": int(np.count_nonzero(~is_deleted)),
    }
    if dry_run:
        return output | {"would_delete": ids.tolist(), "classes": dict(deleted_per_class)}
    # There is no chain of deletions in memory, so its entries are None.
    output |= dict.fromkeys(("first", "last", "memory", "before", "head"))
    output["deleted"] = len(ids)
    output["when"] = datetime.now(UTC).isoformat(timespec="microseconds")
    output["repeated"] = False
    output["emptied"] = [name for name in deleted_per_class if name not in remaining_classes]
    output["purged"] = True
    return output


def delete_rows(model: Predictor, ids: np.ndarray, *, dry_run: bool) -> dict[str, Any]:
    """Forget rows of a deployed model and purge its files, or only preview this in a dry run.

    This is the only place where an estimator deletes rows from a directory. Returns the output of
    `munkey forget --json`. If the purge could not finish, the output also has the entry `unpurged`,
    with an explanation.
    """
    # The key None stands for a request without a number.
    request = DeletionRequest({None: [{"ids": ids}]}, ignore_missing=True)
    if dry_run:
        [output] = model.preview(model.plan(request))
        return output
    [output] = model.delete(request, purge=True)
    return output


def make_receipt(
    matches: RowMatches, output: dict[str, Any], *, dry_run: bool, stacklevel: int
) -> DeletionReceipt:
    """Return the receipt of a deletion.

    Warns about remaining copies, except in a dry run, and about files that were not purged.

    Parameters
    ----------
    output
        The output of `munkey forget --json`.
    stacklevel
        The stack level of the user's call, seen from the caller.
    """
    receipt = DeletionReceipt(
        ids=matches.ids,
        left=int(output["left"]),
        copies=list(output["copies"]),
        emptied=tuple(output.get("emptied") or ()),
        missing=tuple(matches.missing),
        dry_run=dry_run,
        answer=output | {"missing": matches.missing, "patterns": matches.patterns},
    )
    if receipt.copies and not dry_run:
        warnings.warn(_describe_copies(receipt.copies), UserWarning, stacklevel=stacklevel + 1)
    if "unpurged" in output:
        warnings.warn(output["unpurged"], UserWarning, stacklevel=stacklevel + 1)
    return receipt
