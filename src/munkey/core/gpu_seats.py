"""Which GPU of this machine a job computes on. Snakemake counts the jobs that may use one, and does not say which.

`--resources gpu=4` lets four such jobs run at once. They are spread evenly: every GPU has equally many seats, each seat
is a file, and a job holds the lock of one for as long as it lives. The kernel releases the lock when the process ends,
even if it is killed. The files are shared by all runs of a user on this machine, so two runs do not meet on one GPU
while another is idle.
"""

import functools
import math
import os
import tempfile
import time
from pathlib import Path

AT_ONCE = "MUNKEY_GPU_JOBS"  # set for the jobs of a local run: how many of them may use a GPU at once
VISIBLE = "CUDA_VISIBLE_DEVICES"
DEVICES = Path("/dev")
LOOK_AGAIN_S = 0.1


def share(at_once: int | None) -> None:
    """Let this process's jobs share the GPUs, `at_once` of them at a time; None: one on each GPU."""
    os.environ[AT_ONCE] = str(at_once or 1)


@functools.cache  # a process has one seat
def take_one() -> None:
    """Have CUDA see a single GPU in this process, where its run shares them. Waits while no seat is free.

    To be called before CUDA starts. On a cluster the scheduler has chosen the GPU: there this does nothing.
    """
    if AT_ONCE not in os.environ:
        return
    names = _names()
    folder = Path(tempfile.gettempdir()) / f"munkey-gpus-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    rows = range(math.ceil(int(os.environ[AT_ONCE]) / len(names)))
    seats = {folder / f"{name.replace('/', '-')}.{row}": name for row in rows for name in names}
    os.environ[VISIBLE] = seats[_lock_any(list(seats))]


def _names() -> list[str]:
    """CUDA's names of the GPUs that it would show this process."""
    if allowed := os.environ.get(VISIBLE):
        return [name.strip() for name in allowed.split(",")]
    return [str(number) for number in range(max(1, len(list(DEVICES.glob("nvidia[0-9]*")))))]


def _lock_any(paths: list[Path]) -> Path:
    """Lock the first of these files that is free, for as long as this process lives. Waits for one."""
    waited = False
    while not (path := next(filter(_lock, paths), None)):
        if not waited:
            print(f"waiting for a GPU: other jobs use {', '.join(path.name for path in paths)}")
        waited = True
        time.sleep(LOOK_AGAIN_S)
    return path


def _lock(path: Path) -> bool:
    """Lock a file, unless another process has; it stays open as long as the lock is to last."""
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True
