"""What the estimators share. After `forget` they hold, to the bit, what a fit on the rows left gives.

For that, nothing of a row may reach another but through the family's exact sums: each row is brought to unit norm by
itself, and no setting is derived from the data.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from munkey.core.ids import NOBODY
from munkey.deploy.errors import UnreadableModelError, first_ten, understood
from munkey.deploy.model.manifest import (
    MEMORY,
    MODEL_FORMAT,
    EstimatorReference,
    Manifest,
    MemoryReference,
    read_manifest,
)
from munkey.deploy.store import disk
from munkey.deploy.store.rows import checked_ids, checked_texts
from munkey.deploy.store.store import Store
from munkey.encoders.keys import Keys, at_unit_norm
from munkey.memory.exemplars import ExemplarMemory
from munkey.memory.neighbors import nearest
from munkey.models.family import FAMILIES, FittedFamily, Retrieval, System
from munkey.settings import LookupSettings, Section

PATIENCE = 10.0  # seconds for another process that writes the directory
UNREAD: Any = None  # pictures and their settings, which these families do not look at
LOOKUP = LookupSettings(approximate_from=100_000, lists=1000, probes=30)  # as in params.yaml


class HeldRows(NamedTuple):
    """Rows. ids (N,) ascending; keys (N, d) float32; labels (N,), classes as the user names them; units (N,) texts."""

    ids: np.ndarray
    keys: np.ndarray
    labels: np.ndarray
    units: np.ndarray


class ForgettingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base. A subclass names its family and takes that family's settings.

    `ids_` (N,) ascending and `units_` (N,) say which rows it holds, `classes_` (C,) the classes that have some.
    """

    family: ClassVar[str]
    ids_: np.ndarray
    units_: np.ndarray
    classes_: np.ndarray
    system_: System
    next_id_: int
    directory_: Path | None
    _seen: tuple[str, int]  # head and rows of the directory, as this estimator knows them
    _manifest: Manifest  # of the directory

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, ids: Iterable[int] | None = None, units: Sequence[Any] | None = None
    ) -> Self:
        """Fit to rows X (N, d) and their classes y (N,).

        ids: of the rows, from 0 on by default; `forget` takes them. units: whom or what each row belongs to (a person,
        say), None where nothing; all rows of one go at once. A directory that it was saved to stays as it is.
        """
        settings = self._kind.section({self.family: {name: plain(one) for name, one in self.get_params().items()}})
        new = self._labeled(X, y, ids, units, 0)
        self.directory_ = None
        self.next_id_ = 0
        self._hold(new, settings)
        return self

    def add(
        self, X: ArrayLike, y: ArrayLike, *, ids: Iterable[int] | None = None, units: Sequence[Any] | None = None
    ) -> np.ndarray:
        """Add rows, as for `fit`, also of new classes. Returns their ids: new ones by default, none is used twice."""
        check_is_fitted(self)
        with self._opened() as store:
            new, held = self._labeled(X, y, ids, units, self.next_id_), self._held()
            if (twice := np.intersect1d(new.ids, held.ids)).size:
                raise ValueError(f"rows with these ids are here already: {first_ten(twice.tolist())}")
            if held.labels.size and held.labels.dtype.kind != new.labels.dtype.kind:
                raise ValueError(f"classes were {held.labels.dtype} so far, and are {new.labels.dtype} in these rows")
            self._hold(HeldRows(*(np.concatenate(pair) for pair in zip(held, new, strict=True))), self._settings)
            if store:
                self._describe(store)  # first: a row must not have a class that nobody knows
                numbers = np.array([self._manifest.classes.index(one) for one in new.labels.tolist()])
                keys, tokens = self._kind.stored(new.keys), numbers[:, None].astype(np.float32)
                store.add(new.ids, keys, tokens, numbers, units=new.units.tolist())
                self._describe(store)
        return new.ids

    def forget(self, ids: Iterable[int] | int | None = None, *, units: Iterable[Any] | str | None = None) -> np.ndarray:
        """Forget the rows with these ids and of these units, all or none. Returns the ids that went, ascending.

        A class without rows goes too. Where the estimator was saved or loaded, no file of its directory holds the rows
        any more when this returns. Raises KeyError for an id or a unit that no row has.
        """
        check_is_fitted(self)
        with self._opened() as store:
            gone = self._named(ids, units)
            if store:
                store.delete(gone)
            left = ~np.isin(self.ids_, gone)
            self.ids_, self.units_ = self.ids_[left], self.units_[left]
            self.system_ = self._kind.forget(self.system_, gone)
            if len(np.unique(self._numbers)) < len(self.classes_):
                self._hold(self._held(), self._settings)
            if store:
                self._describe(store)
                store.purge()
        return gone

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability of each of `classes_`: (N, C)."""
        check_is_fitted(self)
        keys = at_unit_norm(validate_data(self, X, dtype=np.float64, reset=False))
        if not len(self.ids_):
            raise ValueError("every row was forgotten, so there is nothing to predict from; add rows first")
        asked = Retrieval(None, keys=keys)
        if not self._kind.asks_keys:
            (depth,) = self._kind.neighbors_read(self._settings).values()
            strangers, members = Keys(np.full(len(keys), NOBODY), keys), Keys(self.ids_, self._memory.keys.numpy())
            asked = Retrieval(nearest(strangers, members, depth))
        logits = self._kind.logits(self.system_, UNREAD, UNREAD, "cpu", asked).astype(np.float64)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return cast(np.ndarray, shares / shares.sum(axis=1, keepdims=True))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The class with the highest probability: (N,)."""
        probabilities = self.predict_proba(X)
        return cast(np.ndarray, self.classes_[probabilities.argmax(axis=1)])

    def save(self, directory: str | Path) -> None:
        """Write everything to a new directory, whole or not at all. From now on, `forget` and `add` change it too.

        It is a deployed model (docs/serving.md): `munkey verify`, `forget`, `serve` and `Predictor` take it.
        """
        check_is_fitted(self)
        rows, tokens = self._held(), self._memory.tokens.numpy()
        with disk.new_folder(Path(directory)) as folder:
            units = rows.units.tolist()
            with Store.create(folder / MEMORY, rows.ids, rows.keys, tokens, self._numbers, units=units) as store:
                reference = MemoryReference(
                    store=store.state.store.hex(), rows=len(rows.ids), first_new_id=self.next_id_
                )
                self._manifest = Manifest(
                    format="munkey model",
                    version=MODEL_FORMAT,
                    family=self.family,  # type: ignore[arg-type]  # one of those that are fitted
                    classes=self.classes_.tolist(),
                    token_dim=1,
                    settings=self._settings.model_dump(),
                    lookup=LOOKUP,
                    memory=reference,
                )
                self._describe(store)
                self._seen = store.head, store.state.rows
        self.directory_ = Path(directory)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """The estimator of a directory that was saved, or that `munkey export` wrote: X are then the encoder's keys.

        Its `forget` and `add` change the directory; its answers rest on the rows as they were when it was loaded, or
        last changed. Raises UnreadableModelError.
        """
        made = cls()
        made.directory_, made._seen = Path(directory), ("", 0)
        read_manifest(made.directory_, cls.family)  # says what is wrong where there is no memory either
        with made._opened():
            return made

    @property
    def _kind(self) -> FittedFamily:
        return cast(FittedFamily, FAMILIES[self.family])

    @property
    def _settings(self) -> Section:
        """Those that it was fitted with."""
        return self._kind.settings_of(self.system_.architecture)

    @property
    def _memory(self) -> ExemplarMemory:
        return cast(ExemplarMemory, self.system_.memory)

    @property
    def _numbers(self) -> np.ndarray:
        """The place (N,) of each row's class in `classes_`."""
        return self._memory.tokens.numpy()[:, 0].astype(np.int64)

    def _held(self) -> HeldRows:
        return HeldRows(self.ids_, self._memory.keys.numpy(), self.classes_[self._numbers], self.units_)

    def _labeled(self, X: Any, y: Any, ids: Iterable[int] | None, units: Sequence[Any] | None, start: int) -> HeldRows:
        """Checked rows. start: 0: the first ones, which say what the columns are; else the first id by default."""
        X, y = validate_data(self, X, y, reset=not start)
        check_classification_targets(y)
        numbers = np.arange(start, start + len(X)) if ids is None else checked_ids(ids)
        if len(numbers) != len(X) or len(np.unique(numbers)) != len(X):
            raise ValueError(f"ids must be {len(X)} different ones, one for each row")
        texts = units if units is None or isinstance(units, str) else [text_of(unit) for unit in units]
        return HeldRows(numbers, at_unit_norm(X), y, np.array(checked_texts("unit", texts, len(X)), dtype=object))

    def _hold(self, rows: HeldRows, settings: Section) -> None:
        """Be what a fit to these rows gives."""
        ids, keys, labels, units = (part[np.argsort(rows.ids)] for part in rows)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        self.system_ = self._kind.fitted(Keys(ids, keys), numbers, len(self.classes_), settings)
        self.ids_, self.units_ = ids, units
        self.next_id_ = max(self.next_id_, int(ids.max(initial=-1)) + 1)

    def _named(self, ids: Iterable[int] | int | None, units: Iterable[Any] | str | None) -> np.ndarray:
        """The ids of rows that are named. Raises KeyError that lists what no row has."""
        require_named(ids, units)
        wanted = checked_ids(np.atleast_1d([] if ids is None else ids) if ids is None or np.isscalar(ids) else ids)
        names = {units} if isinstance(units, str) else {str(unit) for unit in units or ()}
        unknown = [*sorted({*wanted.tolist()} - {*self.ids_.tolist()}), *sorted(names - {*self.units_})]
        if unknown:
            raise KeyError(f"no row has these ids or units, so nothing was forgotten: {first_ten(unknown)}")
        return np.union1d(wanted, self.ids_[[unit in names for unit in self.units_]])

    @contextmanager
    def _opened(self) -> Iterator[Store | None]:
        """Its directory, open for writing, with the rows that are there now; None where it has none."""
        if self.directory_ is None:
            yield None
            return
        with Store.open(self.directory_ / MEMORY, writer=True, wait=PATIENCE) as store:
            if self._seen != (store.head, store.state.rows):
                self._read(store)
            yield store
            self._seen = store.head, store.state.rows

    def _read(self, store: Store) -> None:
        """Be what the directory says."""
        manifest = self._manifest = read_manifest(store.folder.parent, self.family)
        if manifest.memory.store != store.state.store.hex():
            raise UnreadableModelError(store.folder, "is the memory of another model")
        view = store.view
        live = np.flatnonzero(view.live)
        rows = view.rows(live)
        units = np.array([unit for _, unit in store.sources_of(live)], dtype=object)
        described = manifest.estimator or EstimatorReference(dtype=np.array(manifest.names).dtype.str)
        numbers, place = np.unique(rows.records["label"], return_inverse=True)
        if not set(numbers.tolist()) <= {number for number, one in enumerate(manifest.classes) if one is not None}:
            raise UnreadableModelError(store.folder, "has a row with a label that means no class")
        with understood(store.folder):
            names = np.array([manifest.classes[number] for number in numbers], dtype=described.dtype)[place]
            settings = self._kind.section({self.family: manifest.settings})
        self.set_params(**settings.model_dump())
        self.n_features_in_ = rows.keys.shape[1]
        ever, first = store.deletions + len(live), manifest.memory
        self.next_id_ = first.first_new_id + ever - first.rows  # as `Predictor.add` counts
        if described.features:
            self.feature_names_in_ = np.array(described.features, dtype=object)
        self._hold(HeldRows(rows.records["id"], rows.keys, names, units), settings)
        self._seen = store.head, store.state.rows

    def _describe(self, store: Store) -> None:
        """Write beside a memory what its rows mean. A class keeps its number while it has rows."""
        present, memory = self.classes_.tolist(), self._manifest.memory
        kept = [one if one in present else None for one in self._manifest.classes]
        features = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        changes: dict[str, object] = {
            "classes": kept + [one for one in present if one not in kept],
            "estimator": EstimatorReference(dtype=self.classes_.dtype.str, features=features),
        }
        if self._manifest.encoder is None:  # else it says what the run left
            rows = store.deletions + int(np.count_nonzero(store.view.live))
            changes["memory"] = memory.model_copy(update={"rows": rows, "first_new_id": self.next_id_})
        self._manifest = self._manifest.model_copy(update=changes)
        self._manifest.write(store.folder.parent)


def require_named(ids: object, units: object) -> None:
    """Raises ValueError where nothing is named that could be forgotten."""
    if ids is None and units is None:
        raise ValueError("name what is to be forgotten: ids, units, or both")


def plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def text_of(unit: Any) -> str | None:
    """A unit's name; None where there is none, as in an empty cell of a table."""
    return None if unit is None or (isinstance(unit, float) and math.isnan(unit)) else str(unit)
