"""The deployed directory of an estimator, accessed through an `EstimatorPredictor`."""

import os
import threading
from pathlib import Path
from typing import Any

from munkey.deploy.estimator_predictor import EstimatorPredictor
from munkey.deploy.predictor import Device


class ThreadLock:
    """A lock that lets one thread of this process in. A fork, a copy or a pickle has its own."""

    def __init__(self) -> None:
        self._process_id = os.getpid()
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if self._process_id != os.getpid():
            # Another thread may have held the lock while this process was forked.
            self.__init__()  # type: ignore[misc]
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["ThreadLock"], tuple[()]]:
        return ThreadLock, ()


class Handle:
    """A directory that is opened when it is first used.

    Other processes may change the directory at any time. A pickled handle contains only the path and
    the device.
    """

    def __init__(
        self, directory: Path, device: Device = "auto", temporary: object | None = None
    ) -> None:
        """temporary: removes the directory once neither the handle nor its model is in use."""
        self.directory = directory.absolute()
        self._device = device
        self._temporary = temporary
        self._model: EstimatorPredictor | None = None
        self._open_lock = ThreadLock()

    @property
    def model(self) -> EstimatorPredictor:
        """The model. It is reopened if its files were replaced or if this process was forked.

        It is never closed here, because another thread may be answering from it.
        """
        with self._open_lock:
            if self._model is None or not self._model.in_place:
                self._model = EstimatorPredictor.load(self.directory, device=self._device)
                self._model.temporary = self._temporary
            return self._model

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_model": None}
