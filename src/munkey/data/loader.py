"""The batches of an epoch; on a GPU, the next ones are copied while one is computed."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from munkey.core import gpu
from munkey.data.image_set import Labeled

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Batch:
    """A batch.

    index: (B,) positions, on the host; images (B, 3, H, W) in [0, 1] and labels (B,), on the
    device.
    """

    index: Tensor
    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.index)


class Loader:
    """The batches of one epoch. indices: the positions of each batch in `samples`."""

    AHEAD = 2

    def __init__(self, samples: Labeled, indices: Sequence[Tensor], device: str) -> None:
        self.samples = samples
        self.indices = indices
        self.device = device

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Batch]:
        return self._copied_ahead() if self.device == "cuda" else map(self._batch, self.indices)

    def _copied_ahead(self) -> Iterator[Batch]:
        """The batches, each copied to the GPU on its own stream while earlier ones are computed."""
        stream = gpu.CopyStream()
        copies = ahead(
            lambda index: stream.started(lambda: self._batch(index)), self.indices, self.AHEAD
        )
        for batch, arrived in copies:
            stream.hand_over((batch.images, batch.labels), arrived)
            yield batch

    def _batch(self, index: Tensor) -> Batch:
        images, labels = self.samples.batch(index, self.device)
        return Batch(index, images, labels)


def ahead(make: Callable[[Item], Result], items: Sequence[Item], count: int) -> Iterator[Result]:
    """`make` of each item, in order; another thread works up to `count` results ahead."""
    with ThreadPoolExecutor(1) as thread:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(thread.submit(make, item))
            if len(waiting) > count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
