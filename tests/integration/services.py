"""The servers of docs/tracking.md on the loopback address, each with a free port and in a folder of its own."""

import contextlib
import glob
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from tests.conftest import wait
from tests.integration.conftest import BIN, Project
from tests.integration.slurm import free_ports
from tests.pages import blocks

PATH = ":".join([str(BIN), os.environ["PATH"], *sorted(glob.glob("/usr/lib/postgresql/*/bin"))])  # noqa: PTH207
PROGRAMS = ("initdb", "postgres", "psql", "rclone")
PATIENT = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "120"}  # a busy machine is not a server that is down
MODULES = ("boto3", "dvc_s3", "psycopg")
MISSING = [
    *(name for name in PROGRAMS if shutil.which(name, path=PATH) is None),
    *(name for name in MODULES if importlib.util.find_spec(name) is None),
]


class Services:
    """PostgreSQL, an S3 server and an MLflow server, which run until `stop`. site: the address of MLflow."""

    def __init__(self) -> None:
        # short, as the path of a socket must be
        self.folder = Path(tempfile.mkdtemp(prefix="services-"))
        self.folder.chmod(0o755)  # the user that PostgreSQL runs as looks in
        self.database = self.folder / "postgresql"
        self.ports = dict(zip(("9000", "5432", "5000"), free_ports(3), strict=True))
        self.site = self.adapted("http://127.0.0.1:5000")
        self.environment = os.environ | {"PATH": PATH, "HOME": str(self.folder)}
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        self.s3, self.variables = blocks("tracking", "sh", "S3")
        self.role, self.mlflow = blocks("tracking", "sh", "An MLflow server")
        try:
            self._start_postgresql()
            self._start("rclone", self.s3)
            self.start_mlflow()
        except BaseException:
            self.stop()
            raise

    def adapted(self, text: str) -> str:
        """Commands of the page with our ports and folders, with our PostgreSQL, and without an installation."""
        for port, free in self.ports.items():
            text = re.sub(rf"(?<=:){port}\b|(?<=--port ){port}\b", str(free), text)
        text = re.sub(
            r"\bmake ", "make -o .venv/ready ", text.replace("/srv/s3", f"{self.folder}/s3")
        )
        return text.replace(
            "sudo -u postgres psql",
            f"psql --host={self.database} --port={self.ports['5432']} --username=postgres",
        )

    def run(
        self, project: Project, block: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a block of the page in a checkout, in an environment that knows the S3 store."""
        return project.run(
            "bash",
            "-ec",
            self.adapted(self.variables + block),
            check=check,
            timeout=7200,
            **PATIENT,
        )

    def start_mlflow(self) -> None:
        self._start("mlflow", self.variables + self.mlflow)
        wait(self._answers, self.logs, 3600)

    def kill_mlflow(self) -> None:
        """Kill the server with all its workers."""
        os.killpg(self.servers["mlflow"].pid, signal.SIGKILL)
        self.servers["mlflow"].wait()

    def _start_postgresql(self) -> None:
        user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
        self.database.mkdir()
        if user:
            shutil.chown(self.database, user)
        initdb = [
            "initdb", "--no-sync", "--username=postgres", "--auth-local=trust", "--auth-host=scram-sha-256",
            f"--pgdata={self.database}",
        ]  # fmt: skip
        subprocess.run(
            initdb, user=user, cwd="/", env=self.environment, check=True, capture_output=True
        )
        listen = f"-h 127.0.0.1 -p {self.ports['5432']} -k {self.database}"
        self._start("postgres", f"exec postgres -D {self.database} {listen}", user)
        ready = ["bash", "-ec", self.adapted("sudo -u postgres psql -c 'SELECT 1'")]
        wait(
            lambda: (
                subprocess.run(
                    ready, env=self.environment, check=False, capture_output=True
                ).returncode
                == 0
            ),
            self.logs,
        )
        subprocess.run(
            ["bash", "-ec", self.adapted(self.role)],
            env=self.environment,
            check=True,
            capture_output=True,
        )

    def _start(self, name: str, command: str, user: str | None = None) -> None:
        with (self.folder / f"{name}.log").open("a") as log:
            self.servers[name] = subprocess.Popen(
                ["bash", "-ec", self.adapted(command)],
                cwd="/" if user else self.folder,
                env=self.environment,
                user=user,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        assert self.servers["mlflow"].poll() is None, self.logs()
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"{self.site}/health", timeout=5).status == 200
        return False

    def logs(self) -> str:
        return "\n".join(
            f"{path.name}:\n{path.read_text(errors='replace')[-3000:]}"
            for path in self.folder.glob("*.log")
        )

    def stop(self) -> None:
        """End every server; PostgreSQL, which the others need, at last."""
        for name, server in reversed(self.servers.items()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGINT if name == "postgres" else signal.SIGTERM)
            try:
                server.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
