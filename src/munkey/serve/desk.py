"""Who is served when: predictions one at a time, in order; a deletion waits for one of them at most."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from munkey.memory.store.chain import Receipt
from munkey.memory.store.verify import Report
from munkey.serve.prediction import Prediction
from munkey.serve.predictor import Predictor

if TYPE_CHECKING:
    from PIL.Image import Image

IDLE_S = 1.0  # so long after a deletion, its zeros are waited for, unless a later deletion did


class Desk:
    """One model for many requests. No answer given after a deletion was acknowledged rests on what was deleted."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self._queue, self._guard = asyncio.Lock(), asyncio.Lock()  # first come, first served
        self._unsettled = False

    async def predict(self, pictures: "Sequence[Image]") -> Prediction:
        async with self._queue, self._guard:  # deletions do not queue
            return await asyncio.to_thread(self.predictor.predict, pictures)

    async def forget(self, ids: Sequence[int], *, ignore_missing: bool) -> Receipt:
        async with self._guard:
            receipt = await asyncio.to_thread(self.predictor.forget, ids, ignore_missing=ignore_missing)
            self._unsettled = True
            return receipt

    async def verify(self, published: str | None) -> Report:
        async with self._queue:
            return await asyncio.to_thread(self.predictor.verify, published)

    async def settle_when_idle(self) -> None:
        """Without end: wait for the zeros of what was deleted whenever there is time."""
        while True:
            await asyncio.sleep(IDLE_S)
            if self._unsettled:
                async with self._guard:
                    self._unsettled = False
                    await asyncio.to_thread(self.predictor.store.settle)
