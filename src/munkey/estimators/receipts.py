"""Deletions by estimators: find the requested rows, delete them, and write the receipt."""

import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from munkey.core.console import pluralize
from munkey.data.intake.unit_names import unit_name
from munkey.deploy.deletions import DeletionRequest
from munkey.deploy.errors import format_first_ten
from munkey.deploy.model.sources import suggest_near_names
from munkey.deploy.predictor import Predictor
from munkey.deploy.store.errors import LockedMemoryError
from munkey.estimators.errors import InvalidRequestError, UnknownRowsError
from munkey.estimators.names import RowRequest


@dataclass(frozen=True, eq=False, repr=False)
class DeletionReceipt:
    """The receipt of a deletion: a sequence of the forgotten rows' ids.

    It supports ``len``, ``for``, ``in``, indexing, ``tolist`` and ``numpy.asarray``. ``print`` shows a
    summary.

    Attributes
    ----------
    ids : ndarray of int64, shape (n_forgotten,)
        Ids of the forgotten rows, in ascending order; with ``dry_run=True``, of the rows that would
        be forgotten.
    left : int
        Number of remaining rows.
    copies : list of dict
        Remaining rows that are exact copies of forgotten rows, each with its ``id`` and ``unit``.
    emptied : tuple of str
        Classes without remaining rows.
    missing : tuple of str
        Requested names that no row has, if ``ignore_missing`` allowed them.
    dry_run : bool
        Whether this was a dry run, which changes nothing.
    answer : dict
        The result as printed by ``munkey forget --json``. For a model in memory, which has no chain
        of deletions, the chain's numbers and heads are None.
    """

    ids: np.ndarray
    left: int
    copies: list[dict[str, Any]]
    emptied: tuple[str, ...]
    missing: tuple[str, ...]
    dry_run: bool
    answer: dict[str, Any]

    def tolist(self) -> list[int]:
        return [int(number) for number in self.ids]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, position: Any) -> Any:
        return self.ids[position]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.ids, dtype=dtype, copy=copy)

    def __str__(self) -> str:
        rows = pluralize(len(self), "row")
        if self.dry_run:
            lines = [f"would forget {rows} and keep {self.left:,}"]
        else:
            lines = [f"forgot {rows}, {self.left:,} left"]
        if len(self):
            lines.append(f"ids {format_first_ten(self.tolist())}")
        else:
            lines.append("found nothing, so nothing was deleted")
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
    """Describe exact copies of forgotten rows that remain."""
    ids = [copy["id"] for copy in copies]
    units = sorted({copy["unit"] for copy in copies if copy["unit"]})
    unit_clause = ""
    if units:
        unit_clause = f", of unit {format_first_ten(units)}"
    return (
        f"exact copies of these stay: ids {format_first_ten(ids)}{unit_clause};"
        f" forget(ids={ids[:10]}) also forgets them"
    )


class NamedRows(NamedTuple):
    """The names of an estimator's rows, by ascending id.

    ids: (N,) int64; labels: (N,) classes as values; units: (N,) strings or None.
    """

    ids: np.ndarray
    labels: list[Any]
    units: list[str | None]


def read_named_rows(model: Predictor) -> NamedRows:
    """Read the names of a deployed model's rows."""
    manifest = model.follow()
    # Rows have the class as a string, but users pass the value that the model was fitted with.
    value_of_class: dict[str | None, Any] = dict(zip(manifest.names, manifest.classes, strict=True))
    rows = model.rows()
    ids = np.array([row.id for row in rows], dtype=np.int64)
    labels = [value_of_class.get(row.label) for row in rows]
    units = [row.unit for row in rows]
    return NamedRows(ids, labels, units)


class RowMatches(NamedTuple):
    """The rows that match names. ids: (N,) int64, ascending; missing: the names without rows."""

    ids: np.ndarray
    missing: list[str]


def match_files(model: Predictor, files: list[str]) -> RowMatches:
    """Find the rows of source files. Raises InvalidRequestError if a name matches two files."""
    try:
        selection = model.select(files=files, ignore_missing=True)
    except ValueError as error:
        raise InvalidRequestError(str(error)) from error
    return RowMatches(selection.ids, list(selection.missing))


