"""The warm start: a job forked from the server is the same job; it ends as it would have, and when it is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks only on Linux")
HEAD = "from munkey import warm\nwarm.start()\nimport os, sys, time\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One server for these tests, with a socket of its own; it ends by itself."""
    return tmp_path_factory.mktemp("warm")


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
    done = run(folder, body, "a b", MINE="x")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == f"True ['a b'] {folder} x {folder}"


def test_without_it_the_same_job_runs_where_it_is(folder):
    done = run(folder, "print('torch' in sys.modules, 'MUNKEY_FORK' in os.environ)", MUNKEY_WARM="0")
    assert (done.returncode, done.stdout) == (0, "False False\n")


def test_this_package_is_imported_anew_by_every_job(folder):
    (folder / "munkey").mkdir()
    own = Path(__file__).parent.parent / "src/munkey"
    for name in ("__init__.py", "warm.py"):
        (folder / "munkey" / name).write_text((own / name).read_text())
    for value in (1, 2):
        (folder / "munkey/files.py").write_text(f"VALUE = {value}")
        done = run(folder, "from munkey.files import VALUE; print(VALUE)", PYTHONPATH=str(folder))
        assert done.stdout == f"{value}\n"


@pytest.mark.parametrize(("body", "status"), [("sys.exit(3)", 3), ("sys.exit('why')", 1), ("raise KeyError('k')", 1)])
def test_it_ends_with_the_jobs_status_and_message(folder, body, status):
    done = run(folder, body)
    assert done.returncode == status
    assert ("why" in done.stderr) == ("why" in body)
    assert ("KeyError: 'k'" in done.stderr) == ("KeyError" in body)


def test_a_fork_that_is_killed_fails_its_job_and_says_so(folder):
    done = run(folder, "os.kill(os.getpid(), 9)")
    assert done.returncode == 1
    assert "this job was killed" in done.stderr


def test_the_fork_of_a_killed_job_is_killed(folder):
    script, told = folder / "long.py", folder / "pid"
    script.write_text(f"{HEAD}open({str(told)!r}, 'w').write(str(os.getpid()))\ntime.sleep(100)")
    with subprocess.Popen([sys.executable, script], env=environment(folder)) as job:
        wait(lambda: told.exists() and told.read_text())
        fork = int(told.read_text())
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
