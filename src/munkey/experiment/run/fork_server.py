"""Fast start for short jobs: they are forked from one process that has already imported the slow libraries.

A grid has hundreds of jobs that take seconds, and importing torch takes as long as many of them.
Snakemake launches one server per run, which imports libraries but nothing of this package, so that
edited code always takes effect. Each job asks the server for a fork of itself. The fork takes over
the job's arguments, environment, folder and output, and runs the job's script. Variables that
libraries and the loader read when they are loaded, e.g. LD_LIBRARY_PATH, are those of the run.
Without a server, or if it ends before the job has begun, the job runs in its own process.
MUNKEY_FORK_SERVER=0 turns the server off. On a cluster there is none.

Every job of a run, forked or not, ends when Snakemake does, even if that is killed: otherwise a
second run would write the same files as the jobs left over from the first.
"""

import atexit
import contextlib
import hashlib
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import NoReturn

LIBRARIES = (
    "snakemake.script", "numpy", "torch", "torch._dynamo", "safetensors.torch", "pydantic.main", "pydantic.types",
    "pydantic.plugin._loader", "faiss", "pandas", "scipy.special", "sklearn.linear_model", "sklearn.model_selection",
)  # fmt: skip
SWITCH = "MUNKEY_FORK_SERVER"  # set it to 0 to run every job in its own process
RUN = "MUNKEY_RUN"  # set for the jobs of a local run: its folder, which Snakemake keeps locked
FORKED = "MUNKEY_FORKED"  # set in the environment of a fork
KILLED = (
    "this job was killed; if nobody killed it, the machine ran out of memory: see its system log"
)
INTERRUPTED = 128 + signal.SIGINT  # exit status
# The server imports with one thread, since threads do not survive a fork. Each job sets its own
# number.
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def socket_in(folder: Path) -> Path:
    """Return the server's socket, for jobs that run in the same Python environment."""
    return folder / hashlib.sha256(f"{sys.prefix}\n{sys.version}".encode()).hexdigest()[:16]


# In Snakemake's process


def open_run() -> None:
    """Launch the server of a run and let its jobs notice when Snakemake ends.

    To be called before the first job.
    """
    with contextlib.suppress(OSError, ImportError):  # Windows has no fcntl
        import fcntl

        folder = Path(tempfile.mkdtemp(prefix="munkey-run-"))
        # left open: this process has the lock until it ends
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
        # if Snakemake is killed, the server does it
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ[RUN] = str(folder)
        if sys.platform == "linux" and os.environ.get(SWITCH) != "0":
            _launch(socket_in(folder))


def _launch(path: Path) -> None:
    """Launch the server in a session of its own. Jobs can connect at once."""
    # the other end is left open: the server ends when it is closed, as this process ends
    reading, _ = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(256)  # jobs can queue while the libraries are being imported
        subprocess.Popen(
            [sys.executable, "-P", __file__, str(path), str(listener.fileno())],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env=os.environ | SINGLE_THREADED,
            start_new_session=True,  # Ctrl-C is for Snakemake
        )
    os.close(reading)


# In a job's process


def start() -> None:
    """Run the current script from its beginning in a fork of the server, and exit with the fork's status.

    Returns only inside such a fork, or if the server cannot be used; the script then continues in
    its own process.
    """
    if not os.environ.get(RUN) or FORKED in os.environ:
        return
    folder = Path(os.environ[RUN])
    _die_with_run(folder)
    if os.environ.get(SWITCH) != "0":
        try:
            _exit_like(_fork_at(socket_in(folder)))
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except OSError:  # no server, or it has ended
            return


def _die_with_run(folder: Path) -> None:
    """Kill this process as soon as Snakemake's has ended; exit if it has already."""
    import fcntl

    try:
        lock = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        sys.exit("the run that started this job has ended")

    def wait() -> None:
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _fork_at(path: Path) -> socket.socket:
    """Return a connection to a fork that has begun to run this job.

    Raises OSError if there is none: it never begins then.

    The fork sends b"b" when it has taken over. On a busy machine, the server's imports take
    minutes.
    """
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    socket.send_fds(connection, [b"0"], [0, 1, 2])
    connection.sendall(
        json.dumps([sys.argv, sys.path, str(Path.cwd()), dict(os.environ)]).encode() + b"\n"
    )
    if not connection.recv(1):
        raise ConnectionResetError
    return connection


def _exit_like(fork: socket.socket) -> NoReturn:
    """Pass signals on to the fork, wait for its end and exit with its status; with 1 if it did not send one."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: fork.sendall(bytes([number])))
    status = b""
    with contextlib.suppress(OSError):
        status = fork.recv(1)
    if not status:
        print(KILLED, file=sys.stderr)
    sys.stderr.flush()
    os._exit(status[0] if status else 1)


# In the server's process


def serve(path: Path, listener: socket.socket) -> None:
    """Import the libraries, then fork a job for every connection, until standard input ends."""
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel clears forks away
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        # where no job can be forked, closing the connection says so
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                if not os.fork():
                    listener.close()
                    _run(connection)
    shutil.rmtree(path.parent, ignore_errors=True)


# In a fork


def _run(connection: socket.socket) -> NoReturn:
    """Run the job's script, send its exit status and exit; if it cannot begin, exit before the job has begun."""
    try:
        _take_over(connection)
        connection.sendall(b"b")
    except Exception:  # whatever it is: this process must not go on as a second server
        os._exit(1)
    threading.Thread(target=_obey_client, args=(connection,), daemon=True).start()
    status = _status_of_script()
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError):
        connection.sendall(bytes([status]))
    os._exit(status)


def _take_over(connection: socket.socket) -> None:
    """Become the process at the other end: its standard input, output and error, arguments, folder and environment."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, descriptors, *_ = socket.recv_fds(connection, 1, 3)
    for standard, received in enumerate(descriptors):
        os.dup2(received, standard)
        os.close(received)
    with connection.makefile("rb") as file:
        sys.argv, sys.path[:], folder, environment = json.loads(file.readline())
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment | {FORKED: "1"})


def _obey_client(connection: socket.socket) -> None:
    """Raise the signals that the client passes on, and end when it has ended, e.g. because it was killed."""
    for number in iter(lambda: connection.recv(1), b""):
        os.kill(os.getpid(), number[0])
    os.kill(os.getpid(), signal.SIGKILL)


def _status_of_script() -> int:
    """Run the job's script.

    Returns the status that Python would have ended with, and prints its message.
    """
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        if isinstance(end.code, int):
            return end.code & 255
        return int(end.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve(Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])))
