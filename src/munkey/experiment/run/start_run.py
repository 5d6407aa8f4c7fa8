"""The start of a run, in Snakemake's process: a folder that stays locked until the run ends, and a fork server."""

import atexit
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from munkey.experiment.run import fork_server
from munkey.experiment.run.fork_server import RUN, SWITCH, socket_in

PREFIX = "munkey-run-"  # of the name of a run's folder
# The server imports with one thread, since threads do not survive a fork. Each job sets its own number.
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def open_run() -> None:
    """Launch the server of a run and let its jobs notice when Snakemake ends. To be called before the first job."""
    with contextlib.suppress(OSError, ImportError):  # Windows has no fcntl
        import fcntl

        _remove_abandoned()
        hidden = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
        fcntl.flock(os.open(hidden, os.O_RDONLY), fcntl.LOCK_EX)  # left open: this process has the lock until it ends
        folder = hidden.rename(hidden.with_name(hidden.name[1:]))  # now that it is locked, others may see it
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # if Snakemake is killed, the server does it
        os.environ[RUN] = str(folder)
        if sys.platform == "linux" and os.environ.get(SWITCH) != "0":
            _launch(socket_in(folder))


def _remove_abandoned() -> None:
    """Remove the folders of runs that have ended, Snakemake and server both killed: nobody holds their locks."""
    import fcntl

    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else's, or in use
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _launch(path: Path) -> None:
    """Launch the server in a session of its own. Jobs can connect at once."""
    reading, _ = os.pipe()  # the other end is left open: the server ends when it is closed, as this process ends
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(256)  # jobs can queue while the libraries are being imported
        subprocess.Popen(
            [sys.executable, "-P", fork_server.__file__, str(path), str(listener.fileno())],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env=os.environ | SINGLE_THREADED,
            start_new_session=True,  # Ctrl-C is for Snakemake
        )
    os.close(reading)
