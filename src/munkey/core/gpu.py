"""All that only a GPU can run, on one page: what the tests marked `gpu` check where there is one.

Everything else on the path of a GPU runs on torch's meta device (tests/test_gpu_path.py), which needs none.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

Result = TypeVar("Result")


def is_there() -> bool:
    return torch.cuda.is_available()


def keep_float32() -> None:
    """Convolutions in float32 compute in float32, as matrix products do; torch's default for them is TF32."""
    torch.backends.cudnn.allow_tf32 = False


def name() -> str:
    """The model of the card."""
    return torch.cuda.get_device_name()


def free_bytes() -> int:
    """Memory of the card that nobody uses, other processes included."""
    return torch.cuda.mem_get_info()[0]


def wait() -> None:
    """Until all work queued so far is done."""
    torch.cuda.synchronize()


def copied(tensor: Tensor) -> Tensor:
    """A tensor of the host on the GPU. Does not wait, since it copies from pinned memory."""
    return tensor.pin_memory().to("cuda", non_blocking=True)


class CopyStream:
    """Copies that run beside the computation of the thread that makes this object."""

    def __init__(self) -> None:
        self.copying, self.computing = torch.cuda.Stream(), torch.cuda.current_stream()

    def started(self, make: Callable[[], Result]) -> tuple[Result, torch.cuda.Event]:
        """What `make` copies, perhaps from another thread, and the event that says that it has arrived."""
        with torch.cuda.stream(self.copying):
            return make(), self.copying.record_event()

    def hand_over(self, tensors: Iterable[Tensor], arrived: torch.cuda.Event) -> None:
        """Let the computation go on once the tensors have arrived, and keep their memory as long as it needs them."""
        self.computing.wait_event(arrived)
        for tensor in tensors:
            tensor.record_stream(self.computing)


def products_in(dtype: torch.dtype, device: str) -> AbstractContextManager[object]:
    """A context in which matrix products have this number format, on any device that has such a choice."""
    if not torch.amp.is_autocast_available(device):
        return nullcontext()
    return torch.autocast(device, dtype, enabled=dtype != torch.float32)


def loss_scaler(device: str, enabled: bool) -> torch.amp.GradScaler:
    """What scales the loss of a training in float16."""
    return torch.amp.GradScaler(device, enabled=enabled)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(d)) v over (B, heads, n, d), without ever holding its (n, n) weights."""
    return F.scaled_dot_product_attention(q, k, v)
