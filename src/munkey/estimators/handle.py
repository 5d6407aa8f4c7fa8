"""A deployed directory in the hands of an estimator: it owns nothing of it, and asks an `EstimatorPredictor`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from munkey.deploy.estimator_predictor import EstimatorPredictor
from munkey.deploy.predictor import Device

PATIENCE = 10.0  # seconds for another process that writes the directory


class Handle:
    """A directory, open for reading from the first use on, and for writing while something is
    changed.

    Others may change it at any time: whatever is asked of the `model` rests on the rows as they are
    then. It is sent to another process as a path alone.
    """

    def __init__(self, directory: Path, device: Device = "auto") -> None:
        self.directory = directory.absolute()
        self._device = device
        self._model: EstimatorPredictor | None = None

    @property
    def model(self) -> EstimatorPredictor:
        """The model, opened again where its files were replaced, or this process was forked."""
        if self._model is not None and not self._model.in_place:
            self.close()
        if self._model is None:
            self._model = EstimatorPredictor.load(self.directory, device=self._device)
        self._model.follow()
        return self._model

    @contextmanager
    def writing(self) -> Iterator[EstimatorPredictor]:
        """The model, which nobody else may change meanwhile. Raises LockedMemoryError where another
        process does.
        """
        model = self.model
        with model.writing(PATIENCE):
            yield model

    def close(self) -> None:
        if self._model is not None:
            self._model.close()
        self._model = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_model": None}
