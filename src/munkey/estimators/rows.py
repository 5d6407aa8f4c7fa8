"""The rows of an estimator: in memory or, after it is saved, in a deployed directory."""

import secrets
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from munkey.core.ids import NO_NEIGHBOR
from munkey.deploy.deletions import Deletion
from munkey.deploy.errors import translate_read_errors
from munkey.deploy.estimator_predictor import EstimatorPredictor
from munkey.deploy.model.manifest import (
    MEMORY,
    MODEL_FORMAT,
    EstimatorReference,
    Manifest,
    MemoryReference,
)
from munkey.encoders.keys import Keys
from munkey.estimators.deletions import (
    NamedRows,
    RowMatches,
    delete_rows,
    describe_deletion,
    match_files,
    read_named_rows,
)
from munkey.estimators.handle import Handle
from munkey.memory.memory import Columns, Memory, make_columns
from munkey.memory.memory_file import Classes, MemoryFile
from munkey.memory.neighbors import find_nearest
from munkey.memory.rows import digest_keys
from munkey.models.family import FAMILIES, FittedFamily, Retrieval, System
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


def require_classes(classes: np.ndarray) -> None:
    """Raise ValueError if no class has rows."""
    if not len(classes):
        raise ValueError("every row was forgotten, so there is no class to predict; add rows")


@dataclass(frozen=True)
class MemoryState:
    """Rows in memory, and the system that was fitted to them. A change makes a new state.

    settings: those of the family, for these classes. classes: (C,), those that have rows, ascending;
    labels are indices into them. next_id: the default id of the next row, above every id that was
    ever used.
    """

    memory: Memory
    settings: Section
    classes: np.ndarray
    system: System
    next_id: int
    has_forgotten: bool

    @cached_property
    def columns(self) -> Columns:
        """The columns of the rows, sorted by id."""
        return self.memory.columns.take(self.memory.live_rows)

    @property
    def labels(self) -> np.ndarray:
        """The class (N,) of each row."""
        return self.classes[self.columns.labels]

    @property
    def named_rows(self) -> NamedRows:
        return NamedRows(self.columns.ids, self.labels.tolist(), self.columns.units.tolist())

    @property
    def labeled_rows(self) -> LabeledRows:
        return LabeledRows(self.columns.ids, self.columns.keys, self.labels, self.columns.units)


