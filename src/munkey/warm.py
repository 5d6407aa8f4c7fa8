"""A warm start for the short jobs of a run: they are forked from one process that has imported the slow libraries.

A grid has hundreds of jobs of seconds, and importing torch takes as long as many of them. The first job starts a server
that imports libraries and nothing of this package, so edited code counts as ever. Each job asks it for a fork of itself
that runs the job's script with the job's own arguments, environment and output. The server ends when it is idle. Where
it cannot be had, a job just runs where it is. MUNKEY_WARM=0 switches it off.
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
from typing import Any

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
IDLE_S = 10.0  # how long the server outlives its last job
START_S = 60.0  # how long a job waits for a server that is starting


def start() -> None:
    """Run the script that is running, from its beginning, in a fork of the server, and end with its exit status.

    Returns where the script is in such a fork already, or has to do without: then it goes on where it is.
    """
    if sys.platform != "linux" or "MUNKEY_FORK" in os.environ or os.environ.get("MUNKEY_WARM") == "0":
        return
    with contextlib.suppress(OSError):
        connection = _connected(_address())
        job = {"argv": sys.argv, "path": sys.path, "cwd": str(Path.cwd()), "environment": dict(os.environ)}
        message = pickle.dumps(job)
        descriptors = array.array("i", [0, 1, 2])
        connection.sendmsg(
            [len(message).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors.tobytes())]
        )
        connection.sendall(message)
        _end_as(connection)


def _end_as(connection: socket.socket) -> None:
    """Wait for the fork and end with its exit status."""
    answer = b""
    with contextlib.suppress(OSError):
        answer = connection.recv(1)
    if not answer:
        print("this job was killed; if nobody did, memory ran out: look at the machine's log", file=sys.stderr)
    sys.stderr.flush()
    os._exit(answer[0] if answer else 1)


def _address() -> Path:
    """The socket of this environment's server, in a folder that is this user's alone."""
    folder = Path(tempfile.gettempdir()) / f"munkey-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(folder)
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    key = hashlib.sha256("\n".join([sys.executable, sys.prefix, sys.version, gpus]).encode()).hexdigest()[:16]
    return folder / key


def _connected(address: Path) -> socket.socket:
    """A connection to the server, which is started where there is none."""
    from filelock import FileLock

    connection = _try(address)
    if connection is None:
        with FileLock(f"{address}.lock"):  # of the jobs that begin together one starts the server, the others wait
            connection = _try(address)
            if connection is None:
                server = subprocess.Popen(
                    [sys.executable, "-P", __file__, str(address)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                deadline = time.monotonic() + START_S
                while connection is None and server.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.02)
                    connection = _try(address)
    if connection is None:
        raise ConnectionRefusedError(address)
    return connection


def _try(address: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(address))
    except OSError:
        connection.close()
        return None
    return connection


def serve(address: Path) -> None:
    """Import the libraries, then fork a job for every connection, until there is none for IDLE_S."""
    address.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(address))
    listener.listen(256)  # jobs may already wait while the libraries are being imported
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    jobs: set[int] = set()
    idle_since, closing = time.monotonic(), False
    while True:
        ready, _, _ = select.select([listener], [], [], 0.5)
        if ready:
            jobs.add(_forked(listener))
        for child in [child for child in jobs if os.waitpid(child, os.WNOHANG)[0]]:
            jobs.remove(child)
        if jobs:
            idle_since = time.monotonic()
        elif closing and not ready:  # nobody slipped in before the address had gone
            return
        elif time.monotonic() - idle_since > IDLE_S:
            address.unlink(missing_ok=True)
            closing = True


def _forked(listener: socket.socket) -> int:
    """Accept a connection and fork a job for it; returns the fork's process id."""
    connection, _ = listener.accept()
    child = os.fork()
    if not child:
        listener.close()
        _run(connection)
    connection.close()
    return child


def _run(connection: socket.socket) -> None:
    """In the fork: become the job, and tell its exit status."""
    status = 1
    try:
        job = _received(connection)
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        os.chdir(job["cwd"])
        os.environ.clear()
        os.environ.update(job["environment"] | {"MUNKEY_FORK": "1"})
        sys.argv, sys.path[:] = job["argv"], job["path"]
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


def _received(connection: socket.socket) -> dict[str, Any]:
    """What `start` sent: the job, and the descriptors of its input and output, which become this process's."""
    header, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(12), socket.MSG_WAITALL)
    descriptors = array.array("i")
    descriptors.frombytes(ancillary[0][2])
    for own, given in enumerate(descriptors):
        os.dup2(given, own)
        os.close(given)
    length, message = int.from_bytes(header, "big"), b""
    while len(message) < length:
        piece = connection.recv(length - len(message))
        if not piece:
            raise ConnectionResetError
        message += piece
    return pickle.loads(message)


def _end_with(connection: socket.socket) -> None:
    """End this process when the one that asked for it has gone, e.g. was killed."""
    if not connection.recv(1):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
