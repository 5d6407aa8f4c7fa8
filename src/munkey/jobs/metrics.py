"""Metrics, measured from logits and records."""

from pathlib import Path

from munkey.core.console import progress
from munkey.core.files import write_csv
from munkey.evaluation.metrics import measured
from munkey.evaluation.records import Evaluation


def metrics(runs: list[Evaluation], metrics: Path) -> None:
    """Measure every system of a data set: one tidy CSV, which rules use for the main run, ablations and selection."""
    trained = {(run.case, run.record): run.logits for run in runs if run.record == run.training}
    lines: list[dict[str, object]] = []
    for run in progress(runs, "system", "systems"):
        lines += measured(
            run, None if run.record == run.training else trained.get((run.case, run.training))
        )
    if any("why" in line for line in lines):  # a column that is there only where something diverged
        lines = [{**line, "why": line.get("why", "")} for line in lines]
    write_csv(metrics, lines)
