"""An estimator's rows, in memory or, once it is saved, in a deployed directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np

from munkey.core.ids import NOBODY
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

UNREAD: Any = None  # placeholder for pictures and their settings, which these families do not read


class LabeledRows(NamedTuple):
    """Rows to fit or add.

    ids: (N,) int64; keys: (N, d) float32; labels: (N,) class labels as the user passed them; units:
    (N,) strings or None.
    """

    ids: np.ndarray
    keys: np.ndarray
    labels: np.ndarray
    units: np.ndarray


def get_fitted_family(name: str) -> FittedFamily:
    """Return the fitted family with this name."""
    family = FAMILIES[name]
    assert isinstance(family, FittedFamily)
    return family


def describe_dtype(labels: np.ndarray) -> str:
    """Return the dtype of class labels, as a manifest stores it.

    It omits the length of strings, which may be the length of a deleted name.
    """
    if labels.dtype.kind == "U":
        return "<U"
    return labels.dtype.str


class RowsInMemory:
    """Rows in memory, and the system that was fitted to them.

    ids: (N,), ascending; units: (N,), in the order of ids; classes: (C,), the classes with rows.
    """

    directory: Path | None = None
    assigns_ids = False  # whether the user may not give ids

    def __init__(
        self, family: str, settings: Section, rows: LabeledRows, params: dict[str, Any]
    ) -> None:
        """Fit the family. params: the estimator's parameters that are not family settings."""
        self.family = get_fitted_family(family)
        self.settings = settings
        self.next_id = 0
        self.has_forgotten = False
        self._params = params
        self._fit(rows)

    def _fit(self, rows: LabeledRows) -> None:
        """Fit the family to rows, and keep them by ascending id."""
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
        """The index of each row's class in `classes`: (N,)."""
        return self._memory.tokens.numpy()[:, 0].astype(np.int64)

    def read_named_rows(self) -> NamedRows:
        return NamedRows(self.ids, self.classes[self._class_indices].tolist(), self.units.tolist())

    def match_files(self, files: list[str]) -> RowMatches:
        """Match no rows, because rows in memory have no source files."""
        return RowMatches(self.ids[:0], files)

    def _get_rows(self) -> LabeledRows:
        """Return the rows as `_fit` takes them."""
        return LabeledRows(
            self.ids, self._memory.keys.numpy(), self.classes[self._class_indices], self.units
        )

    @contextmanager
    def lock(self) -> Iterator[Self]:
        """Yield these rows to change them. Rows in memory need no lock."""
        yield self

    def add(self, new_rows: LabeledRows, has_user_ids: bool) -> None:
        """Add rows. has_user_ids: whether the user passed their ids."""
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
        """Forget rows. Returns the result in the format of `munkey forget --json`."""
        result = describe_deletion(
            self.read_named_rows(), self._memory.keys.numpy(), ids, dry_run=dry_run
        )
        if dry_run or not len(ids):
            return result
        self.has_forgotten = True
        is_remaining = ~np.isin(self.ids, ids)
        self.ids = self.ids[is_remaining]
        self.units = self.units[is_remaining]
        self.system = self.family.forget(self.system, ids)
        if len(np.unique(self._class_indices)) < len(self.classes):
            self._fit(self._get_rows())  # drops classes without rows
        return result

    def predict_logits(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the classes (C,), and the logits (N, C) of keys (N, d)."""
        if self.family.needs_query_keys:
            retrieval = Retrieval(None, keys=keys)
        else:
            [depth] = self.family.count_neighbors(self.settings).values()  # KNN has one number
            queries = Keys(np.full(len(keys), NOBODY), keys)  # queries are not rows of the memory
            members = Keys(self.ids, self._memory.keys.numpy())
            retrieval = Retrieval(find_nearest(queries, members, depth))
        logits = self.family.predict_logits(self.system, UNREAD, UNREAD, "cpu", retrieval)
        return self.classes, logits

    @property
    def head(self) -> Any:
        """The linear head."""
        return self.system.model

    def close(self) -> None:
        """Do nothing: no file is open."""

    def save(self, folder: Path, features: list[str] | None) -> None:
        """Write a deployed model of these rows into an empty folder."""
        rows = EstimatorRows(
            family=self.family.name,
            settings=self.settings.model_dump(),
            ids=self.ids,
            keys=self._memory.keys.numpy(),
            labels=self._class_indices,
            # A manifest needs at least one class. None represents a class without rows.
            classes=self.classes.tolist() or [None],
            units=self.units.tolist(),
            next_id=self.next_id,
            estimator=EstimatorReference(
                dtype=describe_dtype(self.classes), features=features, params=self._params
            ),
        )
        write_rows(folder, rows)


class RowsInDirectory:
    """Rows in a deployed directory. They are not cached: other processes may change them."""

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
        """Lock the directory, so that only this process can change the rows, and yield them.

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
        """Whether users may not pass ids: an exported model has the ids of training samples."""
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
        """Add rows. has_user_ids: whether the user passed ids; else the model numbers the rows."""
        ids = None
        if has_user_ids:
            ids = new_rows.ids
        dtype = self._dtype
        if new_rows.labels.dtype.kind != "U":
            # A dtype for both old and new classes, such as float64 for int64 and float32.
            dtype = np.result_type(np.dtype(dtype), new_rows.labels.dtype).str
        self.model.add_keys(
            new_rows.keys,
            new_rows.labels.tolist(),
            dtype=dtype,
            ids=ids,
            units=new_rows.units.tolist(),
        )

    def forget(self, ids: np.ndarray, *, dry_run: bool = False) -> dict[str, Any]:
        """Forget rows. Returns the result in the format of `munkey forget --json`."""
        return delete_rows(self.model, ids, dry_run=dry_run)

    def predict_logits(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the classes (C,), and the logits (N, C) of keys (N, d)."""
        classes, logits = self.model.compute_logits(keys)
        return self._to_class_array(classes), logits

    @property
    def head(self) -> Any:
        """The linear head."""
        return self.model.solve_head().head

    def save(self, folder: Path, features: list[str] | None) -> None:
        """Copy the current model, with its log of deletions, into an empty folder."""
        with self._handle.lock() as model:
            model.copy(folder)

    def close(self) -> None:
        self._handle.close()
