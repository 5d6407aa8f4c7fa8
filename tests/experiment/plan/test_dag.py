"""The jobs of one grid that uses nearly every rule, with all files that they read and make: dag.txt keeps them.

After a change that is meant, write the file anew and read its diff: `python -m tests.experiment.plan.test_dag`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.conftest import ROOT

HERE = Path(__file__).parent
DAG = HERE / "dag.txt"
TARGETS = ["paper", "scenarios", "streams", "audit_grids", "relearning", "exports"]
RESULTS = "results/everything/"


def plan_jobs(folder: Path) -> list[dict]:
    """All jobs of the grid as Snakemake plans them, in a folder without results."""
    for name in ("Snakefile", "params.yaml", "profiles", "src", "workflow"):
        (folder / name).symlink_to(ROOT / name)
    overlay = str(HERE / "everything.yaml")
    snakemake = [sys.executable, "-m", "snakemake", "-n", "--logger", "jobs"]
    command = [*snakemake, "--configfile", overlay, "--", *TARGETS]
    dry_run = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert dry_run.returncode == 0, dry_run.stdout + dry_run.stderr
    jobs = []
    for line in dry_run.stdout.splitlines():
        if line.startswith("{"):
            jobs.append(json.loads(line))
    return jobs


def join_by_folder(paths: Iterable[str]) -> list[str]:
    """The paths in their order, those of one folder on one line: `a/{b,c}`."""
    folders: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        folder, _, name = path.removeprefix(RESULTS).rpartition("/")
        folders[folder].append(name)
    lines = []
    for folder, names in folders.items():
        files = names[0] if len(names) == 1 else f"{{{','.join(names)}}}"
        lines.append(f"{folder}/{files}" if folder else files)
    return lines


def list_jobs(jobs: Iterable[dict]) -> str:
    """For each job its rule and outputs, and below them its inputs; sorted by rule and output."""
    blocks = []
    for job in jobs:
        head = " ".join([job["rule_name"], *join_by_folder(job["output"])])
        blocks.append("\n    ".join([head, *join_by_folder(job["input"])]))
    return "\n".join(sorted(blocks)) + "\n"


def test_the_jobs_of_a_grid_read_and_make_the_files_of_dag_txt(tmp_path: Path) -> None:
    jobs = list_jobs(plan_jobs(tmp_path))
    assert jobs == DAG.read_text(), f"if this is meant: {__doc__.splitlines()[2]}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        DAG.write_text(list_jobs(plan_jobs(Path(scratch))))
