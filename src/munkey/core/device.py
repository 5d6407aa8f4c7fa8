"""A job's device: how to select it, copy tensors to and from it, and time its work."""

import os
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core import gpu_slots

if TYPE_CHECKING:
    from torch import Tensor


def has_gpu() -> bool:
    """Return whether this machine has an NVIDIA GPU.

    Avoids importing torch, which must not be loaded during planning.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all") in {"", "-1"}:
        return False
    # In WSL, the GPU of Windows appears as /dev/dxg.
    device_files = ("/dev/nvidia0", "/proc/driver/nvidia/gpus", "/dev/dxg")
    return any(Path(file).exists() for file in device_files)


def select_device(gpus: int) -> str:
    """Select the device of a job that was granted `gpus` GPUs, and hide other GPUs.

    Call it before CUDA starts. Raises RuntimeError if torch cannot use a granted GPU.
    """
    if not gpus:
        return "cpu"
    gpu_slots.take_slot()
    from munkey.core import gpu

    if not gpu.is_available():
        raise RuntimeError(
            "this job was planned for a GPU (`device` in params.yaml), but torch sees none here:"
            " set device: cpu, or run on a machine whose driver supports this version of torch"
        )
    gpu.disable_tf32()
    return "cuda"


@cache
def keep_freed_memory() -> None:
    """Let this process reuse freed memory, if the C library is glibc.

    Otherwise, glibc maps new memory for the activations of a convolutional encoder, and the kernel
    takes longer to zero it than the network to compute: EfficientNet-Lite2 at 224 pixels takes 40
    instead of 17 ms of CPU time per image.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return
    # The numbers of the options are from glibc's malloc.h. glibc maps memory for allocations above
    # the first threshold (in bytes), and returns freed memory above the second.
    m_mmap_threshold = -3
    m_trim_threshold = -1
    libc.mallopt(m_mmap_threshold, 2**30)
    libc.mallopt(m_trim_threshold, 2**31 - 1)


def to_device(tensor: "Tensor", device: str) -> "Tensor":
    """Copy a tensor from the host to the device. Does not wait for a GPU."""
    if device == "cuda":
        from munkey.core import gpu

        return gpu.copy_to_gpu(tensor)
    return tensor.to(device)


def to_host(tensor: "Tensor") -> "Tensor":
    """Copy a tensor to the host. Waits until the GPU has computed it."""
    return tensor.cpu()


class Stopwatch:
    """Measure the wall time of a `with` block and of its work on the GPU, in `seconds`."""

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
