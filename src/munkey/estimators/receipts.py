"""What was forgotten, and how it is told: as the command `munkey forget --json` tells it."""

import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from munkey.core.console import counted
from munkey.data.intake.unit_names import unit_name
from munkey.deploy.deletions import DeletionRequest
from munkey.deploy.errors import first_ten
from munkey.deploy.model.sources import suggest_near_names
from munkey.deploy.predictor import Predictor
from munkey.deploy.store.errors import LockedMemoryError
from munkey.estimators.errors import InvalidRequestError, UnknownRowsError
from munkey.estimators.names import RowRequest


@dataclass(frozen=True, eq=False, repr=False)
class Forgotten:
    """The receipt of a deletion. It behaves as the ids that went: `len`, `for`, `in`, `tolist` and indexing.

    Attributes
    ----------
    ids : ndarray of int64, shape (n_forgotten,)
        The rows that went, ascending; after ``dry_run=True``, those that would go.
    left : int
        How many rows are left.
    copies : list of dict
        Other rows that are exact copies of these and stay, each with its ``id`` and ``unit``.
    emptied : tuple of str
        Classes that have no row left.
    missing : tuple of str
        What was named and is not there, if ``ignore_missing`` let it pass.
    dry_run : bool
        Whether nothing was changed.
    answer : dict
        What ``munkey forget --json`` answers: of a model in a directory, also numbers and head of the chain of
        deletions, None in memory.
    """

    ids: np.ndarray
    answer: dict[str, Any]
    dry_run: bool = False

    @property
    def left(self) -> int:
        return int(self.answer["left"])

    @property
    def copies(self) -> list[dict[str, Any]]:
        return list(self.answer["copies"])

    @property
    def emptied(self) -> tuple[str, ...]:
        return tuple(self.answer.get("emptied") or ())

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(self.answer["missing"])

    def tolist(self) -> list[int]:
        return [int(number) for number in self.ids]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, place: Any) -> Any:
        return self.ids[place]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.ids, dtype=dtype, copy=copy)

    def __str__(self) -> str:
        """What was done, in sentences."""
        if self.dry_run:
            lines = [f"would forget {counted(len(self), 'row')} and keep {self.left:,}"]
        else:
            lines = [f"forgot {counted(len(self), 'row')}, {self.left:,} left"]
        if len(self):
            lines.append(f"ids {first_ten(self.tolist())}")
        else:
            lines.append("found nothing, so nothing was deleted")
        if self.copies:
            lines.append(_copies_stay(self.copies))
        if self.emptied:
            lines.append(f"no row is left of {first_ten(self.emptied)}")
        if self.missing:
            lines.append(f"not there: {first_ten(self.missing)}")
        if "unpurged" in self.answer:
            lines.append(self.answer["unpurged"])
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Forgotten: {'; '.join(str(self).splitlines())}>"


def _copies_stay(copies: Collection[Mapping[str, Any]]) -> str:
    ids = [copy["id"] for copy in copies]
    units = sorted({copy["unit"] for copy in copies if copy["unit"]})
    of_units = f", of unit {first_ten(units)}" if units else ""
    return f"exact copies of these stay: ids {first_ten(ids)}{of_units}; forget(ids={ids[:10]}) forgets them too"


class NamedRows(NamedTuple):
    """The rows of an estimator by ascending id: ids (N,), their classes (N,) as values, units (N,) texts or None."""

    ids: np.ndarray
    labels: list[Any]
    units: list[str | None]


def rows_of(model: Predictor) -> NamedRows:
    """The rows that a deployed model holds."""
    manifest = model.follow()
    values = dict(zip(manifest.names, manifest.classes, strict=True))
    rows = model.rows()
    ids = np.array([row.id for row in rows], dtype=np.int64)
    labels = [None if row.label is None else values.get(row.label) for row in rows]
    return NamedRows(ids, labels, [row.unit for row in rows])


class NamedByFile(NamedTuple):
    """What file names mean. ids: of rows, (N,) int64; missing: the names that no row has."""

    ids: np.ndarray
    missing: list[str]


def named_by_file(model: Predictor, files: list[str]) -> NamedByFile:
    """What file names mean to a model. Raises InvalidRequestError for a name that means two files, or none at all."""
    try:
        selection = model.select(files=files, ignore_missing=True)
    except ValueError as error:
        raise InvalidRequestError(str(error)) from error
    return NamedByFile(selection.ids, list(selection.missing))


