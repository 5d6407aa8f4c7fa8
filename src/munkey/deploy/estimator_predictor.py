"""The predictor behind an estimator, which can also add rows of new classes."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from munkey.deploy.additions import ClassLabel
from munkey.deploy.predictor import Predictor
from munkey.memory.memory_file import Classes
from munkey.settings import Section

if TYPE_CHECKING:
    from munkey.deploy.model.fitted import FittedModel, SolvedHead


class EstimatorPredictor(Predictor):
    """A model of a fitted family, as the estimators use it.

    It never predicts a class without rows. All results equal those of a fit to the rows in the
    memory, bit for bit. Each method raises UnreadableModelError if the memory is damaged.
    """

    temporary: object | None = None  # removes the directory once nobody uses this predictor

    @property
    def _fitted_model(self) -> "FittedModel":
        fitted_model = self._model.fitted_model
        assert fitted_model is not None
        return fitted_model

    def compute_logits(self, keys: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Compute logits of keys (N, d) for the classes that have rows.

        Returns the classes in ascending order, and the logits (N, C).
        """
        snapshot = self._model.snapshot()
        class_indices, logits = self._fitted_model.compute_present_logits(
            snapshot, keys, lambda: self._model.retrieve(snapshot, keys)
        )
        names = snapshot.classes.names
        return [names[index] for index in class_indices.tolist()], logits

    def solve_head(self) -> "SolvedHead":
        """Compute the linear head that gives `compute_logits`. Only for families that have one."""
        return self._fitted_model.solve_head_of_present_classes(self._model.snapshot())

    def find_present_classes(self) -> list[Any]:
        """Return the classes that have rows, in ascending order."""
        snapshot = self._model.snapshot()
        names = snapshot.classes.names
        class_indices = self._fitted_model.find_present_classes(snapshot)
        return [names[index] for index in class_indices.tolist()]

    def find_settings(self) -> Section:
        """Return the settings of the family, for the classes of `find_present_classes`."""
        model = self._fitted_model
        class_indices = model.find_present_classes(self._model.snapshot())
        return model.family.select_classes(model.section, class_indices)

    @property
    def classes(self) -> Classes:
        """All classes, also those without rows."""
        return self._model.snapshot().classes

    @property
    def next_id(self) -> int:
        """The id of the next new sample."""
        return self._model.file.read_state().next_id

    @property
    def key_width(self) -> int:
        """Number of dimensions of a key."""
        return self._model.file.read_state().key_width

    def read_units(self) -> np.ndarray:
        """Read the unit of each sample, sorted by id: (N,) str, None for a sample without one."""
        memory = self._model.snapshot().memory
        return memory.columns.units[memory.live_rows]

    def hold_off_changes(self) -> AbstractContextManager[None]:
        """Keep all other threads and processes from changing the model during the block."""
        return self._file.hold_off_changes()

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
            NumPy dtype of all classes.
        ids : ndarray of int64, shape (N,), optional
            Ids of the rows. By default, new ids.
        units : sequence of str or None, length N, optional
            The unit of each row.

        Returns
        -------
        ids : ndarray of int64, shape (N,)
            Ids of the rows.

        Raises
        ------
        ValueError
            If the memory holds any of the ids, or if the family cannot have that many rows.
        """
        return self._additions.add_keys(keys, classes, dtype, ids, units)
