"""The environment of a job: its log and threads. Nothing here changes a result."""

import bdb
import contextlib
import ctypes
import os
import pdb
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from munkey.core.plugins import find_plugin_packages
from munkey.experiment.run.record import measure_usage

IN_TERMINAL = "MUNKEY_JOB"  # set by `munkey job`: the file whose job runs in the terminal
POST_MORTEM = "MUNKEY_PDB"  # set by `munkey job --pdb`: start a debugger where the job fails
TOOK = "This job took "  # the start of the log's last line if the job succeeded
FAILED = "\nThis job failed: "  # precedes the reason at the end of the log if the job failed


@dataclass(frozen=True)
class Surroundings:
    """The device and the log of a job, and settings that do not change its result.

    Attributes
    ----------
    resident_share
        The share of a GPU's free memory that images may use.
    checkpoint_s
        The seconds between two checkpoints.
    """

    device: str
    resident_share: float = 0.5
    checkpoint_s: float = 60.0
    log: str = ""


@contextlib.contextmanager
def job(log: str, threads: int, outputs: Sequence[str] = ()) -> Iterator[None]:
    """Limit the block to a number of CPU threads, and write everything that it prints to a log.

    An exception, also of sys.exit, ends the process with status 1. The log then ends with the
    traceback and the reason; otherwise, with the job's wall time (`read_seconds`).

    For `munkey job`, the output stays in the terminal instead, where a debugger works. In all other
    jobs, a breakpoint raises an error, because there is no terminal.
    """
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    keep_freed_memory()
    from threadpoolctl import threadpool_limits

    if os.environ.get(IN_TERMINAL) in outputs:
        redirection = _stay_in_terminal()
    else:
        redirection = _redirect_to_log(log, outputs)
    with redirection, threadpool_limits(threads):
        start = time.monotonic()
        yield
        usage = measure_usage()
        memory = f"{usage['max_rss_mb']} MiB of memory at most"
        print(f"{TOOK}{time.monotonic() - start:.2f} s, {usage['cpu_s']} s of CPU, {memory}")


@contextlib.contextmanager
def _redirect_to_log(log: str, outputs: Sequence[str]) -> Iterator[None]:
    """Write all output and the traceback of an exception to the log, and refuse breakpoints."""
    hook = sys.breakpointhook
    standard_input = sys.stdin

    def refuse_breakpoint(*_: object, **__: object) -> None:
        raise RuntimeError(
            "a breakpoint, but there is no terminal here:"
            f" `munkey job {''.join(outputs[:1])}` stops at it"
        )

    with (
        Path(log).open("w", buffering=1) as file,
        Path(os.devnull).open() as no_input,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        sys.breakpointhook = refuse_breakpoint
        sys.stdin = no_input  # pdb.set_trace() does not call the hook; without input, it fails
        try:
            yield
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            print(f"{FAILED}{_describe_error(error)}")
            raise SystemExit(1) from None
        finally:
            sys.breakpointhook = hook
            sys.stdin = standard_input


@contextlib.contextmanager
def _stay_in_terminal() -> Iterator[None]:
    """Leave output in the terminal. After an exception, start a debugger if POST_MORTEM is set."""
    try:
        yield
    except bdb.BdbQuit:
        raise SystemExit("The job ended with the debugger.") from None
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        if POST_MORTEM in os.environ:
            pdb.post_mortem(error.__traceback__)
        raise SystemExit(1) from None


def _describe_error(error: BaseException) -> str:
    """Describe an error, and where it came from if a plug-in or a call of sys.exit caused it."""
    frames = traceback.extract_tb(error.__traceback__)
    description = f"{type(error).__name__}: {error}"
    if isinstance(error, SystemExit):
        place = f"{os.path.relpath(frames[-1].filename)}, line {frames[-1].lineno}"
        description = (
            f"sys.exit({error.code!r}) was called in {place}. A job ends when its function returns;"
            " raise an error if it fails"
        )
    packages = find_plugin_packages().values()
    for frame in reversed(frames):
        file = Path(frame.filename)
        for package in packages:
            if file.is_relative_to(package.path):
                return (
                    f"{description}\nin the plug-in {package.origin} ({file}, line {frame.lineno})"
                )
    return description


def read_seconds(log: Path) -> float | None:
    """Read the wall time of a job in seconds from its log; None if it did not succeed."""
    last_line = log.read_text().rstrip().rpartition("\n")[2]
    if not last_line.startswith(TOOK):
        return None
    return float(last_line.removeprefix(TOOK).partition(" ")[0])


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next tensor (glibc only).

    By default, it returns large blocks to the kernel immediately, and the kernel would have to
    clear their pages in every training step.
    """
    trim_threshold = -1  # M_TRIM_THRESHOLD of <malloc.h>
    mmap_max = -4  # M_MMAP_MAX
    with contextlib.suppress(OSError, AttributeError):
        for option, value in ((trim_threshold, 2**31 - 1), (mmap_max, 0)):
            ctypes.CDLL(None).mallopt(option, value)
