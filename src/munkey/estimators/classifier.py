"""What the estimators share. After `forget` they hold, to the bit, what a fit on the rows left gives.

For that, nothing of a row may reach another but through the family's exact sums: each row is brought to unit norm by
itself, and no setting is derived from the data.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from munkey.core.console import warn_user
from munkey.core.copies import copies_apart
from munkey.core.unit_names import large_units, unit_name
from munkey.deploy.errors import first_ten, understood
from munkey.deploy.model.manifest import MEMORY, read_manifest
from munkey.deploy.store import disk
from munkey.deploy.store.rows import checked_ids, checked_texts
from munkey.encoders.keys import at_unit_norm
from munkey.estimators.held import LabeledRows, RowsInDirectory, RowsInMemory
from munkey.models.family import FAMILIES, FittedFamily

EMBEDDED = 16  # columns from which on equal rows are taken for copies: in narrow tables they come by chance


class ForgettingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base. A subclass names its family and takes that family's settings.

    `ids_` (N,) ascending and `units_` (N,) say which rows it holds, `classes_` (C,) the classes that have some.
    """

    family: ClassVar[str]
    _held: RowsInMemory | RowsInDirectory

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, ids: Iterable[int] | None = None, units: Sequence[Any] | None = None
    ) -> Self:
        """Fit to rows X (N, d) and their classes y (N,).

        ids: of the rows, from 0 on by default; `forget` takes them. units: whom or what each row belongs to (a person,
        say), None where nothing; all rows of one go at once. A directory that it was saved to stays as it is.
        """
        kind = cast(FittedFamily, FAMILIES[self.family])
        settings = kind.section({self.family: {name: plain(one) for name, one in self.get_params().items()}})
        self._held = RowsInMemory(self.family, settings, self._labeled(X, y, ids, units, 0))
        return self

    def add(
        self, X: ArrayLike, y: ArrayLike, *, ids: Iterable[int] | None = None, units: Sequence[Any] | None = None
    ) -> np.ndarray:
        """Add rows, as for `fit`, also of new classes. Returns their ids: new ones by default, none is used twice."""
        check_is_fitted(self)
        with self._held.changing() as held:
            new = self._labeled(X, y, ids, units, held.next_id)
            if (twice := np.intersect1d(new.ids, held.ids)).size:
                raise ValueError(f"rows with these ids are here already: {first_ten(twice.tolist())}")
            classes = held.classes
            if classes.size and classes.dtype.kind != new.labels.dtype.kind:
                raise ValueError(f"classes were {classes.dtype} so far, and are {new.labels.dtype} in these rows")
            held.add(new, own_ids=ids is not None)
        return new.ids

    def forget(self, ids: Iterable[int] | int | None = None, *, units: Iterable[Any] | str | None = None) -> np.ndarray:
        """Forget the rows with these ids and of these units, all or none. Returns the ids that went, ascending.

        A class without rows goes too. Where the estimator was saved or loaded, no file of its directory holds the rows
        any more when this returns. Raises KeyError for an id or a unit that no row has.
        """
        check_is_fitted(self)
        require_named(ids, units)
        with self._held.changing() as held:
            forgotten_ids = _named(held, ids, units)
            held.forget(forgotten_ids)
        return forgotten_ids

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability of each of `classes_`: (N, C)."""
        return self._answers(X)[1]

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The class with the highest probability: (N,)."""
        classes, probabilities = self._answers(X)
        return cast(np.ndarray, classes[probabilities.argmax(axis=1)])

    def _answers(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The classes (C,) and their probabilities (N, C)."""
        check_is_fitted(self)
        keys = at_unit_norm(validate_data(self, X, dtype=np.float64, reset=False))
        classes, logits = self._held.logits(keys)
        if not len(classes):
            raise ValueError("every row was forgotten, so there is nothing to predict from; add rows first")
        logits = logits.astype(np.float64)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return classes, shares / shares.sum(axis=1, keepdims=True)

    def save(self, directory: str | Path) -> None:
        """Write the model to a new directory, whole or not at all, and be a handle on it from now on.

        Parameters
        ----------
        directory : str or Path
            Where to. It may be an empty directory.

        Raises
        ------
        FileExistsError
            If the directory holds anything. Nothing is written then.
        LockedMemoryError
            If the estimator was saved before and another process is writing that directory.

        Notes
        -----
        It is a deployed model (docs/serving.md): `munkey verify`, `forget`, `serve` and `Predictor`
        take it. Whoever changes it, the estimator answers by the rows that it holds then. Saved
        again, the rows that are there then are copied to another directory, together with the log
        of deletions; the earlier directory stays as it is.
        """
        check_is_fitted(self)
        features = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        with disk.new_folder(Path(directory)) as folder:
            self._held.save(folder, features)
        self._held.close()
        self._held = RowsInDirectory(Path(directory))

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """The estimator of a directory that was saved, or that `munkey export` wrote: X are then the encoder's keys.

        It is a handle on the directory, as after `save`. Raises UnreadableModelError.
        """
        manifest = read_manifest(Path(directory), cls.family)  # says what is wrong where there is no memory either
        made = cls()
        held = RowsInDirectory(Path(directory))
        _ = held.classes  # of a row that has none, it is said now
        kind = cast(FittedFamily, FAMILIES[cls.family])
        with understood(held.directory / MEMORY):
            settings = kind.section({cls.family: manifest.settings})
        made.set_params(**settings.model_dump())
        made.n_features_in_ = held.model.key_width
        if manifest.estimator and manifest.estimator.features:
            made.feature_names_in_ = np.array(manifest.estimator.features, dtype=object)
        made._held = held
        return made

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_held")

    @property
    def ids_(self) -> np.ndarray:
        """The ids of the rows, ascending: (N,) int64."""
        return self._held.ids

    @property
    def units_(self) -> np.ndarray:
        """The units of the rows, by ascending id: (N,) texts, None where there is none."""
        return self._held.units

    @property
    def classes_(self) -> np.ndarray:
        """The classes that have rows, ascending: (C,)."""
        return self._held.classes

    @property
    def directory_(self) -> Path | None:
        """Where it was saved to or loaded from; None where it is in memory."""
        return self._held.directory

    def _labeled(
        self, X: Any, y: Any, ids: Iterable[int] | None, units: Sequence[Any] | None, start: int
    ) -> LabeledRows:
        """Checked rows. start: 0: the first ones, which say what the columns are; else the first id by default."""
        X, y = validate_data(self, X, y, reset=not start)
        check_classification_targets(y)
        numbers = np.arange(start, start + len(X)) if ids is None else checked_ids(ids)
        if len(numbers) != len(X) or len(np.unique(numbers)) != len(X):
            raise ValueError(f"ids must be {len(X)} different ones, one for each row")
        texts = units if units is None or isinstance(units, str) else [unit_name(unit) for unit in units]
        names = checked_texts("unit", texts, len(X))
        if X.shape[1] >= EMBEDDED:
            warn_of_copies(X, y, names, numbers)
        if not start:
            warn_of_large_units(names)
        return LabeledRows(numbers, at_unit_norm(X), y, np.array(names, dtype=object))


def _named(
    held: RowsInMemory | RowsInDirectory, ids: Iterable[int] | int | None, units: Iterable[Any] | str | None
) -> np.ndarray:
    """The ids of rows that are named, ascending. Raises KeyError that lists what no row has."""
    given_ids = [] if ids is None else ids
    requested_ids = checked_ids(np.atleast_1d(given_ids) if np.isscalar(given_ids) else given_ids)
    # What is no unit names no row, least of all the rows without a unit.
    given_units = [units] if isinstance(units, str) else units or ()
    requested_units = {unit_name(unit) or str(unit) for unit in given_units}
    held_ids = held.ids
    held_units = held.units
    unknown_ids = np.setdiff1d(requested_ids, held_ids).tolist()
    unknown_units = sorted(requested_units - {*held_units})
    if unknown_ids or unknown_units:
        unknown = [*unknown_ids, *unknown_units]
        raise KeyError(f"no row has these ids or units, so nothing was forgotten: {first_ten(unknown)}")
    has_requested_unit = np.array([unit in requested_units for unit in held_units], dtype=bool)
    return np.union1d(requested_ids, held_ids[has_requested_unit])


def warn_of_copies(rows: np.ndarray, labels: np.ndarray, units: Sequence[str | None], ids: np.ndarray) -> None:
    """Warn of equal rows (N, d) of two classes or of two units."""
    # Rows of equal sums are few, unless they are copies: only these are compared byte by byte.
    _, places, counts = np.unique(rows.sum(axis=1), return_inverse=True, return_counts=True)
    candidates = np.flatnonzero(counts[places] > 1)
    contents = [rows[row].tobytes() for row in candidates]
    names = [f"id {one}" for one in ids[candidates].tolist()]
    for words in (
        copies_apart(contents, labels[candidates].tolist(), "class", names),
        copies_apart(contents, [units[row] for row in candidates.tolist()], "unit", names),
    ):
        if words:
            warn_user(words)


def warn_of_large_units(units: Sequence[str | None]) -> None:
    """Warn of a unit that holds more than a tenth of all rows."""
    words = large_units(units)
    if words:
        warn_user(words)


def require_named(ids: object, units: object) -> None:
    """Raises ValueError where nothing is named that could be forgotten."""
    if ids is None and units is None:
        raise ValueError("name what is to be forgotten: ids, units, or both")


def plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value
