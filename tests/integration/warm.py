"""Commands of the environment in forks of a process that has imported the libraries that take seconds to import.

A start of Snakemake takes 2 s of imports, a job that imports torch 3 s, and a run's server of jobs 9 s. Here one
server, that of `munkey.experiment.run.fork_server`, serves all commands of a pytest process and all jobs of their runs.
It imports nothing from munkey, so each fork loads the code of its checkout.
"""

import atexit
import contextlib
import importlib.util
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LIBRARIES = (
    "snakemake.cli", "boto3", "docutils.core", "grimp", "jinja2", "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg", "matplotlib.figure", "mlflow.tracking", "nbformat", "PIL.Image", "smart_open",
    "timm", "typer", "yte",
)  # fmt: skip
BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]


@cache
def server() -> str:
    """The path of the server's socket, for which it is launched once; it ends with this process."""
    path = tempfile.mkdtemp(prefix="munkey-tests-") + "/server"
    # Never closed here: the server ends when the writing end closes, and removes the folder.
    reading_end, _ = os.pipe()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(256)
        subprocess.Popen(
            [sys.executable, "-P", __file__, path, str(listener.fileno())],
            stdin=reading_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env=environment,
            start_new_session=True,
        )
    os.close(reading_end)
    return path


def run(
    command: tuple[str, ...], folder: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a script of the environment, as `subprocess.run` does with `capture_output`."""
    paths = [path for path in sys.path if path and path != str(ROOT)]
    state = [
        [__file__, server(), *command],
        [*environment["PYTHONPATH"].split(os.pathsep), *paths],
        str(folder),
        dict(environment),
    ]
    with (
        socket.socket(socket.AF_UNIX) as connection,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as errors,
        Path(os.devnull).open() as nothing,
    ):
        connection.settimeout(timeout)
        connection.connect(server())
        streams = [stream.fileno() for stream in (nothing, out, errors)]
        socket.send_fds(connection, [b"0"], streams)
        connection.sendall(json.dumps(state).encode() + b"\n")
        assert connection.recv(1), "no fork"
        status = connection.recv(1)  # none where it was killed
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(
            command, status[0] if status else -9, out.read(), errors.read()
        )


def run_here(jobs_server: str, script: str, *arguments: str) -> None:
    """Run a script in this fork. The server serves the jobs of its runs, too."""
    del os.environ["MUNKEY_FORKED"]  # its jobs are forks of their own
    from munkey.experiment.run import fork_server

    fork_server._launch = lambda path: path.symlink_to(jobs_server)
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # which a fork leaves out


def serve(path: str, listener: str) -> None:
    """The server's process."""
    code = ROOT / "src/munkey/experiment/run/fork_server.py"
    described = importlib.util.spec_from_file_location("fork_server", code)
    fork_server = importlib.util.module_from_spec(described)
    described.loader.exec_module(fork_server)
    fork_server.LIBRARIES += LIBRARIES
    with contextlib.suppress(KeyboardInterrupt):
        fork_server.serve(Path(path), socket.socket(fileno=int(listener)))


if __name__ == "__main__":
    if sys.argv[2].isdigit():
        serve(*sys.argv[1:])
    else:
        run_here(*sys.argv[1:])
