"""Tracking: all results and tables, mirrored in MLflow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from munkey.core.files import write_json
from munkey.core.paths import Layout
from munkey.evaluation.records import Evaluation
from munkey.experiment.tracking import mirror
from munkey.experiment.tracking.runs import Model, Results, runs_of


def track(
    mirrored: Path,
    name: str,
    uri: str,
    attempt: int,
    runs: list[Evaluation],
    searches: Mapping[str, Evaluation],
    models: Mapping[str, Mapping[str, Any]],
    titles: Mapping[str, str],
    asked: Mapping[str, Mapping[str, Any]],
) -> None:
    """Mirror the results of the configuration `name` at `uri`. searches, models: by the file of the search, the system.

    models: each with its `run` and its `sections`; asked: how memories are asked, by data set and system; attempt: how
    often this was tried, so that a tracking server that was away is asked again.
    """
    systems = [Model(path, Evaluation(**model["run"]), model["sections"]) for path, model in models.items()]
    results = Results(Layout(name), runs, searches, titles, asked, systems)
    write_json(mirrored, mirror.record(uri, name, runs_of(results), attempt))
