"""Metrics, computed from logits and records."""

from pathlib import Path

from munkey.core.console import progress
from munkey.core.files import write_csv
from munkey.evaluation.metrics import make_metric_rows
from munkey.evaluation.paired import COLUMNS, compare_systems
from munkey.evaluation.records import Evaluation


def metrics(runs: list[Evaluation], metrics: Path, differences: Path | None = None) -> None:
    """Compute the metrics of all systems of a data set, and write them to a tidy CSV file.

    Parameters
    ----------
    differences
        The CSV file for the differences in test accuracy between all pairs of systems; None to
        skip them.
    """
    logits_by_record = {}
    for run in runs:
        if run.record == run.training:  # a trained system, not an unlearned one
            logits_by_record[run.case, run.record] = run.logits
    rows: list[dict[str, object]] = []
    for run in progress(runs, "system", "systems"):
        original = None
        if run.record != run.training:
            original = logits_by_record.get((run.case, run.training))
        rows += make_metric_rows(run, original)
    if any("why" in row for row in rows):  # otherwise, the table has no such column
        for row in rows:
            row.setdefault("why", "")
    write_csv(metrics, rows)
    if differences is not None:
        write_csv(differences, compare_systems(runs), COLUMNS)
