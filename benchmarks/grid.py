"""How the time of a whole run is spent: runs all jobs from scratch and reads how long each took.

A clone of HEAD runs `params.yaml` on all cores. The result is written to
benchmarks/results/grid-MACHINE.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, TypedDict

from benchmarks.measuring import RESULTS, file_for, this_machine
from munkey.core.paths import DEFAULT, Layout
from munkey.experiment.run.job import read_seconds

PROJECT = Path(__file__).parents[1]
WORK = {"train", "unlearn", "evaluate"}  # the steps that produce the results of a run
REST = "planning, starting and ending jobs, waiting for the last"


class Part(TypedDict):
    """A part of a run.

    Attributes
    ----------
    part
        The step of its jobs, or REST.
    jobs
        The number of jobs.
    core_s
        The core-seconds that the part takes.
    share
        The part's share of all core-seconds, in percent.
    """

    part: str
    jobs: int
    core_s: float
    share: float


class Run(NamedTuple):
    """A whole run.

    Attributes
    ----------
    wall
        The run's wall time in seconds.
    """

    parts: list[Part]
    wall: float


def seconds_by_step(project: Path) -> dict[str, list[float]]:
    """Return the wall seconds of all jobs of the default run, by step.

    They are read from the last line of each job's log. The start of the job's process is not
    included.
    """
    folder = project / Path(Layout(DEFAULT).log("step")).parent
    seconds: dict[str, list[float]] = {}
    for path in sorted(folder.rglob("*.log")):
        step = path.relative_to(folder).parts[0].removesuffix(".log")
        seconds.setdefault(step, []).append(read_seconds(path) or 0.0)
    return seconds


def parts(jobs: dict[str, list[float]], wall: float, cores: int) -> list[Part]:
    """Split the core-seconds of a run, cores x wall, into parts: one for each step, and the rest.

    Parameters
    ----------
    jobs
        The wall seconds of each step's jobs, which use one core each.
    """
    total = cores * wall
    core_seconds = {step: sum(seconds) for step, seconds in jobs.items()}
    job_counts = {step: len(seconds) for step, seconds in jobs.items()}
    core_seconds[REST] = total - sum(core_seconds.values())
    job_counts[REST] = sum(job_counts.values())
    run_parts: list[Part] = []
    for step, seconds in core_seconds.items():
        run_parts.append(
            {
                "part": step,
                "jobs": job_counts[step],
                "core_s": seconds,
                "share": 100 * seconds / total,
            }
        )
    return run_parts


def whole_run(cores: int) -> Run:
    """Clone the project into a temporary folder, and run it there from scratch."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "munkey"
        subprocess.run(["git", "clone", "--quiet", PROJECT, clone], check=True)
        environment = os.environ | {"PYTHONPATH": str(clone / "src")}
        command = [sys.executable, "-m", "snakemake", "--cores", "all", "--resources", "gpu=1"]
        started = time.monotonic()
        subprocess.run(command, cwd=clone, env=environment, check=True)
        wall = time.monotonic() - started
        return Run(parts(seconds_by_step(clone), wall, cores), wall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    folder = parser.parse_args().out
    cores = len(os.sched_getaffinity(0))
    run = whole_run(cores)
    for part in run.parts:
        print(
            f"{part['part']:48} {part['jobs']:5} jobs {part['core_s']:8.1f} core-s {part['share']:5.1f}%"
        )
    outside = 100 - sum(part["share"] for part in run.parts if part["part"] in WORK)
    print(
        f"{run.wall:.0f} s on {cores} cores; outside training, unlearning and evaluation: {outside:.1f}%"
    )
    machine = this_machine("cpu")
    content = {"machine": machine, "wall_s": run.wall, "outside": outside, "parts": run.parts}
    file_for(machine, "grid", folder).write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
