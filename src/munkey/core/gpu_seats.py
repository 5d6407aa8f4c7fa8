"""Which GPU of this machine a job computes on. Snakemake counts the jobs that may use one, and does not say which.

`--resources gpu=4` lets four such jobs run at once. They are spread evenly: every GPU has equally many seats, each seat
is a file, and a job holds the lock of one for as long as it lives. The kernel releases the lock when the process ends,
even if it is killed. The files are shared by all runs of a user on this machine, so two runs do not meet on one GPU
while another is idle.
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

AT_ONCE = "MUNKEY_GPU_JOBS"  # set for the jobs of a local run: how many of them may use a GPU at once
VISIBLE = "CUDA_VISIBLE_DEVICES"
DEVICES = Path("/dev")
LOOK_AGAIN_S = 0.1


def share(at_once: int | None) -> None:
    """Let this process's jobs share the GPUs, `at_once` of them at a time; None: one on each GPU."""
    os.environ[AT_ONCE] = str(at_once or 1)


@functools.cache  # a process has one seat, whose lock it keeps
def take_one() -> "FileLock | None":
    """Have CUDA see a single GPU in this process, where its run shares them. Waits while no seat is free.

    To be called before CUDA starts. On a cluster the scheduler has chosen the GPU: there this does nothing.
    """
    if AT_ONCE not in os.environ:
        return None
    names = _names()
    folder = own_folder(Path(tempfile.gettempdir()) / f"munkey-gpus-{os.getuid()}")
    rows = range(math.ceil(int(os.environ[AT_ONCE]) / len(names)))
    seats = {folder / f"{name.replace('/', '-')}.{row}": name for row in rows for name in names}
    lock = _lock_any(list(seats))
    os.environ[VISIBLE] = seats[Path(lock.lock_file)]
    return lock


def own_folder(folder: Path) -> Path:
    """A folder that nobody else may enter, made where it is not there. Raises PermissionError where it is another's.

    Anybody may put a folder of this name into /tmp, or a link.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        said = "is not a folder of yours, so nobody may lock files in it; set TMPDIR to a folder of your own"
        raise PermissionError(errno.EPERM, said, str(folder))
    folder.chmod(0o700)
    return folder


def _names() -> list[str]:
    """CUDA's names of the GPUs that it would show this process."""
    if allowed := os.environ.get(VISIBLE):
        return [name.strip() for name in allowed.split(",")]
    return [str(number) for number in range(max(1, len(list(DEVICES.glob("nvidia[0-9]*")))))]


def _lock_any(paths: list[Path]) -> "FileLock":
    """Lock the first of these files that is free, for as long as the lock is kept. Waits for one."""
    waited = False
    while True:
        for path in paths:
            lock = _lock(path)
            if lock is not None:
                return lock
        if not waited:
            print(f"waiting for a GPU: other jobs use {', '.join(path.name for path in paths)}")
        waited = True
        time.sleep(LOOK_AGAIN_S)


def _lock(path: Path) -> "FileLock | None":
    """The lock of a file; None where another process has it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock
