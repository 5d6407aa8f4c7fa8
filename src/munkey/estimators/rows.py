"""The rows that an estimator was fitted to: in memory, or, once it is saved, in a deployed
directory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np

from munkey.core.ids import NOBODY
from munkey.deploy.errors import unreadable_on_error
from munkey.deploy.estimator_predictor import EstimatorPredictor
from munkey.deploy.model.export import EstimatorRows, write_rows
from munkey.deploy.model.manifest import EstimatorReference
from munkey.encoders.keys import Keys
from munkey.estimators.handle import Handle
from munkey.estimators.receipts import (
    NamedByFile,
    NamedRows,
    answer_in_memory,
    delete,
    named_by_file,
    rows_of,
)
from munkey.memory.exemplars import ExemplarMemory
from munkey.memory.neighbors import nearest
from munkey.models.family import FAMILIES, FittedFamily, Retrieval
from munkey.settings import Section

UNREAD: Any = None  # pictures and their settings, which these families do not look at


class LabeledRows(NamedTuple):
    """Rows. ids (N,); keys (N, d) float32; labels (N,), classes as the user names them; units (N,)
    texts.
    """

    ids: np.ndarray
    keys: np.ndarray
    labels: np.ndarray
    units: np.ndarray


def dtype_of(labels: np.ndarray) -> str:
    """The type of classes as a manifest keeps it: of texts without the length, which may be that of
    a deleted name.
    """
    return "<U" if labels.dtype.kind == "U" else labels.dtype.str


class RowsInMemory:
    """Rows, and the system that a fit to them gives. ids: (N,) ascending; units: (N,); classes:
    (C,) that have rows.
    """

    directory: Path | None = None
    gives_ids = False

    def __init__(
        self, family: str, settings: Section, rows: LabeledRows, params: dict[str, Any]
    ) -> None:
        """params: of the estimator, those that are no setting of the family."""
        self._family = family
        self._params = params
        self.settings = settings
        self.next_id = 0
        self.has_forgotten = False
        self._fit(rows)

    @property
    def kind(self) -> FittedFamily:
        return cast(FittedFamily, FAMILIES[self._family])

    def _fit(self, rows: LabeledRows) -> None:
        """Be what a fit to these rows gives."""
        ids, keys, labels, units = (part[np.argsort(rows.ids)] for part in rows)
        classes, places = np.unique(labels, return_inverse=True)
        self.classes = np.array(classes.tolist(), dtype=dtype_of(classes))
        self.system = self.kind.fitted(Keys(ids, keys), places, len(classes), self.settings)
        self.ids = ids
        self.units = units
        self.next_id = max(self.next_id, int(ids.max(initial=-1)) + 1)

    @property
    def _memory(self) -> ExemplarMemory:
        return cast(ExemplarMemory, self.system.memory)

    @property
    def _places(self) -> np.ndarray:
        """The place (N,) of each row's class in `classes`."""
        return self._memory.tokens.numpy()[:, 0].astype(np.int64)

    def named_rows(self) -> NamedRows:
        return NamedRows(self.ids, self.classes[self._places].tolist(), self.units.tolist())

    def named_by_file(self, files: list[str]) -> NamedByFile:
        """Nothing, since rows of numbers come from no file."""
        return NamedByFile(self.ids[:0], files)

    def _rows(self) -> LabeledRows:
        return LabeledRows(
            self.ids, self._memory.keys.numpy(), self.classes[self._places], self.units
        )

    @contextmanager
    def changing(self) -> Iterator[Self]:
        """While the block runs, nobody else changes the rows."""
        yield self

    def add(self, new: LabeledRows, own_ids: bool) -> None:
        """Add rows. own_ids: whether the user gave their ids."""
        rows = self._rows()
        self._fit(LabeledRows(*(np.concatenate(pair) for pair in zip(rows, new, strict=True))))

    def forget(self, ids: np.ndarray, *, dry_run: bool = False) -> dict[str, Any]:
        """Forget rows; what the command would answer."""
        answer = answer_in_memory(
            self.named_rows(), self._memory.keys.numpy(), ids, dry_run=dry_run
        )
        if dry_run or not len(ids):
            return answer
        self.has_forgotten = True
        remaining = ~np.isin(self.ids, ids)
        self.ids = self.ids[remaining]
        self.units = self.units[remaining]
        self.system = self.kind.forget(self.system, ids)
        if len(np.unique(self._places)) < len(self.classes):  # a class goes with its last row
            self._fit(self._rows())
        return answer

    def logits(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The classes (C,), and logits (N, C) of keys (N, d)."""
        asked = Retrieval(None, keys=keys)
        if not self.kind.asks_keys:
            (depth,) = self.kind.neighbors_read(self.settings).values()
            strangers = Keys(np.full(len(keys), NOBODY), keys)
            members = Keys(self.ids, self._memory.keys.numpy())
            asked = Retrieval(nearest(strangers, members, depth))
        return self.classes, self.kind.logits(self.system, UNREAD, UNREAD, "cpu", asked)

    @property
    def head(self) -> Any:
        """The linear head."""
        return self.system.model

    def close(self) -> None:
        """Nothing is open."""

    def save(self, folder: Path, features: list[str] | None) -> None:
        """Write a deployed model of these rows into an empty folder."""
        rows = EstimatorRows(
            family=self.kind.name,
            settings=self.settings.model_dump(),
            ids=self.ids,
            keys=self._memory.keys.numpy(),
            labels=self._places,
            classes=self.classes.tolist()
            or [None],  # of no row: as a directory says that a class is gone
            units=self.units.tolist(),
            next_id=self.next_id,
            estimator=EstimatorReference(
                dtype=dtype_of(self.classes), features=features, params=self._params
            ),
        )
        write_rows(folder, rows)


class RowsInDirectory:
    """Rows of a deployed directory, which other processes change too. Nothing of them is kept here."""

    def __init__(self, directory: Path) -> None:
        self._handle = Handle(directory, device="cpu")

    @property
    def directory(self) -> Path:
        return self._handle.directory

    @property
    def model(self) -> EstimatorPredictor:
        return self._handle.model

    @contextmanager
    def changing(self) -> Iterator[Self]:
        """While the block runs, nobody else changes the rows. Raises LockedMemoryError where
        another process does.
        """
        with self._handle.writing():
            yield self

    @property
    def ids(self) -> np.ndarray:
        return self.model.ids

    @property
    def units(self) -> np.ndarray:
        return self.model.units_by_id()

    @property
    def classes(self) -> np.ndarray:
        return self._named(self.model.present_classes())

    @property
    def next_id(self) -> int:
        return self.model.next_id

    @property
    def has_forgotten(self) -> bool:
        """Whether any row was ever forgotten."""
        return self.model.deletions > 0

    @property
    def gives_ids(self) -> bool:
        """Whether new rows get their ids from the model alone: of an export, they say what was trained on."""
        return self.model.manifest.encoder is not None

    def named_rows(self) -> NamedRows:
        return rows_of(self.model)

    def named_by_file(self, files: list[str]) -> NamedByFile:
        return named_by_file(self.model, files)

    @property
    def _dtype(self) -> str:
        """Of the classes."""
        manifest = self.model.manifest
        return manifest.estimator.dtype if manifest.estimator else "<U"

    def _named(self, classes: list[Any]) -> np.ndarray:
        with unreadable_on_error(self.directory):
            return np.array(classes, dtype=self._dtype)

    def add(self, new: LabeledRows, own_ids: bool) -> None:
        dtype = self._dtype
        if new.labels.dtype.kind != "U":
            dtype = np.result_type(np.dtype(dtype), new.labels.dtype).str
        ids = new.ids if own_ids else None
        self.model.add_keys(
            new.keys, new.labels.tolist(), dtype=dtype, ids=ids, units=new.units.tolist()
        )

    def forget(self, ids: np.ndarray, *, dry_run: bool = False) -> dict[str, Any]:
        """Forget rows; what the command answers."""
        return delete(self.model, ids, dry_run=dry_run)

    def logits(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The classes (C,), and logits (N, C) of keys (N, d)."""
        classes, logits = self.model.logits_of(keys)
        return self._named(classes), logits

    @property
    def head(self) -> Any:
        """The linear head."""
        return self.model.head_of_rows().head

    def save(self, folder: Path, features: list[str] | None) -> None:
        """Write the model as it is now, with its log of deletions, into an empty folder."""
        with self._handle.writing() as model:
            model.copy(folder)

    def close(self) -> None:
        self._handle.close()
