"""A server that starts short jobs fast: it forks from a process that has imported slow libraries.

A grid has hundreds of jobs that take seconds, and importing torch takes as long as many of these
jobs. Snakemake launches one server per run. It imports libraries but nothing from this package, so
edited code always takes effect. Each job requests a fork of the server. The fork takes over the
job's arguments, environment, folder and output, and runs the job's script. However, variables that
are read while libraries are loaded, e.g. LD_LIBRARY_PATH, have the values of the run. Without a
server, or if the server ends before the job has begun, the job runs in its own process.
MUNKEY_FORK_SERVER=0 turns the server off. On a cluster, there is no server.

All jobs of a run, forked or not, end when Snakemake does, even if it is killed. Otherwise, a second
run would write the same files as the remaining jobs of the first run.
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
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

LIBRARIES = (
    "snakemake.script", "numpy", "torch", "torch._dynamo", "safetensors.torch", "pydantic.main", "pydantic.types",
    "pydantic.plugin._loader", "faiss", "pandas", "scipy.special", "sklearn.linear_model", "sklearn.model_selection",
)  # fmt: skip
# Beginnings of the names of a run's folder, before and after it is locked
NEW = "munkey-new-"
NAME = "munkey-run-"
# Environment variables
SERVER_VARIABLE = "MUNKEY_FORK_SERVER"  # set it to 0 to run every job in its own process
RUN = "MUNKEY_RUN"  # the folder of a local run, which Snakemake keeps locked; set for its jobs
FORKED = "MUNKEY_FORKED"  # set in a fork
KILLED = (
    "this job was killed; if nobody killed it, the machine ran out of memory: see its system log"
)
INTERRUPTED = 128 + signal.SIGINT  # exit status
# The server imports libraries with one thread, since threads do not survive a fork. Each job sets
# its own number of threads.
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def get_socket_path(folder: Path) -> Path:
    """Return the path of the server's socket for jobs in the same Python environment."""
    environment = f"{sys.prefix}\n{sys.version}"
    return folder / hashlib.sha256(environment.encode()).hexdigest()[:16]


@contextlib.contextmanager
def _shorten(path: Path) -> Iterator[str]:
    """Yield another path to a socket. Linux takes at most 107 bytes, and TMPDIR may be longer."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


# In Snakemake's process


def open_run() -> None:
    """Launch the server of a run, and let the run's jobs detect when Snakemake ends.

    This must be called before the first job starts.
    """
    with contextlib.suppress(OSError, ImportError):  # Windows has no fcntl
        import fcntl

        _remove_folders_of_ended_runs()
        new_folder = Path(tempfile.mkdtemp(prefix=NEW))
        # The descriptor is never closed, so this process holds the lock until it ends.
        fcntl.flock(os.open(new_folder, os.O_RDONLY), fcntl.LOCK_EX)
        # Once it has this name, it is locked.
        folder = new_folder.rename(new_folder.with_name(new_folder.name.replace(NEW, NAME)))
        # If Snakemake is killed, the server removes the folder. If both are, the next run does.
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ[RUN] = str(folder)
        if sys.platform == "linux" and os.environ.get(SERVER_VARIABLE) != "0":
            _launch(get_socket_path(folder))


def _remove_folders_of_ended_runs() -> None:
    """Remove the folders that no process of this user holds locked any more."""
    import fcntl

    for folder in Path(tempfile.gettempdir()).glob(f"{NAME}*"):
        with contextlib.suppress(OSError):  # locked, or of another user
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _launch(path: Path) -> None:
    """Launch the server in its own session. Jobs can connect immediately."""
    # The writing end is never closed here. It closes when this process ends, which ends the server.
    reading_end, _ = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        with _shorten(path) as address:
            listener.bind(address)
        listener.listen(256)  # jobs can queue while the libraries are being imported
        subprocess.Popen(
            [sys.executable, "-P", __file__, str(path), str(listener.fileno())],
            stdin=reading_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env=os.environ | SINGLE_THREADED,
            start_new_session=True,  # Ctrl-C is for Snakemake
        )
    os.close(reading_end)


# In a job's process


def start() -> None:
    """Run the current script in a fork of the server, and exit with the fork's status.

    The fork runs the script from its beginning, so it calls this function again, which returns
    there. It also returns if the server cannot be used; the script then continues in this process.
    """
    if not os.environ.get(RUN) or FORKED in os.environ:
        return
    folder = Path(os.environ[RUN])
    _die_with_run(folder)
    if os.environ.get(SERVER_VARIABLE) == "0":
        return
    try:
        try:
            connection = _connect_to_fork(get_socket_path(folder))
        except OSError:  # no server, or it has ended
            return
        _exit_with_status_of(connection)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _die_with_run(folder: Path) -> None:
    """Kill this process as soon as Snakemake's process ends; exit if it has already ended."""
    import fcntl

    try:
        lock = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        sys.exit("the run that started this job has ended")

    def wait() -> None:
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits for Snakemake's process, which holds the lock
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _connect_to_fork(path: Path) -> socket.socket:
    """Return a connection to a fork that has begun to run this job.

    Raises OSError if no fork has begun. In this case, none begins later, either.
    """
    connection = socket.socket(socket.AF_UNIX)
    with _shorten(path) as address:
        connection.connect(address)
    socket.send_fds(connection, [b"0"], [0, 1, 2])
    process_state = [sys.argv, sys.path, str(Path.cwd()), dict(os.environ)]
    connection.sendall(json.dumps(process_state).encode() + b"\n")
    # The fork sends a byte when it has taken over. There is no timeout, because the server may need
    # minutes to import its libraries on a busy machine.
    if not connection.recv(1):
        raise ConnectionResetError
    return connection


