"""The device that a job computes on: which one, copying to it, and timing it."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def gpu_visible() -> bool:
    """Whether this machine shows an NVIDIA GPU; asked while planning, so without torch."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES", "all") not in {"", "-1"}
    return allowed and any(Path(sign).exists() for sign in ("/dev/nvidia0", "/proc/driver/nvidia/gpus", "/dev/dxg"))


def device_of(gpus: int) -> str:
    """The device of a job that was granted `gpus` GPUs. Raises RuntimeError where a promised GPU is not there."""
    if not gpus:
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(
            "this job was planned for a GPU (device in params.yaml), but torch sees none here:"
            " set device: cpu, or run on a machine whose driver fits this torch"
        )
    return "cuda"


def to_device(tensor: "Tensor", device: str) -> "Tensor":
    """A tensor of the host on the device. Does not wait for a GPU, since it copies from pinned memory."""
    return tensor.pin_memory().to(device, non_blocking=True) if device == "cuda" else tensor


class Stopwatch:
    """Wall time of a block in `seconds`; work queued on a GPU is waited for at both ends."""

    seconds = 0.0

    def __init__(self, device: str) -> None:
        self.device = device

    def __enter__(self) -> "Stopwatch":
        self._start = self._time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = self._time() - self._start

    def _time(self) -> float:
        if self.device == "cuda":
            sys.modules["torch"].cuda.synchronize()
        return time.perf_counter()