def meant(
    request: RowRequest, rows: NamedRows, by_file: NamedByFile, *, ignore_missing: bool
) -> tuple[np.ndarray, list[str]]:
    """The ids of the rows that a request names, ascending, and the names that no row has.

    Raises UnknownRowsError for the latter, unless `ignore_missing`.
    """
    missing = [str(number) for number in np.setdiff1d(request.ids, rows.ids).tolist()]
    requested_units = set(request.units)
    requested_labels = set(request.labels)
    units = [None if unit is None else unit_name(unit) for unit in rows.units]
    held_units = set(units)
    missing_units = [unit for unit in dict.fromkeys(request.units) if unit not in held_units]
    missing += [f"unit {unit!r}" for unit in missing_units]
    held_classes = set(rows.labels)
    missing += [
        f"class {label!r}" for label in dict.fromkeys(request.labels) if label not in held_classes
    ]
    missing += [f"file {file!r}" for file in by_file.missing]
    chosen = np.isin(rows.ids, np.union1d(request.ids, by_file.ids))
    chosen |= np.array([unit in requested_units for unit in units], dtype=bool)
    chosen |= np.array([label in requested_labels for label in rows.labels], dtype=bool)
    if missing and not ignore_missing:
        near = suggest_near_names(
            "unit", missing_units, [unit for unit in held_units if unit is not None]
        )
        raise UnknownRowsError(missing, near)
    return rows.ids[chosen], missing


def answer_in_memory(
    rows: NamedRows, keys: np.ndarray, ids: np.ndarray, *, dry_run: bool
) -> dict[str, Any]:
    """What the command would answer of a deletion of rows that lie in no directory. keys: (N, d) of the rows."""
    gone = np.isin(rows.ids, ids)
    # Rows of equal sums are few, unless they are copies: only these are compared byte by byte.
    key_sums = keys.sum(axis=1)
    candidates = np.flatnonzero(~gone & np.isin(key_sums, key_sums[gone]))
    contents_gone = {key.tobytes() for key in keys[gone]}
    copies = [place for place in candidates.tolist() if keys[place].tobytes() in contents_gone]
    classes: dict[str, int] = {}
    for place in np.flatnonzero(gone).tolist():
        name = str(rows.labels[place])
        classes[name] = classes.get(name, 0) + 1
    remaining = {str(rows.labels[place]) for place in np.flatnonzero(~gone).tolist()}
    identical = [int(rows.ids[place]) for place in copies]
    answer: dict[str, Any] = {
        "request": None,
        "identical": identical,
        "copies": [{"id": int(rows.ids[place]), "unit": rows.units[place]} for place in copies],
        "left": int(np.count_nonzero(~gone)),
    }
    if dry_run:
        return answer | {"would_delete": ids.tolist(), "classes": classes}
    in_no_chain = dict.fromkeys(("first", "last", "memory", "before", "head"))
    emptied = [name for name in classes if name not in remaining]
    when = datetime.now(UTC).isoformat(timespec="microseconds")
    return (
        answer
        | in_no_chain
        | {
            "deleted": len(ids),
            "when": when,
            "repeated": False,
            "emptied": emptied,
            "purged": True,
        }
    )


def delete(model: Predictor, ids: np.ndarray, *, dry_run: bool) -> dict[str, Any]:
    """Forget rows of a deployed model, so that no file of it holds them: the answer, as of the command.

    The only place where an estimator deletes from a directory.
    """
    request = DeletionRequest({None: [{"ids": ids}]}, ignore_missing=True)
    if dry_run:
        return model.preview(model.plan(request))[0]
    answers: list[dict[str, Any]] = []
    try:
        model.delete(request, purge=True, answers=answers)
    except LockedMemoryError as error:
        answers[0]["unpurged"] = (
            f"{error}; until then, names of source files and units may be left in it"
        )
    return answers[0]


def told(
    ids: np.ndarray, answer: dict[str, Any], missing: list[str], *, dry_run: bool, stacklevel: int
) -> Forgotten:
    """The receipt. Warns of exact copies that stay, and of what a purge left. stacklevel: of the user's call."""
    receipt = Forgotten(ids, answer | {"missing": missing}, dry_run)
    if not dry_run and receipt.copies:
        warnings.warn(_copies_stay(receipt.copies), UserWarning, stacklevel=stacklevel + 1)
    if "unpurged" in answer:
        warnings.warn(answer["unpurged"], UserWarning, stacklevel=stacklevel + 1)
    return receipt
