"""A job that is forked from the server is the same job. It ends as it would have, also when something is killed.

`Run` stands for Snakemake's process: it opens a run and starts nothing itself; the tests start the jobs.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from munkey.core import gpu_slots
from munkey.experiment.run import fork_server
from tests.conftest import wait
from tests.plugins import written

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks only on Linux")
HEAD = "from munkey.experiment.run import fork_server\nfork_server.start()\nimport os, sys, time\n"
FORKED = "print('MUNKEY_FORKED' in os.environ)"
SNAKEMAKE = """
import os
from munkey.experiment.run import fork_server
fork_server.open_run()
print(os.environ["MUNKEY_RUN"], flush=True)
input()
"""


def heeds_interrupts() -> None:
    """Also where the tests run in the background, whose processes ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Run:
    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SNAKEMAKE],
            env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=heeds_interrupts,  # noqa: PLW1509 (starts no threads before)
        )  # fmt: skip
        self.shared = Path(self.process.stdout.readline().strip())
        self.environment["MUNKEY_RUN"] = str(self.shared)

    def start(self, body, *args, **options) -> subprocess.Popen:
        script = self.folder / "job.py"
        script.write_text(HEAD + body)
        environment = self.environment | options.pop("env", {})
        return subprocess.Popen(
            [sys.executable, script, *args],
            cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            **{"preexec_fn": heeds_interrupts} | options,
        )  # fmt: skip

    def job(self, body, *args, **options) -> subprocess.CompletedProcess:
        process = self.start(body, *args, **options)
        output, errors = process.communicate(timeout=100)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def server(self) -> int:
        """The process id of the server."""
        wait(self.server_processes)
        return next(pid for pid in self.server_processes() if sid(pid) == pid)

    def server_processes(self) -> list[int]:
        """The processes of the server: itself and forks that have not begun."""
        pids = []
        for pid in processes():
            words = command(pid)
            if b"fork_server.py" in words and str(self.shared).encode() in words:
                pids.append(pid)
        return pids

    def end(self, number=signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.communicate()

    def close(self) -> None:
        """End whatever a test left, also a server that it stopped."""
        self.end()
        for pid in processes():
            with suppress(ProcessLookupError):
                if len(str(self.shared)) > 10 and str(self.shared).encode() in command(pid):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.shared, ignore_errors=True)


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def sid(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@contextmanager
def opened(folder, **environment):
    run = Run(folder, **environment)
    try:
        yield run
    finally:
        run.close()


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """A run whose server has the libraries, shared by tests that leave it alone."""
    with opened(tmp_path_factory.mktemp("forks")) as run:
        yield run


@pytest.fixture
def run(tmp_path):
    """A run of its own, to be disturbed: of a copy of the module alone, whose server imports nothing slow.

    Its temporary folder has a longer path than a socket may have.
    """
    source = re.sub(
        r"^LIBRARIES = .*?\n\)",
        "LIBRARIES = ()",
        Path(fork_server.__file__).read_text(),
        flags=re.DOTALL | re.MULTILINE,
    )
    packages = ("munkey", "munkey/experiment", "munkey/experiment/run")
    files = {f"{package}/__init__.py": "" for package in packages} | {
        "munkey/experiment/run/fork_server.py": source
    }
    written(tmp_path / "copy", files)
    temporary = tmp_path / ("long" * 30)
    temporary.mkdir()
    variables = {"PYTHONPATH": str(tmp_path / "copy"), "TMPDIR": str(temporary)}
    with opened(tmp_path, **variables) as disturbed_run:
        yield disturbed_run


def test_a_job_runs_in_a_fork_with_torch_and_its_own_arguments_folder_and_environment(libraries):
    body = """
print('torch' in sys.modules, sys.argv[1:], os.getcwd(), os.environ['MINE'], sys.path[0])
import torch; torch.set_num_threads(2); torch.rand(999, 9) @ torch.rand(9, 999)
print(torch.get_num_threads())
"""
    process = libraries.job(body, "a b", env={"MINE": "x"})
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == f"True ['a b'] {libraries.folder} x {libraries.folder}\n2\n"


def test_the_memory_and_time_of_a_fork_are_its_own(libraries):
    body = """
from munkey.experiment.run.record import measure_usage
before = measure_usage()
held = b"1" * 200 * 2**20
print(before["cpu_s"], measure_usage()["max_rss_mb"] - before["max_rss_mb"])
"""
    cpu_s, memory_mb = map(float, libraries.job(body).stdout.split())
    ticks = Path(f"/proc/{libraries.server()}/stat").read_text().split()[13:15]
    imports_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    assert cpu_s < imports_s
    assert 190 < memory_mb < 220


@pytest.mark.parametrize("off", ["switched off", "by hand"])
def test_without_the_server_the_same_job_runs_in_its_own_process(run, off):
    env = {"MUNKEY_FORK_SERVER": "0"} if off == "switched off" else {"MUNKEY_RUN": ""}
    process = run.job(FORKED, env=env)
    assert (process.returncode, process.stdout, process.stderr) == (0, "False\n", "")


def test_this_package_is_imported_anew_by_every_job(run):
    for value in (1, 22):  # of different length: Python looks at size and whole seconds only
        (run.folder / "copy/munkey/limits.py").write_text(f"VALUE = {value}")
        process = run.job(f"from munkey.limits import VALUE; print(VALUE); {FORKED}")
        assert process.stdout == f"{value}\nTrue\n"


@pytest.mark.parametrize(
    ("body", "status"), [("sys.exit(3)", 3), ("sys.exit('why')", 1), ("raise KeyError('k')", 1)]
)
def test_a_job_ends_with_its_status_and_message(run, body, status):
    process = run.job(body)
    assert process.returncode == status
    assert ("why" in process.stderr) == ("why" in body)
    assert ("KeyError: 'k'" in process.stderr) == ("KeyError" in body)


def test_a_killed_fork_fails_its_job_with_the_reason(run):
    process = run.job("os.kill(os.getpid(), 9)")
    assert process.returncode == 1
    assert "this job was killed" in process.stderr


def long_job(run, **options) -> tuple[subprocess.Popen, int]:
    """A job that has begun, and its process id: the fork's, if it was forked."""
    pid_file = run.folder / "pid"
    body = f"""
try:
    open('pid_', 'w').write(str(os.getpid()))
    os.rename('pid_', {str(pid_file)!r})
    time.sleep(300)
finally: open('cleaned', 'w')
"""
    job = run.start(body, **options)
    wait(pid_file.exists)
    return job, int(pid_file.read_text())


def test_the_fork_of_a_killed_job_is_killed(run):
    job, fork = long_job(run)
    assert fork != job.pid
    job.kill()
    job.communicate()
    wait(lambda: not alive(fork))


def test_a_job_whose_fork_was_killed_does_not_run_again(run):
    """The failure: the client could not write that to standard error, and went on with the script."""
    body = "open('runs', 'a').write('x')\ntime.sleep(0.5)\nos.kill(os.getpid(), 9)"
    job = run.start(body)
    job.stderr.close()
    job.stdout.close()
    assert job.wait(60) == 1
    assert (run.folder / "runs").read_text() == "x"


def test_forks_have_a_gpu_each_until_they_are_killed(run):
    (run.folder / "copy/munkey/core").mkdir()
    shutil.copy(gpu_slots.__file__, run.folder / "copy/munkey/core")
    env = {gpu_slots.VISIBLE: "GPU-a,GPU-b", gpu_slots.JOB_COUNT: "2", "TMPDIR": str(run.folder)}
    body = f"""from munkey.core.gpu_slots import take_slot
take_slot()
print(os.environ["{gpu_slots.VISIBLE}"], 'MUNKEY_FORKED' in os.environ, flush=True)
time.sleep(300)"""
    first, second = (run.start(body, env=env) for _ in range(2))
    gpu_of_first = first.stdout.readline()
    gpu_of_second = second.stdout.readline()
    assert sorted([gpu_of_first, gpu_of_second]) == ["GPU-a True\n", "GPU-b True\n"]
    first.kill()
    lines = iter(run.start(body, env=env).stdout.readline, "")
    answer = next(line for line in lines if not line.startswith("waiting for a GPU"))
    assert answer == gpu_of_first


def test_an_interrupted_job_cleans_up_before_it_ends(run):
    job, fork = long_job(run)
    wait(lambda: passes_signals_on(job.pid))
    job.send_signal(signal.SIGINT)
    _, errors = job.communicate(timeout=60)
    assert (job.returncode, errors) == (130, "")
    assert not alive(fork)
    assert (run.folder / "cleaned").exists()


def passes_signals_on(pid: int) -> bool:
    """Whether a process handles SIGTERM, the last signal that the client of a fork takes over."""
    status = Path(f"/proc/{pid}/status").read_text()
    signals = int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16)
    return bool(signals >> (signal.SIGTERM - 1) & 1)


