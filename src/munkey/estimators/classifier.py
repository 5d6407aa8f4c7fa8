"""What the estimators share. After `forget` they hold, to the bit, what a fit on the rows left gives.

For that, nothing of a row may reach another but through the family's exact sums: each row is brought to unit norm, or
divided by a constant, by itself. What is derived from the data, the temperature, is derived anew from the rows left.
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from munkey.core.console import warn_user
from munkey.data.intake.copies import copies_apart
from munkey.data.intake.unit_names import large_units
from munkey.deploy.errors import first_ten, unreadable_on_error
from munkey.deploy.model.manifest import MEMORY, read_manifest
from munkey.deploy.store import disk
from munkey.deploy.store.rows import checked_texts
from munkey.encoders.keys import at_unit_norm
from munkey.estimators.errors import InvalidRequestError, UsedIdError
from munkey.estimators.names import ids_of_rows, read_request, unit_names_of
from munkey.estimators.receipts import Forgotten, meant, told
from munkey.estimators.rows import LabeledRows, RowsInDirectory, RowsInMemory
from munkey.models.family import FAMILIES, FittedFamily

# columns from which on equal rows are taken for copies: in narrow tables they come by chance
EMBEDDED = 16


class ForgettingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base. A subclass names its family and takes that family's settings.

    `ids_` (N,) ascending and `units_` (N,) say which rows it holds, `classes_` (C,) the classes that have some.
    """

    family: ClassVar[str]
    _held: RowsInMemory | RowsInDirectory

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        ids: Any = None,
        units: Any = None,
        save_to: str | Path | None = None,
    ) -> Self:
        """Fit to rows and their classes.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.
        y : array-like of shape (n_rows,)
            The class of each row.
        ids : array-like of int of shape (n_rows,), optional
            Different whole numbers that `forget` takes. By default the integer index of X, y or units
            where one of them is a pandas object with another index than 0, 1, ...; else 0, 1, ...
        units : array-like of shape (n_rows,), optional
            The person (or lesion, device, ...) that each row belongs to; None, NaN or NA where there
            is none. All rows of one can be forgotten at once.
        save_to : str or Path, optional
            A directory to `save` to afterwards. It is looked at before anything is computed.

        Returns
        -------
        self : estimator
            The fitted estimator. A directory that it was saved to earlier stays as it is.

        Raises
        ------
        FileExistsError
            If `save_to` holds anything. Nothing is fitted then.
        ValueError
            If the rows, classes, ids or units do not fit each other, or a parameter makes no sense.

        Warns
        -----
        UserWarning
            If X, y or units has an index that cannot give the ids (texts, repeated numbers, two that
            differ): its values would then name other rows than meant.
        """
        if save_to is not None:
            disk.require_new(Path(save_to))
        kind = cast(FittedFamily, FAMILIES[self.family])
        settings = kind.section({self.family: self._settings()})
        own_params = self._own_params()
        self._held = RowsInMemory(
            self.family, settings, self._labeled(X, y, ids, units, 0), own_params
        )
        if save_to is not None:
            self.save(save_to)
        return self

    def add(self, X: ArrayLike, y: ArrayLike, *, ids: Any = None, units: Any = None) -> np.ndarray:
        """Add rows, also of new classes, as if they had been there from the start.

        Parameters
        ----------
        X, y, ids, units : array-like
            As for `fit`; by default, ids follow the highest one that was ever used.

        Returns
        -------
        ids : ndarray of int64 of shape (n_rows,)
            The ids of the new rows.

        Raises
        ------
        UsedIdError
            If an id is in use, or may be that of a forgotten row: forgotten ids are not kept, so once
            rows were forgotten, every id below the next one is refused.
        InvalidRequestError
            If ids are given for a model that `munkey export` wrote, which numbers its rows itself.
        """
        check_is_fitted(self)
        with self._held.changing() as held:
            next_id = held.next_id
            new = self._labeled(X, y, ids, units, next_id)
            own_ids = not np.array_equal(new.ids, np.arange(next_id, next_id + len(new.ids)))
            if own_ids:
                _require_unused(new.ids, held)
            classes = held.classes
            if classes.size and classes.dtype.kind != new.labels.dtype.kind:
                raise ValueError(
                    f"classes were {classes.dtype} so far, and are {new.labels.dtype} in these rows"
                )
            held.add(new, own_ids=own_ids)
        return new.ids

    def forget(
        self,
        ids: Any = None,
        *,
        units: Any = None,
        labels: Any = None,
        files: Any = None,
        ignore_missing: bool = False,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget rows, durably if the estimator was saved or loaded.

        After this call the estimator equals, bit for bit, a fit on the remaining rows.

        Parameters
        ----------
        ids : int or array-like of int, optional
            Ids of rows, as given to or returned by `fit` and `add`.
        units : scalar or array-like, optional
            Persons (or lesions, devices, ...) whose rows are forgotten, all of them. 7 and 7.0 are one.
        labels : scalar or array-like, optional
            Classes whose rows are forgotten, all of them. Not together with `units`.
        files : str, Path or array-like of these, optional
            Source files, folders or patterns, where the rows are those of an exported model's pictures.
        ignore_missing : bool, default=False
            Forget what is there, and list the rest as `missing` in the receipt.
        dry_run : bool, default=False
            Change nothing; the receipt says what would be forgotten.

        Returns
        -------
        receipt : Forgotten
            It behaves as the ids of the forgotten rows, ascending, and says what `munkey forget` says.

        Raises
        ------
        UnknownRowsError
            If any id, unit, class or file names no row. Nothing is forgotten then.
        InvalidRequestError
            If nothing is named, or what is named are missing values or no whole numbers.
        LockedMemoryError
            If the estimator was saved and another process is writing its directory.

        Warns
        -----
        UserWarning
            If exact copies of forgotten rows stay; the receipt lists them as `copies`.

        Notes
        -----
        Classes without remaining rows leave `classes_`. If the estimator was saved or loaded, no file
        of its directory holds the rows once this method returns.

        Examples
        --------
        >>> import numpy as np
        >>> from munkey import ForgettingNCM
        >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.8]])
        >>> model = ForgettingNCM().fit(X, ["cat", "cat", "dog", "dog"], units=["Anna", "Ben", "Anna", "Cleo"])
        >>> receipt = model.forget(units="Anna")
        >>> receipt.tolist(), len(receipt), receipt.left
        ([0, 2], 2, 2)
        >>> print(model.forget(labels="dog", dry_run=True))
        would forget 1 row and keep 1
        ids 3
        """
        check_is_fitted(self)
        request = read_request(ids, units, labels, files)
        # A look needs no lock.
        with self._held.changing() if not dry_run else nullcontext(self._held) as held:
            rows = held.named_rows()
            by_file = held.named_by_file(request.files)
            forgotten_ids, missing = meant(request, rows, by_file, ignore_missing=ignore_missing)
            answer = held.forget(forgotten_ids, dry_run=dry_run)
        return told(forgotten_ids, answer, missing, dry_run=dry_run, stacklevel=2)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of `classes_`.

        Raises
        ------
        ValueError
            If every row was forgotten.
        """
        return self._answers(X)[1]

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The class with the highest probability.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            One of `classes_` for each row.

        Raises
        ------
        ValueError
            If every row was forgotten.
        """
        classes, probabilities = self._answers(X)
        return cast(np.ndarray, classes[probabilities.argmax(axis=1)])

    def _answers(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The classes (C,) and their probabilities (N, C)."""
        check_is_fitted(self)
        keys = self._keys(validate_data(self, X, dtype=np.float64, reset=False))
        if not len(self._held.classes):
            raise ValueError(
                "every row was forgotten, so there is nothing to predict from; add rows first"
            )
        classes, logits = self._held.logits(keys)
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

        Warns
        -----
        UserWarning
            If the estimator was saved before: the earlier directory is no longer changed by it.

        Notes
        -----
        It is a deployed model (docs/serving.md): `munkey verify`, `forget`, `serve` and `Predictor`
        take it. Whoever changes it, the estimator answers by the rows that it holds then. Saved
        again, the rows that are there then are copied to another directory, together with the log
        of deletions; the earlier directory stays as it is.
        """
        check_is_fitted(self)
        earlier = self.directory_
        features = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        with disk.new_folder(Path(directory)) as folder:
            self._held.save(folder, features)
        self._held.close()
        self._held = RowsInDirectory(Path(directory))
        if earlier is not None:
            warn_of_earlier(earlier, stacklevel=2)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """The estimator of a directory that was saved, or that `munkey export` wrote.

        Parameters
        ----------
        directory : str or Path
            The directory. Of an export, X are the encoder's keys from now on.

        Returns
        -------
        estimator : estimator
            A handle on the directory, as after `save`.

        Raises
        ------
        UnreadableModelError
            If it is no model of this family, or damaged.
        """
        # says what is wrong where there is no memory either
        manifest = read_manifest(Path(directory), cls.family)
        made = cls()
        held = RowsInDirectory(Path(directory))
        _ = held.classes  # of a row that has none, it is said now
        kind = cast(FittedFamily, FAMILIES[cls.family])
        with unreadable_on_error(held.directory / MEMORY):
            settings = kind.section({cls.family: manifest.settings})
        made.set_params(**settings.model_dump())
        made._take(manifest.estimator.params if manifest.estimator else {})
        made.n_features_in_ = held.model.key_width
        if manifest.estimator and manifest.estimator.features:
            made.feature_names_in_ = np.array(manifest.estimator.features, dtype=object)
        made._held = held
        return made

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_held")

    @property
    def ids_(self) -> np.ndarray:
        """The ids of the rows, ascending: ndarray of int64 of shape (n_rows,)."""
        return self._held.ids

    @property
    def units_(self) -> np.ndarray:
        """The units of the rows, by ascending id, None where there is none: ndarray of shape (n_rows,)."""
        return self._held.units

    @property
    def classes_(self) -> np.ndarray:
        """The classes that have rows, ascending: ndarray of shape (n_classes,)."""
        return self._held.classes

    @property
    def directory_(self) -> Path | None:
        """Where it was saved to or loaded from; None where it is in memory."""
        return self._held.directory

    def _settings(self) -> dict[str, Any]:
        """The family's section of params.yaml."""
        return {name: plain(value) for name, value in self.get_params().items()}

    def _own_params(self) -> dict[str, Any]:
        """The parameters that a saved directory keeps, beside the family's settings."""
        return {}

    def _take(self, params: dict[str, Any]) -> None:
        """Be set as `_own_params` of a saved directory say."""

    def _keys(self, X: np.ndarray) -> np.ndarray:
        """What is asked with: rows (N, d) float32, each computed by itself alone."""
        return at_unit_norm(X)

    def _held_keys(self, X: np.ndarray) -> np.ndarray:
        """The same of rows that are kept. Raises ValueError where one cannot be held exactly."""
        return self._keys(X)

    def _labeled(self, X: Any, y: Any, ids: Any, units: Any, start: int) -> LabeledRows:
        """Checked rows. start: 0: the first ones, which say what the columns are; else the first id by default."""
        tables = {"X": X, "y": y, "units": units}
        X, y = validate_data(self, X, y, reset=not start)
        check_classification_targets(y)
        numbers = ids_of_rows(ids, tables, len(X), start, stacklevel=3)
        if len(numbers) != len(X) or len(np.unique(numbers)) != len(X):
            raise ValueError(f"ids must be {len(X)} different ones, one for each row")
        checked_names = checked_texts("unit", unit_names_of(units), len(X))
        if X.shape[1] >= EMBEDDED:
            warn_of_copies(X, y, checked_names, numbers)
        if not start:
            warn_of_large_units(checked_names)
        return LabeledRows(numbers, self._held_keys(X), y, np.array(checked_names, dtype=object))


