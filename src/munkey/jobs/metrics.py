"""Metrics, measured from logits and records."""

from pathlib import Path

from munkey.core.console import progress
from munkey.core.files import write_csv
from munkey.evaluation.metrics import make_metric_rows
from munkey.evaluation.paired import COLUMNS, compare_systems
from munkey.evaluation.records import Evaluation


def metrics(runs: list[Evaluation], metrics: Path, differences: Path | None = None) -> None:
    """Measure every system of a data set: one tidy CSV, which rules use for the main run, ablations and selection.

    Parameters
    ----------
    differences
        The CSV for the differences in test accuracy between any two systems, if they are wanted.
    """
    logits_by_record = {}  # of trained systems
    for run in runs:
        if run.record == run.training:
            logits_by_record[run.case, run.record] = run.logits
    rows: list[dict[str, object]] = []
    for run in progress(runs, "system", "systems"):
        original = None
        if run.record != run.training:
            original = logits_by_record.get((run.case, run.training))
        rows += make_metric_rows(run, original)
    if any("why" in row for row in rows):  # only then is there such a column
        for row in rows:
            row.setdefault("why", "")
    write_csv(metrics, rows)
    if differences is not None:
        write_csv(differences, compare_systems(runs), COLUMNS)
