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
        The share of a GPU's free memory that images may take.
    checkpoint_s
        The seconds between two checkpoints.
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
    succeeds has its time (`read_seconds`).

    If `munkey job` asks for one of its outputs, the block runs in the terminal instead, and a
    debugger works there. In all other jobs a breakpoint raises: there is no terminal to answer from.

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

    redirection = _redirect_to_log(log, outputs)
    if os.environ.get(IN_TERMINAL) in outputs:
        redirection = _stay_in_terminal()
    with redirection, threadpool_limits(threads):
        start = time.monotonic()
        yield
        used = measure_usage()
        memory = f"{used['max_rss_mb']} MiB of memory at most"
        print(f"{TOOK}{time.monotonic() - start:.2f} s, {used['cpu_s']} s of CPU, {memory}")


@contextlib.contextmanager
def _redirect_to_log(log: str, outputs: Sequence[str]) -> Iterator[None]:
    """Write all output and the traceback of an exception to the log, and refuse breakpoints."""
    hook = sys.breakpointhook
    standard_input = sys.stdin

    def refuse_breakpoint(*_: object, **__: object) -> None:
        raise RuntimeError(
            f"a breakpoint, but nobody sees it here: `munkey job {''.join(outputs[:1])}` stops at it"
        )

    with (
        Path(log).open("w", buffering=1) as file,
        Path(os.devnull).open() as no_input,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        sys.breakpointhook = refuse_breakpoint
        sys.stdin = no_input  # ends pdb.set_trace(), which does not call the hook
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
def _stay_in_terminal() -> Iterator[None]:
    """Leave output in the terminal. After an exception, start a debugger there if it is asked for."""
    try:
        yield
    except bdb.BdbQuit:
        raise SystemExit("The debugger was left, and with it this job.") from None
    except Exception as error:
        traceback.print_exc()
        if POST_MORTEM in os.environ:
            pdb.post_mortem(error.__traceback__)
        raise SystemExit(1) from None


def read_seconds(log: Path) -> float | None:
    """Return the wall seconds of the job that wrote a log; None if it did not succeed."""
    last_line = log.read_text().rstrip().rpartition("\n")[2]
    if not last_line.startswith(TOOK):
        return None
    return float(last_line.removeprefix(TOOK).partition(" ")[0])


def last_words(failed: Mapping[str, str], stopped: bool = False) -> str:
    """Return the last words of a run that did not succeed: what failed and why, in at most 30 lines.

    Parameters
    ----------
    failed
        The messages of the failed jobs, by the paths of their logs.
    stopped
        Whether the user stopped the run. Then jobs without a reason in their logs did not fail.
    """
    again = "run the same command again: finished work is kept."
    reasons: dict[str, str] = {}
    for log in failed:
        reason = _read_reason(Path(log))
        if reason or not stopped:
            reasons[log] = reason or KILLED
    if not reasons:
        return f"The run was stopped; to go on, {again}"
    shown_logs = list(reasons)[:3]
    max_lines = 24 // len(shown_logs) - 2  # of each job's reason, besides its message and log
    paragraphs = [f"{pluralize(len(reasons), 'job')} failed:"]
    for log in shown_logs:
        reason_lines = reasons[log].splitlines()
        lines = reason_lines[:max_lines]
        if len(reason_lines) > max_lines:
            lines.append(f"... {len(reason_lines) - max_lines} more lines in its log")
        lines.append(f"log: {log}")
        paragraphs.append(failed[log])
        paragraphs.append(textwrap.indent("\n".join(lines), "  "))
    if len(reasons) > len(shown_logs):
        paragraphs.append(f"... and {len(reasons) - len(shown_logs)} more, see above")
    paragraphs.append(f"Fix the above, then {again}")
    return "\n".join(paragraphs)


def _read_reason(log: Path) -> str:
    """Read from its log why a job failed; empty if the log does not say."""
    if not log.exists():
        return ""
    return log.read_text(errors="replace").partition(FAILED)[2].rstrip()


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next tensor (glibc only).

    By default it returns large blocks to the kernel immediately, which clears their pages again in
    every training step.
    """
    trim_threshold = -1  # M_TRIM_THRESHOLD of <malloc.h>
    mmap_max = -4  # M_MMAP_MAX
    with contextlib.suppress(OSError, AttributeError):
        for option, value in ((trim_threshold, 2**31 - 1), (mmap_max, 0)):
            ctypes.CDLL(None).mallopt(option, value)


def now() -> str:
    """Return the time in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def measure_usage() -> dict[str, float]:
    """Return this process's peak resident memory [MiB], and its CPU time with its ended children's [s].

    A fork's memory includes the libraries that it shares with its server. Its CPU time does not
    include their import.
    """
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    megabyte = 2**10
    if sys.platform == "darwin":  # counts bytes
        megabyte = 2**20
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss includes the process before `exec`, a copy of Snakemake. The "high water mark" of
        # the memory does not.
        match = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), flags=re.MULTILINE)
        if match:
            peak = int(match[1])
    cpu_s = sum(os.times()[:4])  # user and system time, then both of the children
    return {"max_rss_mb": round(peak / megabyte, 1), "cpu_s": round(cpu_s, 2)}
