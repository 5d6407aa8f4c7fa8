"""The rows of an estimator: in memory or, after it is saved, in a deployed directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np

from munkey.core.ids import NO_NEIGHBOR
from munkey.deploy.errors import translate_read_errors
from munkey.deploy.estimator_predictor import EstimatorPredictor
from munkey.deploy.model.export import EstimatorRows, write_rows
from munkey.deploy.model.manifest import EstimatorReference
from munkey.encoders.keys import Keys
from munkey.estimators.handle import Handle
from munkey.estimators.receipts import (
    NamedRows,
    RowMatches,
    delete_rows,
    describe_deletion,
    match_files,
    read_named_rows,
)
from munkey.memory.exemplars import ExemplarMemory
from munkey.memory.neighbors import find_nearest
from munkey.models.family import FAMILIES, FittedFamily, Retrieval
from munkey.settings import Section

# Passed in place of pictures and their settings, which fitted families do not read.
NOT_NEEDED: Any = None


class LabeledRows(NamedTuple):
    """Rows to fit or add.

    Attributes
    ----------
    ids
        (N,) int64.
    keys
        (N, d) float32.
    labels
        (N,): the class of each row, as the user passed it.
    units
        (N,): the unit of each row. None for a row without a unit.
    """

    ids: np.ndarray
    keys: np.ndarray
    labels: np.ndarray
    units: np.ndarray


def get_fitted_family(name: str) -> FittedFamily:
    """Return a fitted family by name."""
    family = FAMILIES[name]
    assert isinstance(family, FittedFamily), f"{name} is not a fitted family"
    return family


def describe_dtype(labels: np.ndarray) -> str:
    """Return the dtype of classes as a manifest stores it.

    The maximum length of strings is omitted, because it may reveal the length of a deleted name.
    """
    if labels.dtype.kind == "U":
        return "<U"
    return labels.dtype.str


class RowsInMemory:
    """Rows in memory, and the system that was fitted to them.

    Parameters
    ----------
    params
        The estimator's parameters that are not settings of the family.

    Attributes
    ----------
    ids
        (N,): ids in ascending order.
    units
        (N,): the unit of each row, in the order of `ids`.
    classes
        (C,): the classes that have rows, in ascending order.
    next_id
        The default id of the next row: above every id that was ever used.
    has_forgotten
        Whether any row was ever forgotten.
    """

    directory: Path | None = None
    assigns_ids = False  # users may pass ids

    def __init__(
        self, family: str, settings: Section, rows: LabeledRows, params: dict[str, Any]
    ) -> None:
        self.family = get_fitted_family(family)
        self.settings = settings
        self.next_id = 0
        self.has_forgotten = False
        self._params = params
        self._fit(rows)

    def _fit(self, rows: LabeledRows) -> None:
        """Fit the family to rows, and store them sorted by id."""
        order = np.argsort(rows.ids)
        classes, class_indices = np.unique(rows.labels[order], return_inverse=True)
        self.ids = rows.ids[order]
        self.units = rows.units[order]
        self.classes = np.array(classes.tolist(), dtype=describe_dtype(classes))
        keys = Keys(self.ids, rows.keys[order])
        self.system = self.family.fit(keys, class_indices, len(classes), self.settings)
        self.next_id = max(self.next_id, int(self.ids.max(initial=-1)) + 1)

    @property
    def _memory(self) -> ExemplarMemory:
        return cast(ExemplarMemory, self.system.memory)

    @property
    def _class_indices(self) -> np.ndarray:
        """The index (N,) of each row's class in `classes`."""
        return self._memory.tokens.numpy()[:, 0].astype(np.int64)

    def read_named_rows(self) -> NamedRows:
        return NamedRows(self.ids, self.classes[self._class_indices].tolist(), self.units.tolist())

    def match_files(self, files: list[str]) -> RowMatches:
        """Return no matches, because rows in memory have no source files."""
        return RowMatches(ids=self.ids[:0], missing=files, patterns=[])

    def _get_rows(self) -> LabeledRows:
        """Return the rows in the form that `_fit` accepts."""
        return LabeledRows(
            ids=self.ids,
            keys=self._memory.keys.numpy(),
            labels=self.classes[self._class_indices],
            units=self.units,
        )

    @contextmanager
    def lock(self) -> Iterator[Self]:
        """Yield these rows. Rows in memory need no lock."""
        yield self

    def add(self, new_rows: LabeledRows, has_user_ids: bool) -> None:
        """Add rows. `has_user_ids`, which a directory needs, has no effect here."""
        rows = self._get_rows()
        self._fit(
            LabeledRows(
                ids=np.concatenate([rows.ids, new_rows.ids]),
                keys=np.concatenate([rows.keys, new_rows.keys]),
                labels=np.concatenate([rows.labels, new_rows.labels]),
                units=np.concatenate([rows.units, new_rows.units]),
            )
        )

    def forget(self, ids: np.ndarray, *, dry_run: bool = False) -> dict[str, Any]:
        """Forget rows. Returns the output of `munkey forget --json`."""
        output = describe_deletion(
            self.read_named_rows(), self._memory.keys.numpy(), ids, dry_run=dry_run
        )
        if dry_run or not len(ids):
            return output
        self.has_forgotten = True
        is_remaining = ~np.isin(self.ids, ids)
        self.ids = self.ids[is_remaining]
        self.units = self.units[is_remaining]
        self.system = self.family.forget(self.system, ids)
        if len(np.unique(self._class_indices)) < len(self.classes):
            self._fit(self._get_rows())  # removes classes without rows
        return output

    def predict_logits(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the classes (C,) and the logits (N, C) of keys (N, d)."""
        if self.family.asks_keys:
            retrieval = Retrieval(neighbors=None, keys=keys)
        else:
            # Only KNN reads neighbors instead of keys. It has one setting for their number.
            (k,) = self.family.count_neighbors(self.settings).values()
            # Queries are not in the memory, so they have no ids.
            queries = Keys(np.full(len(keys), NO_NEIGHBOR), keys)
            members = Keys(self.ids, self._memory.keys.numpy())
            retrieval = Retrieval(find_nearest(queries, members, k))
        logits = self.family.predict_logits(
            self.system, samples=NOT_NEEDED, data=NOT_NEEDED, device="cpu", retrieval=retrieval
        )
        return self.classes, logits

    @property
    def head(self) -> Any:
        """The family's head."""
        return self.system.model

    def close(self) -> None:
        """Do nothing, because no file is open."""

    def save(self, folder: Path, features: list[str] | None) -> None:
        """Write a deployed model of these rows to an empty folder.

        Parameters
        ----------
        features
            The names of the columns. None if they have no names.
        """
        rows = EstimatorRows(
            family=self.family.name,
            settings=self.settings.model_dump(),
            ids=self.ids,
            keys=self._memory.keys.numpy(),
            labels=self._class_indices,
            # A directory needs at least one class, so use None if there are no rows.
            classes=self.classes.tolist() or [None],
            units=self.units.tolist(),
            next_id=self.next_id,
            estimator=EstimatorReference(
                dtype=describe_dtype(self.classes), features=features, params=self._params
            ),
        )
        write_rows(folder, rows)


class RowsInDirectory:
    """Rows in a deployed directory. They are not cached, since other processes may change them."""

    def __init__(self, directory: Path) -> None:
        self._handle = Handle(directory, device="cpu")

    @property
    def directory(self) -> Path:
        return self._handle.directory

    @property
    def model(self) -> EstimatorPredictor:
        return self._handle.model

    @contextmanager
    def lock(self) -> Iterator[Self]:
        """Lock the directory, so that only this process can change the rows. Yields the rows.

        Raises LockedMemoryError if another process is changing them.
        """
        with self._handle.lock():
            yield self

    @property
    def ids(self) -> np.ndarray:
        return self.model.ids

    @property
    def units(self) -> np.ndarray:
        return self.model.read_units()

    @property
    def classes(self) -> np.ndarray:
        return self._to_class_array(self.model.find_present_classes())

    @property
    def next_id(self) -> int:
        return self.model.next_id

    @property
    def has_forgotten(self) -> bool:
        """Whether any row was ever forgotten."""
        return self.model.deletions > 0

    @property
    def assigns_ids(self) -> bool:
        """Whether users cannot pass ids, as for an exported model, which numbers its own rows."""
        return self.model.manifest.encoder is not None

    def read_named_rows(self) -> NamedRows:
        return read_named_rows(self.model)

    def match_files(self, files: list[str]) -> RowMatches:
        return match_files(self.model, files)

    @property
    def _dtype(self) -> str:
        """The dtype of the classes."""
        estimator = self.model.manifest.estimator
        if estimator is None:
            return "<U"
        return estimator.dtype

    def _to_class_array(self, classes: list[Any]) -> np.ndarray:
        """Convert classes to an array. Raises UnreadableModelError if they are damaged."""
        with translate_read_errors(self.directory):
            return np.array(classes, dtype=self._dtype)

    def add(self, new_rows: LabeledRows, has_user_ids: bool) -> None:
        """Add rows.

        Parameters
        ----------
        has_user_ids
            Whether the user passed ids. If not, the model numbers the rows.
        """
        if new_rows.labels.dtype.kind == "U":
            dtype = self._dtype
        else:
            # The dtype for old and new classes, such as float64 for int64 and float32.
            dtype = np.result_type(np.dtype(self._dtype), new_rows.labels.dtype).str
        self.model.add_keys(
            new_rows.keys,
            new_rows.labels.tolist(),
            dtype=dtype,
            ids=new_rows.ids if has_user_ids else None,
            units=new_rows.units.tolist(),
        )

    def forget(self, ids: np.ndarray, *, dry_run: bool = False) -> dict[str, Any]:
        """Forget rows. Returns the output of `munkey forget --json`."""
        return delete_rows(self.model, ids, dry_run=dry_run)

    def predict_logits(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the classes (C,) and the logits (N, C) of keys (N, d)."""
        classes, logits = self.model.compute_logits(keys)
        return self._to_class_array(classes), logits

    @property
    def head(self) -> Any:
        """The family's head."""
        return self.model.solve_head().head

    def save(self, folder: Path, features: list[str] | None) -> None:
        """Copy the current model, with its log of deletions, to an empty folder.

        `features` has no effect, because the model already stores the names of its columns.
        """
        with self._handle.lock() as model:
            model.copy(folder)

    def close(self) -> None:
        self._handle.close()
