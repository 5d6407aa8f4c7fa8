"""Tracking: logs all results to MLflow."""

from collections.abc import Mapping
from pathlib import Path

from munkey.core.files import write_json
from munkey.core.paths import Layout
from munkey.evaluation.records import Evaluation
from munkey.experiment.tracking import mlflow_log
from munkey.experiment.tracking.runs import Results, make_runs
from munkey.settings import Sections


def track(
    logged: Path,
    name: str,
    uri: str,
    attempt: int,
    runs: list[Evaluation],
    titles: Mapping[str, str],
    inference: Mapping[str, Mapping[str, Sections]],
) -> None:
    """Log the results of the configuration `name` to the MLflow store at `uri`.

    Parameters
    ----------
    attempt
        The number of the attempt. It increases after a failed attempt, so this job runs again.
    titles
        The title of each system.
    inference
        The sections that predictions depend on, by data set and system.
    """
    results = Results(Layout(name), runs, titles, inference)
    write_json(logged, mlflow_log.record(uri, name, make_runs(results), attempt))
