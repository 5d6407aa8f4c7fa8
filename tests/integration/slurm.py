"""A SLURM of one node on the loopback address: the real daemons, with a configuration, keys and a GPU of their own."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from tests.conftest import wait

DAEMONS = ("munged", "slurmctld", "slurmd")
CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
MpiDefault=none
MinJobAge=3600
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=256000 Gres=gpu:1
PartitionName=cpu Nodes=ALL Default=YES
PartitionName=gpu Nodes=ALL
"""  # SlurmdParameters: the CPUs and the memory need not be there


class Cluster:
    """The daemons run until `stop`. `environment` makes SLURM's commands talk to them."""

    def __init__(self) -> None:
        # short, as the path of a socket must be
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        configuration = {
            "SLURM_CONF": f"{self.folder}/slurm.conf",
            "PATH": f"{self.folder}:{os.environ['PATH']}",
        }
        self.environment = os.environ | configuration
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._configure()
        try:
            self._start_munge()
            self.start("slurmctld", "-D")
            self.start("slurmd", "-D")
            wait(
                lambda: "idle" in self.run("sinfo", "--noheader", "--format", "%T", check=False),
                self.logs,
            )
        except BaseException:
            self.stop()
            raise

    def _configure(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        controller, node = free_ports(2)
        user = pwd.getpwuid(os.getuid()).pw_name
        host = socket.gethostname().partition(".")[0]
        values = {
            "folder": self.folder,
            "user": user,
            "host": host,
            "controller": controller,
            "node": node,
        }
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(**values))
        (self.folder / "gres.conf").write_text(f"NodeName={host} Name=gpu File=/dev/null\n")
        # Snakemake's plugin starts it without SLURM_CONF.
        (self.folder / "srun").write_text(
            f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {shutil.which("srun")} "$@"\n'
        )
        (self.folder / "srun").chmod(0o755)
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o400)

    def _start_munge(self) -> None:
        files = {
            "socket": "socket",
            "key-file": "key",
            "pid-file": "pid",
            "seed-file": "seed",
            "log-file": "log",
        }
        options = [f"--{option}={self.folder}/munge.{ending}" for option, ending in files.items()]
        self.start("munged", "--foreground", "--force", *options)
        wait((self.folder / "munge.socket").exists, self.logs)

    def start(self, daemon: str, *options: str) -> None:
        with (self.folder / f"{daemon}.output").open("a") as output:
            self.daemons[daemon] = subprocess.Popen(
                [executable(daemon) or daemon, *options],
                env=self.environment,
                stdout=output,
                stderr=output,
            )

    def kill(self, daemon: str) -> None:
        self.daemons[daemon].kill()
        self.daemons[daemon].wait()

    def run(self, *command: str, check: bool = True) -> str:
        """What one of SLURM's commands prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert not check or done.returncode == 0, f"{command} failed:\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def logs(self) -> str:
        paths = [*self.folder.glob("*.output"), *self.folder.glob("*.log")]
        return "\n".join(
            f"{path.name}:\n{path.read_text(errors='replace')[-2000:]}" for path in paths
        )

    def stop(self) -> None:
        """End every job and every daemon."""
        if {"slurmctld", "slurmd"} <= set(self.daemons):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.run("scancel", "--full", "--signal=KILL", f"--user={os.getuid()}", check=False)
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(timeout=30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def executable(daemon: str) -> str | None:
    return shutil.which(daemon, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def free_ports(count: int) -> list[int]:
    with_sockets = [socket.socket() for _ in range(count)]
    for each in with_sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in with_sockets]
    for each in with_sockets:
        each.close()
    return ports
