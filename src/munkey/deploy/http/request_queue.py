"""Who is served when: predictions one at a time, in order; a deletion waits for at most one of them.

A check of the whole memory, which may take minutes, keeps nobody waiting but the next check.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from munkey.deploy import json_answers
from munkey.deploy.model.prediction import Prediction
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.chain import Receipt

if TYPE_CHECKING:
    from PIL.Image import Image

IDLE_S = 1.0  # how often to look for deletions whose zeros may not be on the disk yet


class RequestQueue:
    """One model for many requests. No answer given after a deletion was acknowledged rests on what was deleted."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        # First come, first served, each.
        self._queue, self._guard, self._check = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        self._unsettled = False

    async def predict(self, pictures: "Sequence[Image]") -> Prediction:
        async with self._queue, self._guard:  # deletions do not queue
            return await asyncio.to_thread(self.predictor.predict, pictures)

    async def forget(self, ids: Sequence[int], *, ignore_missing: bool) -> Receipt:
        async with self._guard:
            receipt = await asyncio.to_thread(self.predictor.forget, ids, ignore_missing=ignore_missing)
            self._unsettled = True
            return receipt

    async def verify(self, published: str | None) -> json_answers.Json:
        async with self._check:
            return await asyncio.to_thread(self._verified, published)

    def _verified(self, published: str | None) -> json_answers.Json:
        """Through a connection of its own: a memory is used by one thread at a time."""
        with Predictor.load(self.predictor.directory) as reader:
            return json_answers.verified(reader.verify(published), reader.search.described())

    async def settle_when_idle(self) -> None:
        """Forever: when there is time, wait until the zeros over what was deleted are on the disk."""
        while True:
            await asyncio.sleep(IDLE_S)
            if self._unsettled:
                async with self._guard:
                    self._unsettled = False
                    await asyncio.to_thread(self.predictor.store.settle)
