"""The surroundings of a job's work: its log, its threads, its record. Nothing here can change a result."""

import bdb
import contextlib
import ctypes
import os
import pdb
import re
import sys
import textwrap
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from munkey.core.console import pluralize

IN_TERMINAL = "MUNKEY_JOB"  # set by `munkey job`: the file whose job runs in the terminal
POST_MORTEM = "MUNKEY_PDB"  # set by `munkey job --pdb`: a debugger starts where that job fails
TOOK = "This job took "  # before its wall time, in the last line of the log of a job that succeeded
FAILED = "\nThis job failed: "  # before the reason, at the end of the log of a failed job
KILLED = (
    "It ended without a reason in its log. If nobody killed it, the machine may have run out of memory"
    " or disk space."
)


@dataclass(frozen=True)
class Surroundings:
    """Where a job computes, and its log.

    Attributes
    ----------
    resident_share
        How much of a GPU's free memory images may take.
    checkpoint_s
        Seconds between two checkpoints.
    """

    device: str
    resident_share: float = 0.5
    checkpoint_s: float = 60.0
    log: str = ""


@contextlib.contextmanager
def job(log: str, threads: int, outputs: Sequence[str] = ()) -> Iterator[None]:
    """Limit the block to a number of CPU threads and write everything that it prints to a log file.

    An exception ends the process with status 1. Its traceback and the reason are the end of the
    log; the run shows the reason at its own end (`last_words`). The last line of a job that
    succeeds has its time (`seconds_of`).

    If `munkey job` asks for one of them, the block runs in the terminal instead, and a debugger
    works there. In all other jobs a breakpoint raises: there is no terminal to answer from.

    Parameters
    ----------
    outputs
        The files that the job makes.
    """
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    keep_freed_memory()
    from threadpoolctl import threadpool_limits

    place = _in_log(log, outputs)
    if os.environ.get(IN_TERMINAL) in outputs:
        place = _in_terminal()
    with place, threadpool_limits(threads):
        started = time.monotonic()
        yield
        used = usage()
        memory = f"{used['max_rss_mb']} MiB of memory at most"
        print(f"{TOOK}{time.monotonic() - started:.2f} s, {used['cpu_s']} s of CPU, {memory}")


@contextlib.contextmanager
def _in_log(log: str, outputs: Sequence[str]) -> Iterator[None]:
    hook = sys.breakpointhook
    standard_input = sys.stdin

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(
            f"a breakpoint, but nobody sees it here: `munkey job {''.join(outputs[:1])}` stops at it"
        )

    with (
        Path(log).open("w", buffering=1) as file,
        Path(os.devnull).open() as nothing,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        sys.breakpointhook = refuse
        sys.stdin = nothing  # for pdb.set_trace(), which asks no hook
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            print(f"{FAILED}{type(error).__name__}: {error}")
            raise SystemExit(1) from None
        finally:
            sys.breakpointhook = hook
            sys.stdin = standard_input


@contextlib.contextmanager
def _in_terminal() -> Iterator[None]:
    try:
        yield
    except bdb.BdbQuit:
        raise SystemExit("The debugger was left, and with it this job.") from None
    except Exception as error:
        traceback.print_exc()
        if POST_MORTEM in os.environ:
            pdb.post_mortem(error.__traceback__)
        raise SystemExit(1) from None


def seconds_of(log: Path) -> float | None:
    """Return the wall seconds of the job that wrote a log; None if it did not succeed."""
    last_line = log.read_text().rstrip().rpartition("\n")[2]
    if not last_line.startswith(TOOK):
        return None
    return float(last_line.removeprefix(TOOK).partition(" ")[0])


def last_words(failed: Mapping[str, str], stopped: bool = False) -> str:
    """Return the end of a run that did not succeed, at most 30 lines: what failed and why, and what to do.

    Parameters
    ----------
    failed
        The failed jobs by the paths of their logs.
    stopped
        By the user; then jobs without a reason did not fail.
    """
    again = "run the same command again: finished work is kept."
    reasons: dict[str, str] = {}
    for log in failed:
        reason = _reason(Path(log))
        if reason or not stopped:
            reasons[log] = reason or KILLED
    if not reasons:
        return f"The run was stopped; to go on, {again}"
    listed = list(reasons)[:3]
    paragraphs = [f"{pluralize(len(reasons), 'job')} failed:"]
    most = 24 // len(listed) - 2
    for log in listed:
        lines = reasons[log].splitlines()
        shortened = lines[:most]
        if len(lines) > most:
            shortened.append(f"... {len(lines) - most} more lines in its log")
        paragraphs.append(failed[log])
        paragraphs.append(textwrap.indent("\n".join([*shortened, f"log: {log}"]), "  "))
    if len(reasons) > len(listed):
        paragraphs.append(f"... and {len(reasons) - len(listed)} more, see above")
    paragraphs.append(f"Fix the above, then {again}")
    return "\n".join(paragraphs)


def _reason(log: Path) -> str:
    """Return why a job failed; empty if its log does not say."""
    if not log.exists():
        return ""
    return log.read_text(errors="replace").partition(FAILED)[2].rstrip()


def keep_freed_memory() -> None:
    """Have the C library keep freed memory for the next tensor instead of returning it to the kernel (glibc only).

    By default it returns large blocks at once, and the kernel clears their pages again in every
    training step.
    """
    trim_threshold = -1  # M_TRIM_THRESHOLD of <malloc.h>
    mmap_max = -4  # M_MMAP_MAX
    with contextlib.suppress(OSError, AttributeError):
        for option, value in ((trim_threshold, 2**31 - 1), (mmap_max, 0)):
            ctypes.CDLL(None).mallopt(option, value)


def now() -> str:
    """Return the time in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def usage() -> dict[str, float]:
    """Return the peak of this process's resident memory [MiB] and its CPU time with that of its ended children [s].

    They are the job's own. A fork's memory includes the libraries that it shares with its server,
    its CPU time does not include their import.
    """
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    megabyte = 2**10
    if sys.platform == "darwin":  # counts bytes
        megabyte = 2**20
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss includes the process before `exec`, a copy of Snakemake; this line does not
        high_water = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), flags=re.MULTILINE)
        if high_water:
            peak = int(high_water[1])
    return {"max_rss_mb": round(peak / megabyte, 1), "cpu_s": round(sum(os.times()[:4]), 2)}
