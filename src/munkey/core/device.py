"""The device of a job: choosing it, copying to and from it, and timing."""

import os
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core import gpu_seats

if TYPE_CHECKING:
    from torch import Tensor


def has_gpu() -> bool:
    """Return whether this machine has an NVIDIA GPU. Planning calls it, so it needs no torch."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all") in {"", "-1"}:
        return False
    device_files = ("/dev/nvidia0", "/proc/driver/nvidia/gpus", "/dev/dxg")  # the last one in WSL
    return any(Path(file).exists() for file in device_files)


def select_device(gpus: int) -> str:
    """Select the device of a job that was granted `gpus` GPUs.

    Afterwards this process sees a single GPU, so call it before CUDA starts. Raises RuntimeError if
    there is none.
    """
    if not gpus:
        return "cpu"
    gpu_seats.take_seat()
    from munkey.core import gpu

    if not gpu.is_available():
        raise RuntimeError(
            "this job was planned for a GPU (device in params.yaml), but torch sees none here:"
            " set device: cpu, or use a machine whose driver supports this version of torch"
        )
    gpu.disable_tf32()
    return "cuda"


@cache
def keep_freed_memory() -> None:
    """Let this process reuse freed memory, instead of returning it to the system.

    Activations of a convolutional encoder are so large that glibc maps and unmaps each of them, and
    clearing new pages then takes longer than the convolutions. With this call, EfficientNet-Lite2
    takes 17 instead of 40 ms of CPU time for an image of 224 px. Other C libraries lack it.
    """
    import ctypes

    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return
    # From glibc's malloc.h. Memory above these sizes in bytes is mapped, or returned.
    m_trim_threshold = -1
    m_mmap_threshold = -3
    library.mallopt(m_mmap_threshold, 1 << 30)
    library.mallopt(m_trim_threshold, (1 << 31) - 1)


def to_device(tensor: "Tensor", device: str) -> "Tensor":
    """Copy a tensor from the host to the device, without waiting for a GPU."""
    if device == "cuda":
        from munkey.core import gpu

        return gpu.copy_to_gpu(tensor)
    return tensor.to(device)


def to_host(tensor: "Tensor") -> "Tensor":
    """Copy a tensor to the host. Waits for a GPU; only AMUN's attack waits elsewhere, too."""
    return tensor.cpu()


class Stopwatch:
    """Measures the wall time of a block, in `seconds`.

    CUDA calls return before their work is done, so both ends of the block wait for all queued work
    before they read the clock.
    """

    seconds = 0.0

    def __init__(self, device: str) -> None:
        self.device = device

    def __enter__(self) -> "Stopwatch":
        self._start = self._read_clock()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = self._read_clock() - self._start

    def _read_clock(self) -> float:
        """Return the time in seconds, once the GPU has done all queued work."""
        if self.device == "cuda":
            from munkey.core import gpu

            gpu.wait()
        return time.perf_counter()
