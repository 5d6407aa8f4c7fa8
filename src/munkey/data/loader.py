"""Loader of an epoch's batches. On a GPU, the next batches are copied during computation."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from munkey.core import gpu
from munkey.data.image_set import LabeledSet

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Batch:
    """Images (B, 3, H, W) in [0, 1] and labels (B,) on the device, and their positions in a set."""

    index: Tensor
    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.index)


class Loader:
    """The batches of one epoch at the positions `indices`, copied in advance if `device` is "cuda"."""

    AHEAD = 2  # batches copied to the GPU in advance

    def __init__(self, samples: LabeledSet, indices: Sequence[Tensor], device: str) -> None:
        self.samples = samples
        self.indices = indices
        self.device = device

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Batch]:
        if self.device == "cuda":
            return self._prefetch()
        return map(self._read, self.indices)

    def _prefetch(self) -> Iterator[Batch]:
        """Yield the batches, each copied in advance to the GPU on a separate stream."""
        stream = gpu.CopyStream()

        def start_copy(index: Tensor) -> tuple[Batch, gpu.Arrival]:
            # The batch is read only after `start` has selected the stream.
            return stream.start(lambda: self._read(index))

        for batch, arrival in prefetch(start_copy, self.indices, self.AHEAD):
            stream.hand_over((batch.images, batch.labels), arrival)
            yield batch

    def _read(self, index: Tensor) -> Batch:
        images, labels = self.samples.batch(index, self.device)
        return Batch(index, images, labels)


def prefetch(
    make: Callable[[ItemT], ResultT], items: Sequence[ItemT], count: int
) -> Iterator[ResultT]:
    """Yield `make(item)` for each item, in order. A thread computes up to `count` items ahead."""
    with ThreadPoolExecutor(1) as thread:
        futures: deque[Future[ResultT]] = deque()
        for item in items:
            futures.append(thread.submit(make, item))
            if len(futures) > count:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
