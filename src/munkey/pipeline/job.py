"""What surrounds the work of a job: its log, its threads, its record. Nothing here can change a result."""

import contextlib
import ctypes
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from munkey.core.files import write_json
from munkey.pipeline.provenance import provenance


@contextlib.contextmanager
def job(log: str, threads: int) -> Iterator[None]:
    """Write everything that the block prints to a log file and limit it to a number of CPU threads.

    An exception ends the process with status 1, and its traceback is the end of the log. It is not printed as well,
    because Snakemake shows the end of a failed job's log.
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
    """Have the C library keep freed memory for the next tensor instead of returning it to the kernel (glibc only).

    By default it returns large blocks at once, and the kernel clears their pages again in every training step.
    """
    trim_threshold, mmap_max = -1, -4  # from <malloc.h>
    with contextlib.suppress(OSError, AttributeError):
        for option, value in ((trim_threshold, 2**31 - 1), (mmap_max, 0)):
            ctypes.CDLL(None).mallopt(option, value)


def now() -> str:
    """The time in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class JobRecord:
    """What a job did.

    settings: the sections of the parameters that it was given; device: cpu or cuda; started: from `now`; history: one
    entry per epoch; facts: further entries of the record, e.g. run times in seconds.
    """

    settings: Mapping[str, object]
    device: str
    started: str
    history: Sequence[Mapping[str, float]]
    facts: Mapping[str, object] = field(default_factory=dict)


def record(path: str, finished: JobRecord) -> None:
    """Write the record of a job that has just ended to a JSON file, along with its provenance."""
    content = {
        "started": finished.started,
        "ended": now(),
        "settings": finished.settings,
        "history": finished.history,
        **finished.facts,
        "provenance": provenance(finished.settings, finished.device),
    }
    write_json(path, content)
