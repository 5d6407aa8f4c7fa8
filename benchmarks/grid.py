"""Where the time of a whole run goes: `python benchmarks/grid.py` makes a fresh one and reads its benchmark files.

A clone of HEAD runs `params.yaml` from nothing with all cores; the tables go to benchmarks/results/grid-MACHINE.json.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from munkey import runtime

PROJECT = Path(__file__).parents[1]
PROPER = {"train", "unlearn", "evaluate"}


def seconds_of_jobs(results: Path) -> dict[str, list[float]]:
    """Wall seconds of every job by its step, the folder under results/benchmarks."""
    found: dict[str, list[float]] = {}
    for path in sorted((results / "benchmarks").rglob("*.tsv")):
        with path.open() as file:
            (line,) = csv.DictReader(file, delimiter="\t")
        step = path.relative_to(results / "benchmarks").parts[0].removesuffix(".tsv")
        found.setdefault(step, []).append(float(line["s"]))
    return found


def split(jobs: dict[str, list[float]], wall: float, cores: int) -> list[dict[str, object]]:
    """Core-seconds of a run of one-core jobs, and the share of each part in cores x wall.

    A job that samples a forget set does next to nothing, so the median of these is what any job costs around its work.
    """
    around, total = median(jobs["forget"]), cores * wall
    every = [s for seconds in jobs.values() for s in seconds]
    rows = [(rule, len(seconds), sum(max(0.0, s - around) for s in seconds)) for rule, seconds in jobs.items()]
    rows.append(("starting and ending jobs", len(every), sum(min(s, around) for s in every)))
    rows.append(("planning, choosing jobs, waiting for the last", len(every), total - sum(every)))
    return [{"part": part, "jobs": n, "core_s": s, "share": 100 * s / total} for part, n, s in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given, cores = parser.parse_args(), len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "munkey"
        subprocess.run(["git", "clone", "--quiet", PROJECT, clone], check=True)
        environment = os.environ | {"PYTHONPATH": str(clone / "src")}
        started = time.monotonic()
        command = [sys.executable, "-m", "snakemake", "--cores", "all", "--resources", "gpu=1"]
        subprocess.run(command, cwd=clone, env=environment, check=True)
        wall = time.monotonic() - started
        rows = split(seconds_of_jobs(clone / "results"), wall, cores)
    for row in rows:
        print(f"{row['part']:48} {row['jobs']:5} jobs {row['core_s']:8.1f} core-s {row['share']:5.1f} %")
    proper = sum(row["share"] for row in rows if row["part"] in PROPER)
    print(f"{wall:.0f} s on {cores} cores; outside training, unlearning and evaluation proper: {100 - proper:.1f} %")
    machine = runtime.provenance({}, "cpu") | {"cores": cores, "date": datetime.now(UTC).date().isoformat()}
    name = "grid-" + re.sub(r"\W+", "-", machine["device"]).strip("-").lower()
    given.out.mkdir(parents=True, exist_ok=True)
    written = {"machine": machine, "wall_s": wall, "outside": 100 - proper, "parts": rows}
    (given.out / f"{name}.json").write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
