"""Deletions by estimators: finding the requested rows, and deleting them."""

import warnings
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from munkey.data.intake.unit_names import match_classes
from munkey.deploy.deletions import Deletion, DeletionRequest, list_patterns
from munkey.deploy.model.sources import suggest_near_names
from munkey.deploy.predictor import Predictor
from munkey.estimators.errors import InvalidRequestError, UnknownRowsError
from munkey.estimators.names import RowRequest, describe_kind


class NamedRows(NamedTuple):
    """The ids (N,), classes and units of an estimator's rows, sorted by id.

    labels: as the values that were passed to `fit`. units: None for a row without a unit.
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

    ids: (N,), ascending. missing: requested ids, units, classes and files without rows. patterns: the
    requested files that are patterns. hint: sentences that suggest similar names; may be empty.
    """

    ids: np.ndarray
    missing: list[str]
    patterns: tuple[str, ...]
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
    # All names of units are normalized.
    classes = list(dict.fromkeys(rows.labels))
    # In Python, True == 1, so a mask would match the classes 0 and 1.
    kinds = {describe_kind(request.labels), describe_kind(classes)} - {""}
    if "booleans" in kinds and len(kinds) > 1:
        raise InvalidRequestError(
            "labels must be classes, not a boolean mask; pass `ids=ids_[mask]`, or the classes"
        )
    present_units = {unit for unit in rows.units if unit is not None}
    unknown_ids = np.setdiff1d(request.ids, rows.ids).tolist()
    # `dict.fromkeys` removes duplicates and keeps the order of the request.
    missing_units = [unit for unit in dict.fromkeys(request.units) if unit not in present_units]
    missing_labels = []
    requested_classes = set()
    labels = list(dict.fromkeys(request.labels))
    for label, position in zip(labels, match_classes(labels, classes), strict=True):
        if position is None:
            missing_labels.append(label)
        else:
            requested_classes.add(classes[position])
    missing = [str(unknown_id) for unknown_id in unknown_ids]
    missing += [f"unit {unit!r}" for unit in missing_units]
    missing += [f"class {label!r}" for label in missing_labels]
    missing += [f"file {file!r}" for file in file_matches.missing]
    if missing and not ignore_missing:
        unit_hint = suggest_near_names("unit", missing_units, present_units)
        class_hint = suggest_near_names("class", map(str, missing_labels), map(str, classes))
        hint = f"{unit_hint}{class_hint}{file_matches.hint}".rstrip()
        raise UnknownRowsError(missing, hint)
    requested_units = set(request.units)
    is_match = np.isin(rows.ids, np.union1d(request.ids, file_matches.ids))
    is_match |= np.array([unit in requested_units for unit in rows.units], dtype=bool)
    is_match |= np.array([label in requested_classes for label in rows.labels], dtype=bool)
    return RowMatches(rows.ids[is_match], missing, file_matches.patterns)


def describe_deletion(
    rows: NamedRows, ids: np.ndarray, copy_ids: np.ndarray, *, dry_run: bool
) -> Deletion:
    """Describe the deletion of rows of a model in memory, or its dry run.

    rows: all rows before the deletion. copy_ids: other rows that are exact copies of those with `ids`.
    """
    is_deleted = np.isin(rows.ids, ids)
    deleted_per_class = Counter(str(rows.labels[row]) for row in np.flatnonzero(is_deleted))
    remaining_classes = {str(rows.labels[row]) for row in np.flatnonzero(~is_deleted)}
    emptied = tuple(name for name in deleted_per_class if name not in remaining_classes)
    copies = np.flatnonzero(np.isin(rows.ids, copy_ids))
    return Deletion(
        ids=ids,
        left=int(np.count_nonzero(~is_deleted)),
        classes=deleted_per_class,
        copies=[{"id": int(rows.ids[row]), "unit": rows.units[row]} for row in copies],
        emptied=() if dry_run else emptied,
        dry_run=dry_run,
        when=None if dry_run else datetime.now(UTC),
        purged=not dry_run,
    )


def delete_rows(model: Predictor, ids: np.ndarray, *, dry_run: bool) -> Deletion:
    """Forget rows of a deployed model and purge its files, or only preview this in a dry run.

    This is the only place where an estimator deletes rows from a directory.
    """
    # The key None stands for a request without a number.
    request = DeletionRequest({None: [{"ids": ids}]}, ignore_missing=True)
    if dry_run:
        [deletion] = model.preview(model.plan(request))
    else:
        [deletion] = model.delete(request, purge=True)
    return deletion


def complete_deletion(
    deletion: Deletion,
    matches: RowMatches,
    copies: str = "exact copies of these",
    *,
    stacklevel: int,
) -> Deletion:
    """Add the names that matched no row, and warn about copies and unpurged files that remain.

    copies: what equal rows are called. stacklevel: the stack level of the user's call, seen from the
    caller.
    """
    if deletion.copies and not deletion.dry_run:
        warnings.warn(
            deletion.describe_copies(copies=copies), UserWarning, stacklevel=stacklevel + 1
        )
    if deletion.unpurged:
        warnings.warn(deletion.unpurged, UserWarning, stacklevel=stacklevel + 1)
    return replace(deletion, missing=tuple(matches.missing), patterns=matches.patterns)
