"""The device that a job computes on: which one, copying to it and back, and timing it."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core import gpu_seats as sharing

if TYPE_CHECKING:
    from torch import Tensor


def gpu_visible() -> bool:
    """Whether this machine shows an NVIDIA GPU; asked while planning, so without torch."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES", "all") not in {"", "-1"}
    return allowed and any(Path(sign).exists() for sign in ("/dev/nvidia0", "/proc/driver/nvidia/gpus", "/dev/dxg"))


def device_of(gpus: int) -> str:
    """The device of a job that was granted `gpus` GPUs. Raises RuntimeError where a promised GPU is not there.

    Of several GPUs of this machine, the process sees one from now on: CUDA must not have started before.
    """
    if not gpus:
        return "cpu"
    sharing.take_one()
    from munkey.core import gpu

    if not gpu.is_there():
        raise RuntimeError(
            "this job was planned for a GPU (device in params.yaml), but torch sees none here:"
            " set device: cpu, or run on a machine whose driver fits this torch"
        )
    gpu.keep_float32()
    return "cuda"


def to_device(tensor: "Tensor", device: str) -> "Tensor":
    """A tensor of the host on the device. Does not wait for a GPU."""
    if device == "cuda":
        from munkey.core import gpu

        return gpu.copied(tensor)
    return tensor.to(device)


def to_host(tensor: "Tensor") -> "Tensor":
    """A tensor of the device on the host. Waits for a GPU; apart from AMUN's attack, nothing else does."""
    return tensor.cpu()


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
            from munkey.core import gpu

            gpu.wait()
        return time.perf_counter()
