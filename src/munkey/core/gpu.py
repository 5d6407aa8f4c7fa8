"""All code that needs a GPU. The tests marked `gpu` check it on machines that have one."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

ResultT = TypeVar("ResultT")
Arrival = torch.cuda.Event  # occurs when a copy to the GPU is done


def is_available() -> bool:
    return torch.cuda.is_available()


def disable_tf32() -> None:
    """Compute convolutions in float32, like matrix products, not in TF32 (torch's default)."""
    torch.backends.cudnn.allow_tf32 = False


def get_name() -> str:
    """Return the GPU's model name."""
    return torch.cuda.get_device_name()


def free_bytes() -> int:
    """Return the number of bytes of the GPU's memory that no process uses."""
    return torch.cuda.mem_get_info()[0]


def wait() -> None:
    """Wait until the GPU has done all queued work."""
    torch.cuda.synchronize()


def copy_to_gpu(tensor: Tensor) -> Tensor:
    """Copy a tensor to the GPU from pinned memory. Returns before the copy is done."""
    return tensor.pin_memory().to("cuda", non_blocking=True)


class CopyStream:
    """A stream for copies, concurrent with the computation of the thread that creates it."""

    def __init__(self) -> None:
        self.copying = torch.cuda.Stream()
        self.computing = torch.cuda.current_stream()

    def start(self, copy: Callable[[], ResultT]) -> tuple[ResultT, Arrival]:
        """Call `copy` on the stream for copies. Returns its result and its end. Thread-safe."""
        with torch.cuda.stream(self.copying):
            return copy(), self.copying.record_event()

    def hand_over(self, tensors: Iterable[Tensor], arrival: Arrival) -> None:
        """Make the computation wait for the copies, and keep their memory until it is done."""
        self.computing.wait_event(arrival)
        for tensor in tensors:
            tensor.record_stream(self.computing)


def autocast(dtype: torch.dtype, device: str) -> AbstractContextManager[object]:
    """Return a context in which matrix products use `dtype`, if the device supports autocast."""
    if not torch.amp.is_autocast_available(device):
        return nullcontext()
    return torch.autocast(device, dtype, enabled=dtype != torch.float32)


def make_loss_scaler(device: str, enabled: bool) -> torch.amp.GradScaler:
    """Return a scaler for the loss, which is enabled when training in float16."""
    return torch.amp.GradScaler(device, enabled=enabled)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return softmax(q k^T / sqrt(d)) v, of shape (B, heads, n, d), without storing the softmax."""
    return F.scaled_dot_product_attention(q, k, v)