def test_a_fork_whose_client_has_ended_without_reading_is_killed():
    """As if the client had been interrupted in the moment in which its job began."""
    code = """
import socket
from munkey.experiment.run.fork_server import _forward_signals
client, fork = socket.socketpair()
fork.sendall(b"b")
client.close()
_forward_signals(fork)
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (-signal.SIGKILL, "")


def test_a_job_that_is_interrupted_before_the_server_answers_prints_nothing_and_never_begins(run):
    server = run.server()
    os.kill(server, signal.SIGSTOP)
    job = run.start("print('ran')")
    wait(lambda: waits_for_answer(job.pid))
    job.send_signal(signal.SIGINT)
    job.wait(60)
    os.kill(server, signal.SIGCONT)
    assert (*job.communicate(timeout=60), job.returncode) == ("", "", 130)


def test_a_job_whose_server_dies_before_it_began_runs_in_its_own_process(run):
    os.kill(run.server(), signal.SIGSTOP)  # the job connects and waits
    job = run.start(f"print('ran'); {FORKED}")
    wait(lambda: waits_for_answer(job.pid))
    os.kill(run.server(), signal.SIGKILL)
    assert (*job.communicate(timeout=60), job.returncode) == ("ran\nFalse\n", "", 0)
    later = run.job(FORKED)
    assert (later.stdout, later.stderr) == ("False\n", "")


def waits_for_answer(pid: int) -> bool:
    """Whether a process has a connection to a socket."""
    try:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            if str(file.readlink()).startswith("socket:"):
                return True
    except OSError:
        pass
    return False


@pytest.mark.parametrize("switch", ["1", "0"], ids=["forked", "in its own process"])
def test_when_snakemake_is_killed_its_jobs_and_its_server_end(run, switch):
    server = run.server()
    job, pid = long_job(run, env={"MUNKEY_FORK_SERVER": switch})
    assert (pid != job.pid) == (switch == "1")
    run.end(signal.SIGKILL)
    wait(lambda: not alive(server) and not alive(pid))
    job.communicate(timeout=60)
    assert not run.shared.exists()
    late = run.job("print('wrote')")
    assert (late.returncode, late.stdout, late.stderr) == (
        1,
        "",
        "the run that started this job has ended\n",
    )


def test_the_next_run_removes_the_folder_of_a_run_that_was_killed_with_its_server(run):
    temporary = run.shared.parent
    with opened(run.folder, **run.environment) as other:
        os.kill(run.server(), signal.SIGKILL)
        run.end(signal.SIGKILL)
        assert run.shared.exists()
        with opened(run.folder, **run.environment) as third:
            assert set(temporary.iterdir()) == {other.shared, third.shared}


def test_the_server_ends_with_its_run(run):
    server = run.server()
    run.process.communicate("\n")
    wait(lambda: not alive(server))
    assert not run.shared.exists()
