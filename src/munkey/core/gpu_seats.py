"""The GPU that a job uses. Snakemake limits the number of GPU jobs, but assigns no GPU to them.

`--resources gpu=4` lets four such jobs run at once. To spread them evenly, every GPU has the same
number of seats. A seat is a file, which a job locks while it runs. The kernel releases the lock
when the process ends, even if it is killed. All runs of a user on a machine share the files, so two
runs do not compete for one GPU while another is idle.
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

AT_ONCE = "MUNKEY_GPU_JOBS"  # environment variable of a local run: how many jobs share the GPUs
VISIBLE = "CUDA_VISIBLE_DEVICES"
DEVICES = Path("/dev")
POLL_S = 0.1  # seconds between attempts to lock a seat


def share(job_count: int | None) -> None:
    """Let `job_count` jobs of this run share the GPUs; None for one job on each GPU."""
    os.environ[AT_ONCE] = str(job_count or 1)


@functools.cache  # a process takes one seat, and keeps its lock
def take_seat() -> "FileLock | None":
    """Restrict CUDA in this process to a single GPU. Waits for a free seat.

    Call it before CUDA starts. On a cluster, where the scheduler assigns GPUs, it does nothing.
    """
    if AT_ONCE not in os.environ:
        return None
    names = _list_gpu_names()
    folder = make_private_folder(Path(tempfile.gettempdir()) / f"munkey-gpus-{os.getuid()}")
    seats_per_gpu = math.ceil(int(os.environ[AT_ONCE]) / len(names))
    # The first seat of every GPU, then the second of every GPU, ...: jobs spread evenly.
    gpu_by_file: dict[Path, str] = {}
    for seat in range(seats_per_gpu):
        for name in names:
            gpu_by_file[folder / f"{name.replace('/', '-')}.{seat}"] = name
    lock = _lock_any(list(gpu_by_file))
    os.environ[VISIBLE] = gpu_by_file[Path(lock.lock_file)]
    return lock


def make_private_folder(folder: Path) -> Path:
    """Create a folder that only this user may enter.

    In /tmp, another user may have created a folder or a link with this name. Then this raises
    PermissionError.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        message = (
            "is not your folder, so no files are locked in it; set TMPDIR to a folder of your own"
        )
        raise PermissionError(errno.EPERM, message, str(folder))
    folder.chmod(0o700)
    return folder


def _list_gpu_names() -> list[str]:
    """Return CUDA's names of the GPUs that this process may use."""
    visible_gpus = os.environ.get(VISIBLE)
    if visible_gpus:
        return [name.strip() for name in visible_gpus.split(",")]
    count = len(list(DEVICES.glob("nvidia[0-9]*")))
    return [str(number) for number in range(max(1, count))]


def _lock_any(paths: list[Path]) -> "FileLock":
    """Lock the first of these files that is free. Waits until one is."""
    has_printed = False
    while True:
        for path in paths:
            lock = _try_lock(path)
            if lock is not None:
                return lock
        if not has_printed:
            print(f"waiting for a GPU: other jobs use {', '.join(path.name for path in paths)}")
            has_printed = True
        time.sleep(POLL_S)


def _try_lock(path: Path) -> "FileLock | None":
    """Lock a file. Returns None if another process has the lock."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock
