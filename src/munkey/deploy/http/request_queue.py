"""The order of requests: predictions run one at a time, and so do deletions.

Neither waits for the other, nor for a check of the whole memory, which may take minutes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
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
PURGE_LATEST_S = 600.0  # purge at the latest this many seconds after a deletion


class RequestQueue:
    """Queues the requests to one model.

    Once a deletion has been acknowledged, no prediction is based on the deleted samples.

    Attributes
    ----------
    predictor : Predictor
        The model.
    limits : RequestLimits
        Limits of a request, and of the number of predictions in progress.
    pending_predictions : int
        Number of predictions in progress.
    unpurged : bool
        Whether traces of deleted samples, such as names of source files, may be in the directory.
    purged_at : datetime or None
        When the last purge ended; None if it was incomplete, or if there was none yet.
    foreign : tuple of str
        Files in the directory that do not belong to the model, as of the last purge.
    """

    def __init__(self, predictor: Predictor, limits: RequestLimits) -> None:
        self.predictor = predictor
        self.limits = limits
        self.pending_predictions = 0
        # Locks are fair: first come, first served. No code takes two of them.
        self._prediction_lock = asyncio.Lock()  # one prediction at a time
        self._change_lock = asyncio.Lock()  # one deletion or purge at a time
        self._check_lock = asyncio.Lock()  # one check of the whole memory at a time
        self._names_lock = asyncio.Lock()  # one lookup of names at a time
        self._has_log = False  # whether a reader prevented emptying the write-ahead log
        self.unpurged = predictor.is_purge_due
        self.purged_at: datetime | None = None
        self.foreign: tuple[str, ...] = ()
        self._last_request = time.monotonic()
        # Time of the first deletion since the last purge; None if there was none. Earlier deletions
        # count from the start of the service.
        self._unpurged_since = self._last_request if self.unpurged else None

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
        result: Json = {"deleted": True}  # kept if `work` fails, since it may have deleted samples
        self._last_request = time.monotonic()
        try:
            async with self._change_lock:
                result = await asyncio.to_thread(work, self.predictor)
        finally:
            if result["deleted"] and not result.get("repeated"):
                if result.get("purged"):
                    self._record_purge(())
                else:
                    self._has_log = True
                    self.unpurged = True
                    self._unpurged_since = self._unpurged_since or time.monotonic()
        return result | self.describe_purge()

    async def check(self, work: Callable[[Predictor], T]) -> T:
        """Run `work`, which may take minutes, while predictions and deletions continue.

        Only one such request runs at a time.
        """
        async with self._check_lock:
            return await asyncio.to_thread(work, self.predictor)

    async def purge(self) -> None:
        """Remove every byte of deleted samples from the files, while predictions continue.

        Raises LockedMemoryError if a reader in another process prevents it.
        """
        async with self._change_lock:
            foreign_files = await asyncio.to_thread(self.predictor.purge)
            self._record_purge(foreign_files)

    def _record_purge(self, foreign_files: tuple[str, ...]) -> None:
        """Record a purge. It is complete only if there are no foreign files."""
        self._has_log = False
        self._unpurged_since = None
        self.unpurged = len(foreign_files) > 0
        self.foreign = foreign_files
        self.purged_at = None
        if not foreign_files:
            self.purged_at = datetime.now(UTC)

    def describe_purge(self) -> Json:
        """Return whether and when the model was purged, and foreign files, as response fields."""
        purged_at = None
        if self.purged_at:
            purged_at = self.purged_at.isoformat(timespec="microseconds")
        state: Json = {"purged": not self.unpurged, "purged_at": purged_at}
        if self.foreign:
            state["foreign"] = self.foreign
        return state

    async def maintain(self) -> None:
        """Purge whenever the service is idle, until this task is canceled."""
        while True:
            await asyncio.sleep(IDLE_S)
            if self._has_log:
                # A change empties the log itself, unless a reader needs it just then.
                async with self._change_lock:
                    with suppress(LockedMemoryError):
                        self._has_log = not await asyncio.to_thread(self.predictor.empty_log)
            now = time.monotonic()
            if self._unpurged_since is None:
                continue
            is_idle = now - self._last_request >= PURGE_IDLE_S
            if is_idle or now - self._unpurged_since >= PURGE_LATEST_S:
                # If a reader in another process prevents the purge, try again in the next round.
                with suppress(LockedMemoryError):
                    await self.purge()