class RowsInMemory:
    """Rows in memory.

    An answer reads `_state` once, and a change replaces it in one assignment. So while one thread
    changes the rows, answers in others are those of the rows before or after the change.

    Parameters
    ----------
    params
        The estimator's parameters that are not settings of the family.
    """

    directory: Path | None = None
    assigns_ids = False  # users may pass ids

    def __init__(
        self, family: str, settings: Section, rows: LabeledRows, params: dict[str, Any]
    ) -> None:
        self.family = get_fitted_family(family)
        self._params = params
        self._state = self._fit(rows, settings, next_id=0, has_forgotten=False)

    def _fit(
        self, rows: LabeledRows, settings: Section, next_id: int, has_forgotten: bool
    ) -> MemoryState:
        """Fit the family to rows. Returns a state with the rows sorted by id."""
        classes, class_indices = np.unique(rows.labels, return_inverse=True)
        # As a directory stores them, so that the same rows are copies of one another there.
        keys = self.family.prepare_keys(rows.keys)
        columns = make_columns(
            ids=rows.ids,
            keys=keys,
            tokens=class_indices[:, None].astype(np.float32),  # the token is the class
            labels=class_indices,
            units=rows.units,
            contents=digest_keys(keys),
        )
        memory = Memory.create(columns)
        columns = memory.columns.take(memory.live_rows)  # sorted, and writable, as torch needs
        system = self.family.fit(
            Keys(columns.ids, columns.keys), columns.labels, len(classes), settings
        )
        return MemoryState(
            memory=memory,
            settings=settings,
            classes=np.array(classes.tolist(), dtype=describe_dtype(classes)),
            system=system,
            next_id=max(next_id, int(memory.ids.max(initial=-1)) + 1),
            has_forgotten=has_forgotten,
        )

    @property
    def ids(self) -> np.ndarray:
        return self._state.columns.ids.copy()  # what users change must not change the rows

    @property
    def units(self) -> np.ndarray:
        return self._state.columns.units.copy()

    @property
    def classes(self) -> np.ndarray:
        return self._state.classes.copy()

    @property
    def settings(self) -> Section:
        """The settings of the family, for the classes that have rows."""
        return self._state.settings

    @property
    def next_id(self) -> int:
        return self._state.next_id

    @property
    def has_forgotten(self) -> bool:
        return self._state.has_forgotten

    @property
    def bound(self) -> float | None:
        """The divisor of rows that keep their length; None if rows are scaled to unit norm."""
        return self._params.get("bound")

    def read_named_rows(self) -> NamedRows:
        return self._state.named_rows

    def match_files(self, files: list[str]) -> RowMatches:
        """Return no matches, because rows in memory have no source files."""
        return RowMatches(ids=self.ids[:0], missing=files, patterns=())

    def add(self, new_rows: LabeledRows, has_user_ids: bool) -> np.ndarray:
        """Add rows, and return their ids. `has_user_ids`, which a directory needs, has no effect."""
        state = self._state
        rows = new_rows
        if len(state.memory):
            columns = zip(state.labeled_rows, new_rows, strict=True)
            rows = LabeledRows(*(np.concatenate(old_and_new) for old_and_new in columns))
        self._state = self._fit(rows, state.settings, state.next_id, state.has_forgotten)
        return new_rows.ids

    def forget(self, ids: np.ndarray, *, dry_run: bool = False) -> Deletion:
        state = self._state
        rows = state.memory.find_rows(ids)
        copies = state.memory.find_copies(rows)
        copy_ids = state.memory.ids[copies]
        deletion = describe_deletion(state.named_rows, ids, copy_ids, dry_run=dry_run)
        if dry_run or not len(ids):
            return deletion
        remaining = MemoryState(
            memory=state.memory.drop(rows),
            settings=state.settings,
            classes=state.classes,
            system=self.family.forget(state.system, ids),
            next_id=state.next_id,
            has_forgotten=True,
        )
        present = np.unique(remaining.columns.labels)
        if len(present) < len(remaining.classes):
            # A fit removes the classes without rows.
            settings = self.family.select_classes(state.settings, present)
            remaining = self._fit(
                remaining.labeled_rows, settings, state.next_id, has_forgotten=True
            )
        self._state = remaining
        return deletion

    def predict_logits(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the classes (C,) and the logits (N, C) of keys (N, d).

        Raises ValueError if there is no row.
        """
        state = self._state
        require_classes(state.classes)
        if self.family.asks_keys:
            retrieval = Retrieval(neighbors=None, keys=keys)
        else:
            # Only KNN reads neighbors instead of keys. It has one setting for their number.
            (k,) = self.family.count_neighbors(state.settings).values()
            # Queries are not in the memory, so they have no ids.
            queries = Keys(np.full(len(keys), NO_NEIGHBOR), keys)
            retrieval = Retrieval(
                find_nearest(queries, Keys(state.columns.ids, state.columns.keys), k)
            )
        logits = self.family.predict_logits(
            state.system, samples=NOT_NEEDED, data=NOT_NEEDED, device="cpu", retrieval=retrieval
        )
        return state.classes, logits

    @property
    def head(self) -> Any:
        """The family's head."""
        return self._state.system.model

    def hold_off_changes(self) -> AbstractContextManager[None]:
        """Do nothing, because no other process has these rows."""
        return nullcontext()

    def save(self, folder: Path, features: list[str] | None) -> None:
        """Write a deployed model of these rows to an empty folder.

        Parameters
        ----------
        features
            The names of the columns. None if they have no names.
        """
        state = self._state
        columns = state.columns
        name = secrets.token_bytes(16)
        MemoryFile.create(
            folder / MEMORY,
            columns.ids,
            columns.keys,
            columns.tokens,
            columns.labels,
            units=columns.units.tolist(),
            classes=Classes(tuple(state.classes.tolist()), describe_dtype(state.classes)),
            next_id=state.next_id,
            name=name,
        ).close()
        Manifest(
            format="munkey model",
            version=MODEL_FORMAT,
            family=self.family.name,  # type: ignore[arg-type]  # a fitted family
            token_dim=1,
            settings=state.settings.model_dump(),
            memory=MemoryReference(store=name.hex(), first_new_id=state.next_id),
            estimator=EstimatorReference(
                features=features, params=self._params, has_forgotten=state.has_forgotten
            ),
        ).write(folder)


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
    def settings(self) -> Section:
        """The settings of the family, for the classes that have rows."""
        return self.model.find_settings()

    @property
    def next_id(self) -> int:
        return self.model.next_id

    @property
    def has_forgotten(self) -> bool:
        """Whether any row was ever forgotten, here or before the model was saved."""
        model = self.model
        estimator = model.manifest.estimator
        return model.deletions > 0 or (estimator is not None and estimator.has_forgotten)

    @property
    def bound(self) -> float | None:
        """The divisor of rows that keep their length; None if rows are scaled to unit norm."""
        estimator = self.model.manifest.estimator
        return None if estimator is None else estimator.bound

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
        return self.model.classes.dtype or "<U"

    def _to_class_array(self, classes: list[Any]) -> np.ndarray:
        """Convert classes to an array. Raises UnreadableModelError if they are damaged."""
        with translate_read_errors(self.directory):
            return np.array(classes, dtype=self._dtype)

    def add(self, new_rows: LabeledRows, has_user_ids: bool) -> np.ndarray:
        """Add rows, and return their ids.

        Parameters
        ----------
        has_user_ids
            Whether the user passed ids. If not, the model numbers the rows.
        """
        has_rows = len(self.classes) > 0
        is_other_kind = np.dtype(self._dtype).kind != new_rows.labels.dtype.kind
        if not has_rows and is_other_kind and self.assigns_ids:
            raise ValueError(
                f"the classes of an exported model keep their type, {self._dtype}: pass classes of"
                " that type"
            )
        if new_rows.labels.dtype.kind == "U" or not has_rows:
            dtype = describe_dtype(new_rows.labels)
        else:
            # The dtype for old and new classes, such as float64 for float64 and float32.
            dtype = np.result_type(np.dtype(self._dtype), new_rows.labels.dtype).str
        return self.model.add_keys(
            new_rows.keys,
            new_rows.labels.tolist(),
            dtype=dtype,
            ids=new_rows.ids if has_user_ids else None,
            units=new_rows.units.tolist(),
        )

    def forget(self, ids: np.ndarray, *, dry_run: bool = False) -> Deletion:
        return delete_rows(self.model, ids, dry_run=dry_run)

    def predict_logits(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the classes (C,) and the logits (N, C) of keys (N, d).

        Raises ValueError if there is no row.
        """
        present_classes, logits = self.model.compute_logits(keys)
        classes = self._to_class_array(present_classes)
        require_classes(classes)
        return classes, logits

    @property
    def head(self) -> Any:
        """The family's head."""
        return self.model.solve_head().head

    def save(self, folder: Path, features: list[str] | None) -> None:
        """Copy the current model, with its log of deletions, to an empty folder.

        `features` has no effect, because the model already stores the names of its columns.
        """
        self.model.copy(folder)

    def hold_off_changes(self) -> AbstractContextManager[None]:
        """Keep all other processes from changing the rows during the block."""
        return self.model.hold_off_changes()
