"""The order of requests: predictions run one at a time, and so do deletions.

Neither waits for the other, nor for a check of the whole memory, which may take minutes.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import numpy as np
from fastapi import HTTPException

from munkey.deploy.http.bodies import RequestLimits, decode_pictures
from munkey.deploy.json_format import Json
from munkey.deploy.model.prediction import Prediction
from munkey.deploy.predictor import Predictor
from munkey.memory.errors import LockedMemoryError

T = TypeVar("T")
IDLE_S = 1.0  # seconds between two rounds of `maintain`
PURGE_IDLE_S = 10.0  # purge after this many seconds without a prediction or a deletion
PURGE_LATEST_S = 600.0  # default: purge at the latest this many seconds after a deletion
PURGE_WAIT_S = 5.0  # how long a purge, and deletions behind it, wait for other processes
LOGGER = logging.getLogger(__name__)


class RequestQueue:
    """Queues the requests to one model.

    Once a deletion has been acknowledged, no prediction is based on the deleted samples.

    Attributes
    ----------
    maintenance_error : str or None
        Why the last attempt to purge failed, if it did.
    """

    def __init__(
        self, predictor: Predictor, limits: RequestLimits, purge_within: float = PURGE_LATEST_S
    ) -> None:
        """purge_within: seconds after a deletion within which `maintain` purges."""
        self.predictor = predictor
        self.limits = limits
        self.pending_predictions = 0
        self.maintenance_error: str | None = None
        self._purge_within = purge_within
        # Locks are fair: first come, first served. No code takes two of them.
        self._prediction_lock = asyncio.Lock()  # one prediction at a time
        self._change_lock = asyncio.Lock()  # one deletion or purge at a time
        self._check_lock = asyncio.Lock()  # one check of the whole memory at a time
        self._names_lock = asyncio.Lock()  # one lookup of names at a time
        self._has_log = False  # whether a reader may have prevented emptying the write-ahead log
        self._last_request = time.monotonic()
        # When `maintain` first saw that a purge is due; None if none is.
        self._due_since: float | None = None

    @contextmanager
    def reserve_place(self) -> Iterator[None]:
        """Reserve a place for a prediction before its request body is read, to bound memory use.

        Raises HTTPException if all places are taken.
        """
        if self.pending_predictions >= self.limits.predictions:
            detail = f"{self.limits.predictions} predictions are in progress already; try again"
            raise HTTPException(503, detail, {"Retry-After": "1"})
        self.pending_predictions += 1
        try:
            yield
        finally:
            self.pending_predictions -= 1

    async def predict(
        self,
        pictures: list[bytes] | np.ndarray,
        is_disconnected: Callable[[], Awaitable[bool]],
        *,
        only_held_classes: bool = False,
    ) -> Prediction | None:
        """Classify pictures when it is their turn. Parameters and result as for `run_in_turn`."""

        def predict(images: Any) -> Prediction:
            return self.predictor.predict(images, only_held_classes=only_held_classes)

        return await self.run_in_turn(pictures, is_disconnected, predict)

    async def run_in_turn(
        self,
        pictures: list[bytes] | np.ndarray,
        is_disconnected: Callable[[], Awaitable[bool]],
        compute: Callable[[Any], T],
    ) -> T | None:
        """Decode pictures, and return the result of `compute` on them, one request at a time.

        pictures: picture files, or rows (N, d). Returns None if the client has disconnected when
        its turn comes; then nothing is computed.
        """
        # After this call, uvicorn reads on after a long body, and so notices a disconnect.
        await is_disconnected()
        async with self._prediction_lock:
            if await is_disconnected():
                return None
            picture_size = self.predictor.manifest.stored
            if isinstance(pictures, list) and picture_size is not None:
                pictures = await asyncio.to_thread(
                    decode_pictures, pictures, picture_size, self.limits
                )
            self._last_request = time.monotonic()
            return await asyncio.to_thread(compute, pictures)

    async def look_up_names(self, work: Callable[[Predictor], T]) -> T:
        """Run `work`, which looks up names, while predictions and deletions continue.

        Only one such request runs at a time.
        """
        async with self._names_lock:
            return await asyncio.to_thread(work, self.predictor)

    async def delete(self, work: Callable[[Predictor], Json]) -> Json:
        """Run `work`, which deletes, while predictions continue.

        Adds `describe_purge` to its result. Afterwards, `maintain` purges, even if `work` fails.
        """

        def delete() -> Json:
            return work(self.predictor) | self.describe_purge()

        self._last_request = time.monotonic()
        self._has_log = True
        async with self._change_lock:
            return await asyncio.to_thread(delete)

    async def check(self, work: Callable[[Predictor], T]) -> T:
        """Run `work`, which may take minutes, while predictions and deletions continue.

        Only one such request runs at a time.
        """
        async with self._check_lock:
            return await asyncio.to_thread(work, self.predictor)

    async def purge(self) -> Json:
        """Remove every byte of deleted samples from the files, while predictions continue.

        Returns `describe_purge`. Raises LockedMemoryError if a reader in another process prevents
        it, and OSError if the disk is full.
        """

        def purge() -> Json:
            self.predictor.purge(PURGE_WAIT_S)
            return self.describe_purge()

        async with self._change_lock:
            return await asyncio.to_thread(purge)

    def describe_purge(self) -> Json:
        """Return whether and when the model was purged, and what was in the way, as response fields.

        Reads the memory, so call it in a thread.
        """
        foreign_files = self.predictor.foreign_files
        state: Json = {
            "purged": not self.predictor.is_purge_due and not foreign_files,
            "purged_at": None if foreign_files else self.predictor.purged_at,
        }
        if foreign_files:
            state["foreign"] = foreign_files
        if self.maintenance_error:
            state["maintenance_error"] = self.maintenance_error
        return state

    @asynccontextmanager
    async def maintaining(self) -> AsyncIterator[None]:
        """Run `maintain` during the block."""
        stopping = asyncio.Event()
        maintenance = asyncio.create_task(self.maintain(stopping))
        try:
            yield
        finally:
            stopping.set()
            await maintenance

    async def maintain(self, stopping: asyncio.Event) -> None:
        """Purge whenever the service is idle, until `stopping` is set.

        If that fails, for example because the disk is full or the memory is damaged, the error is
        logged, and the next round tries again.
        """
        while not stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), IDLE_S)
                return
            try:
                await self._maintain_once()
                self.maintenance_error = None
            except LockedMemoryError as error:
                # A reader or another change is in the way, which is no error before the latest time.
                if self._is_overdue():
                    self._record_error(error)
            except Exception as error:
                self._record_error(error)

    def _is_overdue(self) -> bool:
        """Return whether the latest time for a purge has passed."""
        due_since = self._due_since
        return due_since is not None and time.monotonic() - due_since >= self._purge_within

    def _record_error(self, error: Exception) -> None:
        """Record why a purge failed, and log it, unless the last attempt failed alike."""
        earlier_error = self.maintenance_error
        self.maintenance_error = f"{type(error).__name__}: {error}"
        if self.maintenance_error != earlier_error:
            LOGGER.error("cannot purge deleted samples: %s", self.maintenance_error)

    async def _maintain_once(self) -> None:
        """Empty the write-ahead log, and purge if that is due and the service is idle."""
        if self._has_log:
            # A change empties the log itself, unless a reader needs it just then.
            async with self._change_lock:
                self._has_log = not await asyncio.to_thread(self.predictor.empty_log)
        # Another process may have deleted or purged.
        if not await asyncio.to_thread(lambda: self.predictor.is_purge_due):
            self._due_since = None
            return
        now = time.monotonic()
        if self._due_since is None:
            self._due_since = now
        is_idle = now - self._last_request >= PURGE_IDLE_S
        if is_idle or self._is_overdue():
            await self.purge()
            self._due_since = None
