"""The base class of the estimators, which can forget rows exactly.

After `forget`, an estimator is bit-for-bit the same as one fitted to the remaining rows. To ensure
this, rows influence each other only through the family's exact sums: each row is scaled on its own,
to unit norm or by a constant. The temperature, which depends on the data, is recomputed from the
remaining rows.
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from munkey.core.console import pluralize, warn_user
from munkey.core.files import create_folder, require_empty_folder
from munkey.data.intake.copies import format_conflicting_copies_warning
from munkey.data.intake.unit_names import (
    format_large_units_warning,
    format_similar_names_warning,
    normalize_name,
)
from munkey.deploy.deletions import Deletion
from munkey.deploy.errors import format_first_ten, translate_read_errors
from munkey.deploy.model.manifest import MEMORY, read_manifest
from munkey.deploy.model.prediction import softmax
from munkey.encoders.keys import normalize_rows, scale_to_bound
from munkey.estimators.deletions import complete_deletion, match_rows
from munkey.estimators.errors import InvalidRequestError, UsedIdError
from munkey.estimators.handle import ThreadLock
from munkey.estimators.names import (
    describe_kind,
    read_labels,
    read_request,
    read_unit_names,
    resolve_ids,
    to_python,
)
from munkey.estimators.rows import LabeledRows, RowsInDirectory, RowsInMemory, get_fitted_family
from munkey.memory.rows import check_texts
from munkey.memory.sums import UNIT

# Equal rows with at least this many columns count as copies. With fewer columns, rows can be equal
# by chance.
MIN_COPY_COLUMNS = 16
SAME_KEY = "rows with the same key as these"  # copies, multiples, or equal by chance
COLUMNS_OF_FIT = ("n_features_in_", "feature_names_in_")  # set by scikit-learn's `validate_data`


class ForgettingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base class of classifiers that forget rows exactly.

    A subclass sets `family`, and its parameters are the family's settings.
    """

    family: ClassVar[str]
    _rows: RowsInMemory | RowsInDirectory
    _change_lock: ThreadLock

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        ids: Any = None,
        units: Any = None,
        save_to: str | Path | None = None,
    ) -> Self:
        """Fit the classifier to rows and their classes.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.
        y : array-like of shape (n_rows,)
            The class of each row.
        ids : array-like of int of shape (n_rows,), optional
            Unique nonnegative integers that identify rows in `forget`. By default, the integer
            index of X, y or units if one of them is a pandas object, and 0, 1, ... otherwise.
        units : array-like of shape (n_rows,), optional
            The person (or lesion, device, ...) that each row belongs to. None, NaN or NA for a row
            without a unit. All rows of a unit can be forgotten together.
        save_to : str or Path, optional
            Directory to save the fitted estimator to, as with `save`. It is checked before fitting.

        Returns
        -------
        self : estimator
            The fitted estimator. If it was saved before, the earlier directory is not changed.

        Raises
        ------
        FileExistsError
            If `save_to` is a directory that is not empty. Nothing is fitted then.
        ValueError
            If X, y, ids and units differ in length, ids repeat, or a parameter is invalid.

        Warns
        -----
        UserWarning
            If the index of X, y or units cannot be used as ids, for example because it contains
            strings or duplicates. Do not pass its values to `forget`, where they would refer to
            other rows. Also if equal rows with 16 or more columns belong to different classes or
            units, or if a unit is so large that its name may mean "unknown".
        """
        if save_to is not None:
            require_empty_folder(Path(save_to))
        family = get_fitted_family(self.family)
        settings = family.read_section({self.family: self._get_family_settings()})
        params = self._get_estimator_params()
        tables = {"X": X, "y": y, "units": units}
        columns = {name: self.__dict__[name] for name in COLUMNS_OF_FIT if name in self.__dict__}
        try:
            rows = self._validate_rows(tables, ids, params.get("bound"), first_id=0, is_fit=True)
            self._rows = RowsInMemory(self.family, settings, rows, params)
        except Exception:
            # The estimator stays as it was fitted before.
            for name in COLUMNS_OF_FIT:
                self.__dict__.pop(name, None)
            self.__dict__.update(columns)
            raise
        self._change_lock = ThreadLock()
        if save_to is not None:
            self.save(save_to)
        return self

    def add(self, X: ArrayLike, y: ArrayLike, *, ids: Any = None, units: Any = None) -> np.ndarray:
        """Add rows, as if they had been part of the fit. Their classes may be new.

        Parameters
        ----------
        X, y, ids, units : array-like
            Same as for `fit`. Without an integer index, ids continue after the highest id that was
            ever used.

        Returns
        -------
        ids : ndarray of int64 of shape (n_rows,)
            Ids of the new rows.

        Raises
        ------
        UsedIdError
            If an id is in use or may have belonged to a forgotten row. Because forgotten ids are
            not stored, all ids below the next new id are rejected after a deletion.
        InvalidRequestError
            If an id is not a nonnegative integer, or if ids are passed for a model that
            `munkey export` wrote, which numbers its own rows.
        ValueError
            If X, y, ids and units differ in length, ids repeat, or classes differ in type from the
            model's.
        """
        check_is_fitted(self)
        # What is checked must still hold when the rows are added.
        with self._change_lock, self._rows.hold_off_changes():
            rows = self._rows
            next_id = rows.next_id
            new_rows = self._validate_rows(
                {"X": X, "y": y, "units": units}, ids, rows.bound, first_id=next_id, is_fit=False
            )
            default_ids = np.arange(next_id, next_id + len(new_rows.ids))
            has_user_ids = not np.array_equal(new_rows.ids, default_ids)
            if has_user_ids:
                _require_unused(new_rows.ids, rows)
            labels = match_labels(new_rows.labels, rows.classes)
            self._require_possible(labels, rows)
            warn_of_new_class_names(labels, rows.classes)
            return rows.add(new_rows._replace(labels=labels), has_user_ids)

    def forget(
        self,
        ids: Any = None,
        *,
        units: Any = None,
        labels: Any = None,
        files: Any = None,
        ignore_missing: bool = False,
        dry_run: bool = False,
    ) -> Deletion:
        """Forget rows. If the estimator was saved or loaded, its directory is changed as well.

        After this call, the estimator is bit-for-bit the same as one fitted to the remaining rows.

        Parameters
        ----------
        ids : int or array-like of int, optional
            Ids of rows to forget, as passed to or returned by `fit` and `add`.
        units : scalar or array-like, optional
            Persons (or lesions, devices, ...) whose rows to forget. 7 and 7.0 are the same unit.
        labels : scalar or array-like, optional
            Classes whose rows to forget. Cannot be combined with `units`.
        files : str, Path or array-like of these, optional
            Source files, folders, or patterns such as "glob:cats/*.png". Only rows of an exported
            model have source files.
        ignore_missing : bool, default=False
            Whether to skip ids, units, classes and files without rows; `missing` lists them.
        dry_run : bool, default=False
            Whether to change nothing and only return what would be forgotten.

        Returns
        -------
        deletion : Deletion
            A sequence of the forgotten rows' ids, in ascending order. ``print`` shows a summary.

        Raises
        ------
        UnknownRowsError
            If no row has a requested id, unit, class or file. Nothing is forgotten then.
        InvalidRequestError
            If nothing is requested, a value is missing (None or NaN), or an id is not an integer.
        LockedMemoryError
            If the estimator was saved and another process is writing to its directory.

        Warns
        -----
        UserWarning
            If exact copies of forgotten rows remain, which `copies` lists.

        Notes
        -----
        Classes without remaining rows are removed from `classes_`. If the estimator was saved or
        loaded, no file in its directory contains the forgotten rows when this method returns.

        Examples
        --------
        >>> import numpy as np
        >>> from munkey import ForgettingNCM
        >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.8]])
        >>> model = ForgettingNCM().fit(X, ["cat", "cat", "dog", "dog"], units=["Anna", "Ben", "Anna", "Cleo"])
        >>> deletion = model.forget(units="Anna")
        >>> deletion.tolist(), len(deletion), deletion.left
        ([0, 2], 2, 2)
        >>> print(model.forget(labels="dog", dry_run=True))
        would forget 1 sample (dog 1) and keep 1
        ids 3
        """
        check_is_fitted(self)
        request = read_request(ids, units, labels, files)
        with self._change_lock, nullcontext() if dry_run else self._rows.hold_off_changes():
            rows = self._rows
            matches = match_rows(
                request,
                rows.read_named_rows(),
                rows.match_files(request.files),
                ignore_missing=ignore_missing,
            )
            deletion = rows.forget(matches.ids, dry_run=dry_run)
        return complete_deletion(deletion, matches, SAME_KEY, stacklevel=2)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the logits of each class. Their softmax is `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows to classify.

        Returns
        -------
        logits : ndarray of shape (n_rows, n_classes), or (n_rows,) for two classes
            One column per class, in the order of `classes_`. As in scikit-learn, two classes have
            one number instead: the logit of ``classes_[1]`` minus that of ``classes_[0]``, which is
            the log of the ratio of their probabilities.

        Raises
        ------
        ValueError
            If every row was forgotten.
        """
        _, logits = self._compute_logits(X)
        if logits.shape[1] == 2:
            return logits[:, 1] - logits[:, 0]
        return logits

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the logarithm of the probability of each class.

        It is finite, also where `predict_proba` is so small that it is rounded to 0.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows to classify.

        Returns
        -------
        log_probabilities : ndarray of shape (n_rows, n_classes)
            One column per class, in the order of `classes_`.

        Raises
        ------
        ValueError
            If every row was forgotten.
        """
        _, logits = self._compute_logits(X)
        return log_softmax(logits, axis=1)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows to classify.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            One column per class, in the order of `classes_`.

        Raises
        ------
        ValueError
            If every row was forgotten.
        """
        _, logits = self._compute_logits(X)
        return softmax(logits)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the class with the highest logit.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows to classify.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            The predicted class of each row.

        Raises
        ------
        ValueError
            If every row was forgotten.
        """
        classes, logits = self._compute_logits(X)
        return classes[logits.argmax(axis=1)]

    def _compute_logits(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the classes (C,) and their logits (N, C) in float64."""
        check_is_fitted(self)
        rows = self._rows
        queries = compute_keys(validate_data(self, X, dtype=np.float64, reset=False), rows.bound)
        classes, logits = rows.predict_logits(queries)
        return classes, logits.astype(np.float64)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy. The classes in y are normalized as in `fit`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows to classify.
        y : array-like of shape (n_rows,)
            The class of each row.
        sample_weight : array-like of shape (n_rows,), optional
            The weight of each row.

        Returns
        -------
        accuracy : float
            The share of rows that are classified correctly.
        """
        return float(super().score(X, read_labels(y), sample_weight))

    def save(self, directory: str | Path) -> None:
        """Save the model to a new directory, which the estimator uses from then on.

        Parameters
        ----------
        directory : str or Path
            A path that does not exist, or an empty directory.

        Raises
        ------
        FileExistsError
            If the directory is not empty. Nothing is written then.
        LockedMemoryError
            If the estimator was saved before and another process is writing to that directory.

        Warns
        -----
        UserWarning
            If the estimator was saved before, because it no longer changes the earlier directory.

        Notes
        -----
        The directory is a deployed model (docs/serving.md), which `munkey verify`, `forget` and
        `serve` and `Predictor` can open. It is never written in part. If another process changes
        it, the estimator predicts from the changed rows. Saving again copies the current rows and
        the log of deletions to another directory and leaves the first unchanged.
        """
        check_is_fitted(self)
        earlier_directory = self.directory_
        features = None
        if hasattr(self, "feature_names_in_"):
            features = list(self.feature_names_in_)
        with self._change_lock:
            earlier_rows = self._rows
            with create_folder(Path(directory)) as folder:
                earlier_rows.save(folder, features)
            # The earlier rows are not closed: another thread may be answering from them.
            self._rows = RowsInDirectory(Path(directory))
        if earlier_directory is not None:
            warn_of_earlier(earlier_directory, stacklevel=2)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Load a model that `save` or `munkey export` wrote.

        Parameters
        ----------
        directory : str or Path
            The directory. For an exported model, X must consist of keys from its encoder.

        Returns
        -------
        estimator : estimator
            The estimator, which uses the directory from then on, as after `save`.

        Raises
        ------
        UnreadableModelError
            If the directory is damaged or contains a model of another family.
        """
        # Read the manifest first. Its errors are clear even if the directory has no memory.
        manifest = read_manifest(Path(directory), cls.family)
        estimator = cls()
        rows = RowsInDirectory(Path(directory))
        _ = rows.classes  # fails now, not at the first prediction, if a row's class is damaged
        with translate_read_errors(rows.directory / MEMORY):
            settings = rows.settings
        estimator.set_params(**settings.model_dump())
        estimator.n_features_in_ = rows.model.key_width
        if manifest.estimator:
            estimator._restore_params(manifest.estimator.params)
            if manifest.estimator.features:
                estimator.feature_names_in_ = np.array(manifest.estimator.features, dtype=object)
        estimator._rows = rows
        estimator._change_lock = ThreadLock()
        return estimator

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_rows")

    @property
    def ids_(self) -> np.ndarray:
        """The ids of the rows, in ascending order: ndarray of int64 of shape (n_rows,)."""
        return self._rows.ids

    @property
    def units_(self) -> np.ndarray:
        """The unit of each row, or None, in the order of `ids_`: ndarray of shape (n_rows,)."""
        return self._rows.units

    @property
    def classes_(self) -> np.ndarray:
        """The classes that have rows, in ascending order: ndarray of shape (n_classes,)."""
        return self._rows.classes

    @property
    def directory_(self) -> Path | None:
        """The directory of the model, or None before it is saved."""
        return self._rows.directory

    def _get_family_settings(self) -> dict[str, Any]:
        """Return the family's section of params.yaml."""
        return {name: to_python(value) for name, value in self.get_params().items()}

    def _get_estimator_params(self) -> dict[str, Any]:
        """Return the parameters that a directory stores in addition to the family's settings."""
        return {}

    def _require_possible(self, labels: np.ndarray, rows: RowsInMemory | RowsInDirectory) -> None:
        """Raise ValueError if rows with these classes cannot be added."""

    def _restore_params(self, params: dict[str, Any]) -> None:
        """Set the parameters that `_get_estimator_params` returned when the directory was saved."""

    def _validate_rows(
        self,
        tables: dict[str, Any],
        ids: Any,
        bound: float | None,
        *,
        first_id: int,
        is_fit: bool,
    ) -> LabeledRows:
        """Validate rows to fit or add, and compute their keys.

        tables: X, y and units, by name. is_fit: also set the number of columns, and warn of large units and
        names of classes. Raises ValueError if lengths differ, ids repeat, or a value exceeds `bound`.
        """
        X, labels = validate_data(self, tables["X"], read_labels(tables["y"]), reset=is_fit)
        check_classification_targets(labels)
        row_ids = resolve_ids(ids, tables, len(X), first_id)
        distinct_count = len(np.unique(row_ids))
        if len(row_ids) != len(X) or distinct_count != len(X):
            raise ValueError(
                f"got {distinct_count} distinct ids for {len(X)} rows; each row needs its own id"
            )
        unit_names = check_texts("unit", read_unit_names(tables["units"]), len(X))
        if X.shape[1] >= MIN_COPY_COLUMNS:
            warn_of_copies(X, labels, unit_names, [f"id {row_id}" for row_id in row_ids])
        if is_fit:
            warn_of_large_units(unit_names)
            warn_of_class_names(tables["y"], labels)
        if bound is not None and X.size:
            self._require_within_bound(X, bound)
        return LabeledRows(
            ids=row_ids,
            keys=compute_keys(X, bound),
            labels=labels,
            units=np.array(unit_names, dtype=object),
        )

    def _require_within_bound(self, X: np.ndarray, bound: float) -> None:
        """Raise ValueError if an absolute value exceeds `bound`, since sums would not be exact."""
        # As floats, because the absolute value of the smallest integer is not an integer.
        row, column = np.unravel_index(np.abs(X.astype(np.float64)).argmax(), X.shape)
        largest = abs(float(X[row, column]))
        if largest <= bound:
            return
        if hasattr(self, "feature_names_in_"):
            feature = repr(str(self.feature_names_in_[column]))
        else:
            feature = f"number {column}"
        # Suggest the next power of 2, because dividing by it is exact.
        sufficient_bound = 2.0 ** np.ceil(np.log2(largest))
        raise ValueError(
            f"feature {feature} reaches {largest:g}, which exceeds bound={bound:g}: scale X by"
            f" fixed factors, or pass bound={sufficient_bound:g}, which stores values in steps of"
            f" {sufficient_bound * UNIT:.2g}"
        )


def compute_keys(X: np.ndarray, bound: float | None) -> np.ndarray:
    """Return the keys (N, d) of rows as float32. A key depends only on its own row.

    bound: the divisor of rows that keep their length; None to scale each row to unit norm.
    """
    if bound is None:
        return normalize_rows(X)
    return scale_to_bound(X, bound)


def match_labels(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return new classes in the type of the model's.

    Raises ValueError if they are of another kind than the model's classes, such as text and numbers.
    """
    model_classes = classes.tolist()
    model_kind = describe_kind(model_classes)
    new_kind = describe_kind(labels.tolist())
    if model_kind and new_kind != model_kind:
        raise ValueError(
            f"the new classes are {new_kind}, such as {labels.tolist()[0]!r}, but the model's are"
            f" {model_kind}, such as {model_classes[0]!r}: pass the same kind"
        )
    if new_kind == "integers" and labels.dtype != classes.dtype:
        return labels.astype(np.int64)  # unsigned 64-bit integers beside others would become floats
    return labels


def _require_unused(ids: np.ndarray, rows: RowsInMemory | RowsInDirectory) -> None:
    """Raise an error if one of the user's ids is in use, or may have been that of a forgotten row."""
    if rows.assigns_ids:
        raise InvalidRequestError(
            "an exported model numbers its rows itself: omit ids; if you pass pandas objects, call"
            " their reset_index(drop=True) first"
        )
    present_ids = np.intersect1d(ids, rows.ids)
    if len(present_ids):
        raise UsedIdError(
            f"the model already has rows with these ids: {format_first_ten(present_ids.tolist())}"
        )
    earlier_ids = ids[ids < rows.next_id]
    if rows.has_forgotten and len(earlier_ids):
        raise UsedIdError(
            "these ids may have belonged to forgotten rows, whose ids are not stored:"
            f" {format_first_ten(earlier_ids.tolist())}; use {rows.next_id} and above, or omit ids"
        )


def warn_of_earlier(directory: Path, stacklevel: int) -> None:
    """Warn that the estimator no longer changes an earlier directory.

    Parameters
    ----------
    stacklevel
        The stack level of the user's call, seen from the caller.
    """
    warnings.warn(
        f"{directory} is no longer changed by this estimator; to forget rows there as well, load"
        f" it, or use `munkey forget {directory}`",
        stacklevel=stacklevel + 1,
    )


def warn_of_copies(
    rows: np.ndarray, labels: np.ndarray, units: Sequence[str | None], names: Sequence[str]
) -> None:
    """Warn if equal rows belong to different classes or units.

    Parameters
    ----------
    rows
        (N, d): the rows, or digests of their contents.
    names
        The name of each row in the message, such as its file or id.
    """
    # Copies have equal sums, and other rows rarely do. So only rows with equal sums are compared
    # byte by byte.
    row_sums = rows.sum(axis=1)
    _, group_of_row, group_sizes = np.unique(row_sums, return_inverse=True, return_counts=True)
    candidates = np.flatnonzero(group_sizes[group_of_row] > 1).tolist()
    contents = [rows[row].tobytes() for row in candidates]
    candidate_names = [names[row] for row in candidates]
    candidate_labels = labels[candidates].tolist()
    class_warning = format_conflicting_copies_warning(
        contents, candidate_labels, "class", candidate_names
    )
    if class_warning:
        warn_user(class_warning)
    candidate_units = [units[row] for row in candidates]
    unit_warning = format_conflicting_copies_warning(
        contents, candidate_units, "unit", candidate_names
    )
    if unit_warning:
        warn_user(unit_warning)


def warn_of_large_units(units: Sequence[str | None]) -> None:
    """Warn about units so large that their names may mean "unknown", and about similar names."""
    present_units = [unit for unit in units if unit is not None]
    for warning in (
        format_large_units_warning(units),
        format_similar_names_warning(present_units, "units"),
    ):
        if warning:
            warn_user(warning)


def warn_of_class_names(y: Any, labels: np.ndarray) -> None:
    """Warn about names of classes that were changed, or that differ only in case or spaces.

    Parameters
    ----------
    y
        The classes as the user passed them.
    labels
        The classes from `read_labels`.
    """
    if labels.dtype.kind != "U":
        return
    given_names = {str(name) for name in np.asarray(y).ravel().tolist()}
    changed_names = sorted(given_names - set(labels.tolist()))
    if changed_names:
        # `ascii` shows characters that look the same in both forms.
        changes = [f"{name!a} to {normalize_name(name)!a}" for name in changed_names[:3]]
        warn_user(
            f"{pluralize(len(changed_names), 'class name')} changed to Unicode form NFC without"
            f" surrounding spaces, e.g. {'; '.join(changes)}. Predictions have the new names:"
            " change y in the same way before you compare them"
        )
    warning = format_similar_names_warning(labels.tolist(), "classes")
    if warning:
        warn_user(warning)


def warn_of_new_class_names(labels: np.ndarray, classes: np.ndarray) -> None:
    """Warn if names differ only in case or spaces, and some are not among the model's classes yet."""
    if labels.dtype.kind != "U" or np.isin(labels, classes).all():
        return
    warning = format_similar_names_warning([*labels.tolist(), *classes.tolist()], "classes")
    if warning:
        warn_user(warning)
