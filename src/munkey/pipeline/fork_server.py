"""Fast start for short jobs: they are forked from one process that has already imported the slow libraries.

A grid has hundreds of jobs that take seconds, and importing torch takes as long as many of them. The first job starts a
server, which imports libraries but nothing of this package, so that edited code always takes effect. Each job asks the
server for a fork of itself, and the fork runs the job's script with the job's arguments, environment and output. The
server exits when it is idle. If it cannot be used, the job runs in its own process. MUNKEY_FORK_SERVER=0 turns it off.
"""

import array
import contextlib
import hashlib
import importlib
import os
import pickle
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import TypedDict

LIBRARIES = (
    "snakemake.script",
    "numpy",
    "torch",
    "torch._dynamo",
    "safetensors.torch",
    "pydantic",
    "faiss",
    "pandas",
    "scipy.special",
    "sklearn.linear_model",
    "sklearn.model_selection",
)
SWITCH = "MUNKEY_FORK_SERVER"  # set it to 0 to run every job in its own process
FORKED = "MUNKEY_FORKED"  # set in the environment of a fork
IDLE_S = 10.0  # how long the server waits for a job before it exits
START_S = 60.0  # how long a job waits for the server to start


class Invocation(TypedDict):
    """How a job's script was called: a dictionary, because the server does not import this module to unpickle it."""

    argv: list[str]
    path: list[str]
    cwd: str
    environment: dict[str, str]


def start() -> None:
    """Run the current script from its beginning in a fork of the server, and exit with the fork's status.

    Returns only inside such a fork, or if the server cannot be used; the script then continues in its own process.
    """
    if sys.platform != "linux" or FORKED in os.environ or os.environ.get(SWITCH) == "0":
        return
    with contextlib.suppress(OSError):
        connection = _connect_or_launch(_socket_path())
        invocation = Invocation(argv=sys.argv, path=sys.path, cwd=str(Path.cwd()), environment=dict(os.environ))
        message = pickle.dumps(invocation)
        descriptors = array.array("i", [0, 1, 2])
        connection.sendmsg(
            [len(message).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors.tobytes())]
        )
        connection.sendall(message)
        _exit_like_fork(connection)


def _exit_like_fork(connection: socket.socket) -> None:
    """Wait for the fork to end and exit with its status; with 1 if it ended without sending one."""
    status = b""
    with contextlib.suppress(OSError):
        status = connection.recv(1)
    if not status:
        print(
            "this job was killed; if nobody did that, the machine ran out of memory: see its system log",
            file=sys.stderr,
        )
    sys.stderr.flush()
    os._exit(status[0] if status else 1)


def _socket_path() -> Path:
    """The socket of the server for this Python environment, in a folder that belongs to this user alone."""
    folder = Path(tempfile.gettempdir()) / f"munkey-forks-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(folder)
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    key = hashlib.sha256("\n".join([sys.executable, sys.prefix, sys.version, gpus]).encode()).hexdigest()[:16]
    return folder / key


def _connect_or_launch(path: Path) -> socket.socket:
    """A connection to the server, which is launched if there is none. Raises OSError if that fails."""
    from filelock import FileLock

    connection = _connect(path)
    if connection is None:
        with FileLock(f"{path}.lock"):  # of several jobs that start at once, one launches the server
            connection = _connect(path) or _launch(path)
    if connection is None:
        raise ConnectionRefusedError(path)
    return connection


def _launch(path: Path) -> socket.socket | None:
    """Launch the server and connect to it; None if it exits or is not ready within START_S."""
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + START_S
    connection = None
    while connection is None and server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
        connection = _connect(path)
    return connection


def _connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


def serve(path: Path) -> None:
    """Import the libraries, then fork a job for every connection, until none arrives for IDLE_S."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(256)  # jobs can queue while the libraries are being imported
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    jobs: set[int] = set()
    idle_since, closing = time.monotonic(), False
    while True:
        ready, _, _ = select.select([listener], [], [], 0.5)
        if ready:
            jobs.add(_fork_job(listener))
        for child in [child for child in jobs if os.waitpid(child, os.WNOHANG)[0]]:
            jobs.remove(child)
        if jobs:
            idle_since = time.monotonic()
        elif closing and not ready:  # no job connected before the socket was removed
            return
        elif time.monotonic() - idle_since > IDLE_S:
            path.unlink(missing_ok=True)
            closing = True


def _fork_job(listener: socket.socket) -> int:
    """Accept a connection and fork a job for it. Returns the process id of the fork."""
    connection, _ = listener.accept()
    child = os.fork()
    if not child:
        listener.close()
        _run(connection)
    connection.close()
    return child


def _run(connection: socket.socket) -> None:
    """In the fork: run the job's script and send its exit status."""
    status = 1
    try:
        invocation = _receive(connection)
        threading.Thread(target=_die_with_client, args=(connection,), daemon=True).start()
        os.chdir(invocation["cwd"])
        os.environ.clear()
        os.environ.update(invocation["environment"] | {FORKED: "1"})
        sys.argv, sys.path[:] = invocation["argv"], invocation["path"]
        runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(OSError):
            connection.sendall(bytes([status & 255]))
        os._exit(status)


def _receive(connection: socket.socket) -> Invocation:
    """What `start` sent. Its standard input, output and error replace those of this process."""
    header, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(12), socket.MSG_WAITALL)
    descriptors = array.array("i")
    descriptors.frombytes(ancillary[0][2])
    for standard, received in enumerate(descriptors):
        os.dup2(received, standard)
        os.close(received)
    length, message = int.from_bytes(header, "big"), b""
    while len(message) < length:
        piece = connection.recv(length - len(message))
        if not piece:
            raise ConnectionResetError
        message += piece
    invocation: Invocation = pickle.loads(message)
    return invocation


def _die_with_client(connection: socket.socket) -> None:
    """Kill this process when the process that asked for it has ended, e.g. because it was killed."""
    if not connection.recv(1):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
