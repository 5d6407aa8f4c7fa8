"""A job that is forked from the server is the same job. It ends as it would have, also when it is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from munkey.pipeline import fork_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks only on Linux")
HEAD = "from munkey.pipeline import fork_server\nfork_server.start()\nimport os, sys, time\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One server for these tests, with its own socket; it exits by itself."""
    return tmp_path_factory.mktemp("forks")


def environment(folder, **more):
    return {**os.environ, "TMPDIR": str(folder), **more}


def run(folder, body, *args, **more):
    script = folder / "job.py"
    script.write_text(HEAD + body)
    return subprocess.run(
        [sys.executable, script, *args],
        cwd=folder, env=environment(folder, **more), capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_job_runs_in_a_fork_that_has_torch_and_its_own_everything(folder):
    body = "print('torch' in sys.modules, sys.argv[1:], os.getcwd(), os.environ['MINE'], sys.path[0])"
    process = run(folder, body, "a b", MINE="x")
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.strip() == f"True ['a b'] {folder} x {folder}"


def test_without_the_server_the_same_job_runs_in_its_own_process(folder):
    process = run(folder, "print('torch' in sys.modules, 'MUNKEY_FORKED' in os.environ)", MUNKEY_FORK_SERVER="0")
    assert (process.returncode, process.stdout) == (0, "False False\n")


def test_this_package_is_imported_anew_by_every_job(folder):
    (folder / "munkey/pipeline").mkdir(parents=True)
    package = Path(fork_server.__file__).parents[1]
    for name in ("__init__.py", "pipeline/__init__.py", "pipeline/fork_server.py"):
        (folder / "munkey" / name).write_text((package / name).read_text())
    for value in (1, 2):
        (folder / "munkey/limits.py").write_text(f"VALUE = {value}")
        process = run(folder, "from munkey.limits import VALUE; print(VALUE)", PYTHONPATH=str(folder))
        assert process.stdout == f"{value}\n"


@pytest.mark.parametrize(("body", "status"), [("sys.exit(3)", 3), ("sys.exit('why')", 1), ("raise KeyError('k')", 1)])
def test_a_job_ends_with_its_status_and_message(folder, body, status):
    process = run(folder, body)
    assert process.returncode == status
    assert ("why" in process.stderr) == ("why" in body)
    assert ("KeyError: 'k'" in process.stderr) == ("KeyError" in body)


def test_a_fork_that_is_killed_fails_its_job_and_says_so(folder):
    process = run(folder, "os.kill(os.getpid(), 9)")
    assert process.returncode == 1
    assert "this job was killed" in process.stderr


def test_the_fork_of_a_killed_job_is_killed(folder):
    script, noted = folder / "long.py", folder / "pid"
    script.write_text(f"{HEAD}open({str(noted)!r}, 'w').write(str(os.getpid()))\ntime.sleep(100)")
    with subprocess.Popen([sys.executable, script], env=environment(folder)) as job:
        wait(lambda: noted.exists() and noted.read_text())
        fork = int(noted.read_text())
        assert fork != job.pid
        job.send_signal(signal.SIGKILL)
        job.wait()
        wait(lambda: not alive(fork))


def alive(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().split()[2] != "Z"


def wait(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_server_ends_when_it_is_idle(folder):
    run(folder, "")
    (server,) = [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and str(folder).encode() in (path / "cmdline").read_bytes()
    ]
    wait(lambda: not alive(server), seconds=30)
