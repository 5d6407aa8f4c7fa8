"""Where the time of a whole run goes: makes one from nothing and reads how long each job took.

A clone of HEAD runs `params.yaml` with all cores; the table goes to benchmarks/results/grid-MACHINE.json.
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
WORK = {"train", "unlearn", "evaluate"}  # the steps that a run is for
REST = "planning, starting and ending jobs, waiting for the last"


class Part(TypedDict):
    """A part of a run. core_s: core-seconds; share: of all core-seconds, percent."""

    part: str
    jobs: int
    core_s: float
    share: float


class Run(NamedTuple):
    """A whole run. wall: its wall time in seconds."""

    parts: list[Part]
    wall: float


def seconds_by_step(project: Path) -> dict[str, list[float]]:
    """Wall seconds of every job of the default run, from the last line of its log, by the first part of the log's name.

    They count from the moment at which a job begins its work: starting its process is not among them.
    """
    folder = project / Path(Layout(DEFAULT).log("step")).parent
    seconds: dict[str, list[float]] = {}
    for path in sorted(folder.rglob("*.log")):
        step = path.relative_to(folder).parts[0].removesuffix(".log")
        seconds.setdefault(step, []).append(read_seconds(path) or 0.0)
    return seconds


def parts(jobs: dict[str, list[float]], wall: float, cores: int) -> list[Part]:
    """The core-seconds of a run of one-core jobs, split up; the shares are of cores x wall."""
    total = cores * wall
    spent = {step: sum(seconds) for step, seconds in jobs.items()}
    counts = {step: len(seconds) for step, seconds in jobs.items()}
    spent[REST], counts[REST] = total - sum(spent.values()), sum(counts.values())
    return [
        {"part": part, "jobs": counts[part], "core_s": core_s, "share": 100 * core_s / total}
        for part, core_s in spent.items()
    ]


def whole_run(cores: int) -> Run:
    """Clone the project and run it from nothing."""
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
    folder, cores = parser.parse_args().out, len(os.sched_getaffinity(0))
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
    written = {"machine": machine, "wall_s": run.wall, "outside": outside, "parts": run.parts}
    file_for(machine, "grid", folder).write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
