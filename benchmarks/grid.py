"""Where the time of a whole run goes: makes one from nothing and reads its benchmark files.

A clone of HEAD runs `params.yaml` with all cores; the table goes to benchmarks/results/grid-MACHINE.json.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypedDict

from benchmarks.measuring import RESULTS, file_for, this_machine
from munkey.core.paths import DEFAULT, Layout

PROJECT = Path(__file__).parents[1]
WORK = {"train", "unlearn", "evaluate"}  # the steps that a run is for


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


def seconds_of_jobs(project: Path) -> dict[str, list[float]]:
    """Wall seconds of every job of the default run by its step, the first part of a benchmark file's name."""
    folder = project / Path(Layout(DEFAULT).benchmark("step")).parent
    seconds: dict[str, list[float]] = {}
    for path in sorted(folder.rglob("*.tsv")):
        with path.open() as file:
            (line,) = csv.DictReader(file, delimiter="\t")
        step = path.relative_to(folder).parts[0].removesuffix(".tsv")
        seconds.setdefault(step, []).append(float(line["s"]))
    return seconds


def parts(jobs: dict[str, list[float]], wall: float, cores: int) -> list[Part]:
    """The core-seconds of a run of one-core jobs, split up; the shares are of cores x wall.

    A job that draws a forget set does next to nothing, so the median of these is what any job takes around its work.
    """
    around, total = median(jobs["forget"]), cores * wall
    every = [s for seconds in jobs.values() for s in seconds]

    def part(name: str, count: int, core_s: float) -> Part:
        return {"part": name, "jobs": count, "core_s": core_s, "share": 100 * core_s / total}

    return [
        *(part(step, len(seconds), sum(max(0.0, s - around) for s in seconds)) for step, seconds in jobs.items()),
        part("starting and ending jobs", len(every), sum(min(s, around) for s in every)),
        part("planning, choosing jobs, waiting for the last", len(every), total - sum(every)),
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
        return Run(parts(seconds_of_jobs(clone), wall, cores), wall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    folder, cores = parser.parse_args().out, len(os.sched_getaffinity(0))
    run = whole_run(cores)
    for part in run.parts:
        print(f"{part['part']:48} {part['jobs']:5} jobs {part['core_s']:8.1f} core-s {part['share']:5.1f} %")
    outside = 100 - sum(part["share"] for part in run.parts if part["part"] in WORK)
    print(f"{run.wall:.0f} s on {cores} cores; outside training, unlearning and evaluation: {outside:.1f} %")
    machine = this_machine("cpu")
    written = {"machine": machine, "wall_s": run.wall, "outside": outside, "parts": run.parts}
    file_for(machine, "grid", folder).write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
