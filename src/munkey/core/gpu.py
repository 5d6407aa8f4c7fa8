"""All code that needs a GPU. The tests marked `gpu` run on machines that have one."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

ResultT = TypeVar("ResultT")
Arrival = torch.cuda.Event  # of a copy on the GPU


def is_available() -> bool:
    return torch.cuda.is_available()


def disable_tf32() -> None:
    """Compute convolutions in float32, as matrix products are; torch's default for them is TF32."""
    torch.backends.cudnn.allow_tf32 = False


def get_name() -> str:
    """Return the name of the GPU's model."""
    return torch.cuda.get_device_name()


def free_bytes() -> int:
    """Return how much memory of the GPU no process uses."""
    return torch.cuda.mem_get_info()[0]


def wait() -> None:
    """Wait until all queued work is done."""
    torch.cuda.synchronize()


def copy_to_gpu(tensor: Tensor) -> Tensor:
    """Copy a tensor from the host to the GPU. Does not wait, since it copies from pinned memory."""
    return tensor.pin_memory().to("cuda", non_blocking=True)


class CopyStream:
    """Copies that overlap the computation of the thread that creates this object."""

    def __init__(self) -> None:
        self.copying = torch.cuda.Stream()
        self.computing = torch.cuda.current_stream()

    def start(self, make: Callable[[], ResultT]) -> tuple[ResultT, Arrival]:
        """Call `make`, which copies to the GPU, in the stream for copies. Thread-safe.

        Returns its result, and an event that is complete once the copies are done.
        """
        with torch.cuda.stream(self.copying):
            return make(), self.copying.record_event()

    def hand_over(self, tensors: Iterable[Tensor], arrival: Arrival) -> None:
        """Make the computation wait for the tensors, and keep their memory until it is done."""
        self.computing.wait_event(arrival)
        for tensor in tensors:
            tensor.record_stream(self.computing)


def autocast(dtype: torch.dtype, device: str) -> AbstractContextManager[object]:
    """Return a context for matrix products in this format. Does nothing without autocast."""
    if not torch.amp.is_autocast_available(device):
        return nullcontext()
    return torch.autocast(device, dtype, enabled=dtype != torch.float32)


def make_loss_scaler(device: str, enabled: bool) -> torch.amp.GradScaler:
    """Return a scaler for the loss of training in float16."""
    return torch.amp.GradScaler(device, enabled=enabled)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return softmax(q k^T / sqrt(d)) v of (B, heads, n, d), without storing its (n, n) weights."""
    return F.scaled_dot_product_attention(q, k, v)
