"""Who is served when: predictions one at a time, in order; a deletion waits for at most one of them.

A check of the whole memory, which may take minutes, keeps nobody waiting but the next check.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
from fastapi import HTTPException

from munkey.deploy.http.bodies import RequestLimits, decoded
from munkey.deploy.json_answers import Json
from munkey.deploy.model.prediction import Prediction
from munkey.deploy.predictor import Predictor
from munkey.deploy.store.errors import LockedMemoryError

T = TypeVar("T")
IDLE_S = 1.0  # how often to look for deletions whose zeros may not be on the disk yet
# without a request; after a deletion, however many requests there are
PURGE_IDLE_S, PURGE_LATEST_S = 10.0, 600.0


class RequestQueue:
    """One model for many requests. No answer given after a deletion was acknowledged rests on what was deleted.

    limits: of a request, and how many predictions may be under way at once. purged_at: when the last purge since the
    start ended that left nothing; unpurged: whether traces of what was deleted, such as names of source files, may be
    in the directory; foreign: files that the last purge found there and that are not the model's.
    """

    def __init__(self, predictor: Predictor, limits: RequestLimits) -> None:
        self.predictor = predictor
        self.limits = limits
        self.waiting = 0
        # First come, first served, each.
        self._queue, self._guard, self._check = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        self._look_up = asyncio.Lock()
        self._unsettled, self.unpurged = False, predictor.deletions > 0
        self.purged_at: datetime | None = None
        self.foreign: tuple[str, ...] = ()
        self._asked = time.monotonic()
        # the first deletion after the last purge
        self._since = self._asked if self.unpurged else None

    @contextmanager
    def place(self) -> Iterator[None]:
        """For one prediction, from before its body is read: bounds what all of them hold. Raises HTTPException."""
        if self.waiting >= self.limits.predictions:
            sentence = f"{self.limits.predictions} predictions are under way already; try again"
            raise HTTPException(503, sentence, {"Retry-After": "1"})
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def predict(
        self,
        pictures: list[bytes] | np.ndarray,
        left: Callable[[], Awaitable[bool]],
        *,
        only_held_classes: bool = False,
    ) -> Prediction | None:
        """As `answer`: classify pictures."""
        return await self.answer(
            pictures,
            left,
            lambda asked: self.predictor.predict(asked, only_held_classes=only_held_classes),
        )

    async def answer(
        self,
        pictures: list[bytes] | np.ndarray,
        left: Callable[[], Awaitable[bool]],
        answer: Callable[[Any], T],
    ) -> T | None:
        """What the model says of pictures, as it takes them, when it is their turn.

        left: whether the client left meanwhile; then nothing is computed, and the answer is None.
        """
        # from here on uvicorn reads on after a long body, and so hears that a client leaves
        await left()
        async with self._queue:
            if await left():
                return None
            stored = self.predictor.manifest.stored
            if isinstance(pictures, list) and stored is not None:
                pictures = await asyncio.to_thread(decoded, pictures, stored, self.limits)
            # deletions wait neither for the queue nor for pictures that are decoded
            async with self._guard:
                self._asked = time.monotonic()
                return await asyncio.to_thread(answer, pictures)

    async def alone(self, work: Callable[[Predictor], T]) -> T:
        """While nothing else uses the model."""
        async with self._guard:
            return await asyncio.to_thread(work, self.predictor)

    async def look_up(self, work: Callable[[Predictor], T]) -> T:
        """What names mean: one request after the other, while predictions and deletions go on."""
        async with self._look_up:
            return await asyncio.to_thread(work, self.predictor)

    async def delete(self, work: Callable[[Predictor], Json]) -> Json:
        """As `alone`; what it deletes, also if it fails then, is settled and purged when there is time."""
        answer: Json = {"deleted": True}
        self._asked = time.monotonic()
        try:
            answer = await self.alone(work)
        finally:
            if answer["deleted"] and not answer.get("repeated"):
                if answer.get("purged"):
                    self._after_purge(())
                else:
                    self._unsettled = self.unpurged = True
                    self._since = self._since or time.monotonic()
        return answer | self.purged()

    async def beside(self, work: Callable[[Predictor], T]) -> T:
        """Through a connection of its own, one after the other, so that predictions and deletions go on."""

        def read() -> T:
            with Predictor.load(self.predictor.directory) as reader:
                return work(reader)

        async with self._check:
            return await asyncio.to_thread(read)

    async def purge(self) -> None:
        """Leave no byte of what was deleted in any file. Raises LockedMemoryError where a reader prevents it."""
        async with self._check, self._guard:  # our own reader is in no purge's way
            self._after_purge(await asyncio.to_thread(self.predictor.purge))

    def _after_purge(self, foreign: tuple[str, ...]) -> None:
        self._unsettled, self._since, self.unpurged, self.foreign = (
            False,
            None,
            bool(foreign),
            foreign,
        )
        self.purged_at = None if foreign else datetime.now(UTC)

    def purged(self) -> Json:
        """Whether every trace of what was deleted is gone, when a purge said so, and the files that are in its way."""
        at = self.purged_at and self.purged_at.isoformat(timespec="microseconds")
        return {"purged": not self.unpurged, "purged_at": at} | (
            {"foreign": self.foreign} if self.foreign else {}
        )

    async def maintain(self) -> None:
        """Forever: when there is time, wait until zeros over what was deleted are on the disk, and purge."""
        while True:
            await asyncio.sleep(IDLE_S)
            if self._unsettled:
                async with self._guard:
                    self._unsettled = False
                    await asyncio.to_thread(self.predictor.settle)
            now = time.monotonic()
            if self._since is None or self._check.locked():
                continue
            if now - self._asked >= PURGE_IDLE_S or now - self._since >= PURGE_LATEST_S:
                with suppress(LockedMemoryError):  # a reader of another process: next time
                    await self.purge()
