"""Assigns a GPU to each job, because Snakemake only limits the number of jobs that use one.

With `--resources gpu=4`, four GPU jobs run at a time. Each GPU has the same number of slots, files
that jobs lock while they run. All runs of a user on this machine share them, and the operating
system releases the lock of a process that ends.
"""

import errno
import functools
import math
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import FileLock

JOB_COUNT = "MUNKEY_GPU_JOBS"  # environment variable: concurrent GPU jobs of a local run
VISIBLE = "CUDA_VISIBLE_DEVICES"
DEVICES = Path("/dev")
POLL_SECONDS = 0.1


def share(job_count: int | None) -> None:
    """Let `job_count` jobs of this run share the GPUs, through the environment. None means 1."""
    os.environ[JOB_COUNT] = str(job_count or 1)


@functools.cache  # a process keeps the lock of its only slot
def take_slot() -> "FileLock | None":
    """Wait for a free slot, and restrict CUDA in this process to its GPU, before CUDA starts.

    Returns None on a cluster, where the scheduler assigns GPUs.
    """
    if JOB_COUNT not in os.environ:
        return None
    names = _list_gpu_names()
    folder = make_private_folder(Path(tempfile.gettempdir()) / f"munkey-gpus-{os.getuid()}")
    slots_per_gpu = math.ceil(int(os.environ[JOB_COUNT]) / len(names))
    # To spread jobs evenly, the first slot of each GPU comes before all second slots.
    gpu_by_file: dict[Path, str] = {}
    for slot in range(slots_per_gpu):
        for name in names:
            gpu_by_file[folder / f"{name.replace('/', '-')}.{slot}"] = name
    lock = _lock_any(list(gpu_by_file))
    os.environ[VISIBLE] = gpu_by_file[Path(lock.lock_file)]
    return lock


def make_private_folder(folder: Path) -> Path:
    """Create a folder that only this user may enter.

    Raises PermissionError for a link or another user's folder: anybody can create those in /tmp.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        message = (
            "not a folder of yours, so files in it cannot be locked safely; set TMPDIR to a folder"
            " of your own"
        )
        raise PermissionError(errno.EPERM, message, str(folder))
    folder.chmod(0o700)
    return folder


def _list_gpu_names() -> list[str]:
    """Return the names, as in CUDA_VISIBLE_DEVICES, of the GPUs that this process may use."""
    visible_gpus = os.environ.get(VISIBLE)
    if visible_gpus:
        return [name.strip() for name in visible_gpus.split(",")]
    count = len(list(DEVICES.glob("nvidia[0-9]*")))
    # At least one, because the GPU of WSL has no such device file.
    return [str(number) for number in range(max(1, count))]


def _lock_any(paths: list[Path]) -> "FileLock":
    """Lock the first free file. Waits until one is free."""
    has_printed = False
    while True:
        for path in paths:
            lock = _try_lock(path)
            if lock is not None:
                return lock
        if not has_printed:
            print(f"waiting for a GPU: other jobs use {', '.join(path.name for path in paths)}")
            has_printed = True
        time.sleep(POLL_SECONDS)


def _try_lock(path: Path) -> "FileLock | None":
    """Lock a file, or return None if another process holds the lock."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock
