"""Around a job: its log, its threads, its device, its record. Nothing here can change a result."""

import contextlib
import ctypes
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from munkey.files import write_json

T = TypeVar("T")

LIBRARIES = ("torch", "timm", "faiss-cpu", "numpy", "pandas", "scikit-learn", "snakemake")


@contextlib.contextmanager
def job(log: str, threads: int) -> Iterator[None]:
    """Send everything a job prints, its traceback included, to its log; keep it to `threads` CPU threads.

    Snakemake shows the end of a failed job's log, so an error ends the process without being printed twice.
    """
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    keep_freed_memory()
    from threadpoolctl import threadpool_limits

    with (
        Path(log).open("w", buffering=1) as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
        threadpool_limits(threads),
    ):
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            print(f"\n{type(error).__name__}: {error}")
            raise SystemExit(1) from None


def keep_freed_memory() -> None:
    """Let the C library keep what is freed for the next tensor, where it is glibc.

    It would return large blocks at once, and the kernel clear their pages anew at every step of a training.
    """
    trim_threshold, mmap_max = -1, -4  # <malloc.h>
    with contextlib.suppress(OSError, AttributeError):
        for option, value in ((trim_threshold, 2**31 - 1), (mmap_max, 0)):
            ctypes.CDLL(None).mallopt(option, value)


def gpu_visible() -> bool:
    """Whether this machine shows an NVIDIA GPU; asked while planning, so without torch."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES", "all") not in {"", "-1"}
    return allowed and any(Path(sign).exists() for sign in ("/dev/nvidia0", "/proc/driver/nvidia/gpus", "/dev/dxg"))


def device(gpus: int) -> str:
    """The device of a job that was given `gpus` GPUs. Raises RuntimeError where a promised GPU is not there."""
    if not gpus:
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(
            "this job was planned for a GPU (device in params.yaml), but torch sees none here:"
            " set device: cpu, or run on a machine whose driver fits this torch"
        )
    return "cuda"


def warn(message: str) -> None:
    """Say something in the job's log and, because nobody reads the log of a job that succeeds, on the terminal too."""
    print(message)
    print(message, file=sys.__stderr__, flush=True)


def progress(items: Iterable[T], what: str, unit: str, every_s: float = 2.0, each: int = 1) -> Iterator[T]:
    """Pass items on, printing a line with rate and time left about every `every_s` seconds and at the end."""
    total = len(items) if isinstance(items, Sized) else 0
    start = last = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last >= every_s or done == total:
            last, rate = now, done / max(now - start, 1e-9)
            left = f", {(total - done) / rate:.0f} s left" if total else ""
            print(f"{what} {done}/{total or '?'}: {rate * each:.2f} {unit}/s{left}")


def now() -> str:
    """UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


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


def sections(settings: Mapping[str, Any]) -> SimpleNamespace:
    """A rule's parameters with attribute access, section by section."""
    return SimpleNamespace(**{k: SimpleNamespace(**v) if isinstance(v, dict) else v for k, v in settings.items()})


def record(
    path: str,
    settings: dict[str, Any],
    device: str,
    started: str,
    history: Sequence[Mapping[str, float]],
    **facts: Any,
) -> None:
    """Write what a job did: its times, its curves by epoch, and what they came from."""
    written = {"started": started, "ended": now(), "settings": settings, "history": history}
    write_json(path, written | facts | {"provenance": provenance(settings, device)})


def provenance(params: Any, device: str) -> dict[str, Any]:
    """What a result came from: commit, digest of the parameters it depends on, library versions, device."""
    return {
        "commit": _commit(),
        "params_digest": hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()[:16],
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in LIBRARIES},
        "device": sys.modules["torch"].cuda.get_device_name() if device == "cuda" else _cpu_name(),
    }


def _commit() -> str:
    def git(*args: str) -> str:
        return subprocess.run(["git", *args], capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no")
    return (commit or "not a git checkout") + ("+changes" if changed else "")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, CPU"