def match_rows(
    request: RowRequest, rows: NamedRows, file_matches: RowMatches, *, ignore_missing: bool
) -> RowMatches:
    """Find the rows that match any name of a request.

    Raises UnknownRowsError for names that no row has, unless `ignore_missing`.
    """
    # Normalize the spelling of units, as in the request.
    units = [None if unit is None else unit_name(unit) for unit in rows.units]
    present_units = {unit for unit in units if unit is not None}
    present_labels = set(rows.labels)
    unknown_ids = np.setdiff1d(request.ids, rows.ids).tolist()
    # `dict.fromkeys` removes repetitions and keeps the request's order.
    missing_units = [unit for unit in dict.fromkeys(request.units) if unit not in present_units]
    missing_labels = [
        label for label in dict.fromkeys(request.labels) if label not in present_labels
    ]
    missing = [str(unknown_id) for unknown_id in unknown_ids]
    missing += [f"unit {unit!r}" for unit in missing_units]
    missing += [f"class {label!r}" for label in missing_labels]
    missing += [f"file {file!r}" for file in file_matches.missing]
    if missing and not ignore_missing:
        hint = suggest_near_names("unit", missing_units, present_units)
        raise UnknownRowsError(missing, hint)
    requested_units = set(request.units)
    requested_labels = set(request.labels)
    is_match = np.isin(rows.ids, np.union1d(request.ids, file_matches.ids))
    is_match |= np.array([unit in requested_units for unit in units], dtype=bool)
    is_match |= np.array([label in requested_labels for label in rows.labels], dtype=bool)
    return RowMatches(rows.ids[is_match], missing)


def describe_deletion(
    rows: NamedRows, keys: np.ndarray, ids: np.ndarray, *, dry_run: bool
) -> dict[str, Any]:
    """Describe a deletion from a model in memory, in the format of `munkey forget --json`.

    keys: (N, d), the keys of `rows`. ids: the rows to forget.
    """
    is_deleted = np.isin(rows.ids, ids)
    # Rows with equal sums are mostly copies, so only these are compared byte by byte.
    key_sums = keys.sum(axis=1)
    candidates = np.flatnonzero(~is_deleted & np.isin(key_sums, key_sums[is_deleted]))
    deleted_contents = {key.tobytes() for key in keys[is_deleted]}
    copies = [row for row in candidates.tolist() if keys[row].tobytes() in deleted_contents]
    deleted_per_class = Counter(str(rows.labels[row]) for row in np.flatnonzero(is_deleted))
    remaining_classes = {str(rows.labels[row]) for row in np.flatnonzero(~is_deleted)}
    result: dict[str, Any] = {
        "request": None,
        "identical": [int(rows.ids[row]) for row in copies],
        "copies": [{"id": int(rows.ids[row]), "unit": rows.units[row]} for row in copies],
        "left": int(np.count_nonzero(~is_deleted)),
    }
    if dry_run:
        return result | {"would_delete": ids.tolist(), "classes": dict(deleted_per_class)}
    # A model in memory has no chain of deletions, so its entries are None.
    result |= dict.fromkeys(("first", "last", "memory", "before", "head"))
    result["deleted"] = len(ids)
    result["when"] = datetime.now(UTC).isoformat(timespec="microseconds")
    result["repeated"] = False
    result["emptied"] = [name for name in deleted_per_class if name not in remaining_classes]
    result["purged"] = True
    return result


def delete_rows(model: Predictor, ids: np.ndarray, *, dry_run: bool) -> dict[str, Any]:
    """Forget rows of a deployed model and purge its files.

    This is the only place where an estimator deletes from a directory. Returns the result in the
    format of `munkey forget --json`.
    """
    request = DeletionRequest({None: [{"ids": ids}]}, ignore_missing=True)  # without a number
    if dry_run:
        [result] = model.preview(model.plan(request))
        return result
    results: list[dict[str, Any]] = []
    try:
        model.delete(request, purge=True, results=results)
    except LockedMemoryError as error:
        results[0]["unpurged"] = (
            f"{error}; until then, names of source files and units may remain in it"
        )
    return results[0]


def make_receipt(
    matches: RowMatches, result: dict[str, Any], *, dry_run: bool, stacklevel: int
) -> DeletionReceipt:
    """Make a deletion's receipt. Warns about remaining copies and files that were not purged.

    stacklevel: that of the user's call.
    """
    receipt = DeletionReceipt(
        ids=matches.ids,
        left=int(result["left"]),
        copies=list(result["copies"]),
        emptied=tuple(result.get("emptied") or ()),
        missing=tuple(matches.missing),
        dry_run=dry_run,
        answer=result | {"missing": matches.missing},
    )
    if receipt.copies and not dry_run:
        warnings.warn(_describe_copies(receipt.copies), UserWarning, stacklevel=stacklevel + 1)
    if "unpurged" in result:
        warnings.warn(result["unpurged"], UserWarning, stacklevel=stacklevel + 1)
    return receipt
