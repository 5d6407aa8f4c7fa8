"""The predictor behind an estimator, which can also add rows of new classes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from munkey.deploy.additions import ClassLabel
from munkey.deploy.predictor import Predictor

if TYPE_CHECKING:
    from munkey.deploy.model.fitted import FittedModel, SolvedHead


class EstimatorPredictor(Predictor):
    """A model of a fitted family, as the estimators use it.

    It never predicts a class without rows. All results equal those of a fit to the rows in the
    memory, bit for bit. Each method raises UnreadableModelError if the memory is damaged.
    """

    @property
    def _fitted_model(self) -> "FittedModel":
        fitted_model = self._model.fitted_model
        assert fitted_model is not None
        return fitted_model

    def compute_logits(self, keys: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Compute logits of keys (N, d) for the classes that have rows.

        Returns the classes in ascending order, and the logits (N, C).
        """
        manifest, (class_indices, logits) = self._model.compute_with_manifest(
            lambda: self._fitted_model.compute_present_logits(keys, self._model.retrieve)
        )
        classes = [manifest.classes[index] for index in class_indices.tolist()]
        return classes, logits

    def solve_head(self) -> "SolvedHead":
        """Compute the linear head that gives `compute_logits`. Only for families that have one."""

        # Each attempt must look up `_fitted_model` again, because a new class replaces it.
        def solve() -> "SolvedHead":
            return self._fitted_model.solve_head_of_present_classes()

        _, solved_head = self._model.compute_with_manifest(solve)
        return solved_head

    def find_present_classes(self) -> list[Any]:
        """Return the classes that have rows, in ascending order."""

        # Each attempt must look up `_fitted_model` again, because a new class replaces it.
        def find_class_indices() -> np.ndarray:
            return self._fitted_model.find_present_classes()

        manifest, class_indices = self._model.compute_with_manifest(find_class_indices)
        return [manifest.classes[index] for index in class_indices.tolist()]

    def read_units(self) -> np.ndarray:
        """Read the unit of each sample, sorted by id: (N,) str, None for a sample without one."""
        records, sources = self._model.samples.sources.read_records()
        units = np.array([unit for _, unit in sources], dtype=object)
        return units[np.argsort(records["id"])]

    def add_keys(
        self,
        keys: np.ndarray,
        classes: Sequence[ClassLabel],
        *,
        dtype: str,
        ids: np.ndarray | None = None,
        units: Sequence[str | None] | None = None,
    ) -> np.ndarray:
        """Add rows, given their keys. The classes may be new.

        Parameters
        ----------
        keys : ndarray of float32, shape (N, d)
            Keys of the rows.
        classes : sequence, length N
            The class of each row.
        dtype : str
            NumPy dtype of all classes, for the manifest.
        ids : ndarray of int64, shape (N,), optional
            Ids of the rows. By default, new ids.
        units : sequence of str or None, length N, optional
            The unit of each row, such as a person or device.

        Returns
        -------
        ids : ndarray of int64, shape (N,)
            Ids of the rows.

        Raises
        ------
        ValueError
            If the memory already holds any of the ids, or if the family cannot have that many rows.
        """
        return self._additions.add_keys(keys, classes, dtype, ids, units)