def _require_unused(ids: np.ndarray, held: RowsInMemory | RowsInDirectory) -> None:
    """Raises UsedIdError for ids that are in use, or may have been those of forgotten rows."""
    if held.gives_ids:
        raise InvalidRequestError(
            "an exported model numbers its rows itself: leave out ids, and reset_index"
        )
    taken = np.intersect1d(ids, held.ids)
    if taken.size:
        raise UsedIdError(f"rows with these ids are here already: {first_ten(taken.tolist())}")
    doubtful = ids[ids < held.next_id]
    if held.has_forgotten and doubtful.size:
        why = "may be those of rows that were forgotten, whose ids are not kept"
        raise UsedIdError(
            f"these ids {why}: {first_ten(doubtful.tolist())}; take {held.next_id} and above, or none"
        )


def warn_of_earlier(directory: Path, stacklevel: int) -> None:
    """Say that an earlier directory is not followed any more."""
    to_do = f"to forget there too, load it, or use `munkey forget {directory}`"
    warnings.warn(
        f"{directory} is no longer changed by this estimator; {to_do}", stacklevel=stacklevel + 1
    )


def warn_of_copies(
    rows: np.ndarray, labels: np.ndarray, units: Sequence[str | None], ids: np.ndarray
) -> None:
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


def plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value