def _exit_with_status_of(connection: socket.socket) -> NoReturn:
    """Forward signals to a fork, wait for it, and exit with its status, or 1 if it sent none.

    The fork has run the job, so no error may let the script continue here.
    """

    def forward(signal_number: int, _: object) -> None:
        with contextlib.suppress(OSError):  # the fork has ended
            connection.sendall(bytes([signal_number]))

    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, forward)
    status = b""
    with contextlib.suppress(OSError):
        status = connection.recv(1)
    with contextlib.suppress(OSError):  # a full disk
        if not status:
            print(KILLED, file=sys.stderr)
        sys.stderr.flush()
    os._exit(status[0] if status else 1)


# In the server's process


def serve(path: Path, listener: socket.socket) -> None:
    """Import the libraries, then fork a job for every connection until standard input closes."""
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that ended forks do not become zombies
    while True:
        readable, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in readable:
            break
        # If forking fails, the client detects that the connection is closed.
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                if not os.fork():
                    listener.close()
                    _run(connection)
    shutil.rmtree(path.parent, ignore_errors=True)


# In a fork


def _run(connection: socket.socket) -> NoReturn:
    """Run the job's script, send its exit status, and exit with this status.

    If the client cannot be taken over, exit with status 1 without running the script.
    """
    try:
        _take_over(connection)
        connection.sendall(b"b")  # any byte; it signals that the job begins
    except Exception:  # in any case, this process must not continue as a second server
        os._exit(1)
    threading.Thread(target=_forward_signals, args=(connection,), daemon=True).start()
    status = _run_script()
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError):
        connection.sendall(bytes([status]))
    os._exit(status)


def _take_over(connection: socket.socket) -> None:
    """Take over the client's standard streams, arguments, folder and environment."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, descriptors, *_ = socket.recv_fds(connection, 1, 3)
    for standard_descriptor, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard_descriptor)
        os.close(descriptor)
    with connection.makefile("rb") as file:
        sys.argv, sys.path[:], folder, environment = json.loads(file.readline())
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment | {FORKED: "1"})


def _forward_signals(connection: socket.socket) -> None:
    """Send this process the signals that the client forwards, and kill it when the client ends."""
    # If the client is interrupted just as the job begins, it ends without reading the byte that
    # signals the beginning, which resets the connection.
    with contextlib.suppress(ConnectionResetError):
        for number in iter(lambda: connection.recv(1), b""):
            os.kill(os.getpid(), number[0])
    os.kill(os.getpid(), signal.SIGKILL)


def _run_script() -> int:
    """Run the job's script, and print errors as Python would. Returns the exit status."""
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as error:
        # sys.exit takes a status, a message (status 1) or None (status 0).
        if isinstance(error.code, int):
            return error.code & 255
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        return 0 if error.code is None else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve(Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])))
