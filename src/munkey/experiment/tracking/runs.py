"""The runs in MLflow: for each data set, one per method and rate, and one with the tables.

A method's run has means and standard deviations over seeds, and the runs of its seeds are nested
below it. MLflow is only a log; the results are the files on disk.
"""

import hashlib
import json
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from munkey.core.diverged import DIVERGED
from munkey.core.files import checksum_path, read_bytes, read_json, read_table
from munkey.core.knobs import dump_sections
from munkey.core.paths import Layout, fill
from munkey.evaluation.records import Evaluation
from munkey.report.tables.summary import Key, round_to_four_digits
from munkey.settings import Sections

ValueT = TypeVar("ValueT")
CURVES = ("loss", "accuracy", "lr")
# The gap of one seed. `gap` is the gap of the means over seeds, as in the tables.
SEED_GAP = "seed_gap"
NOTE = "mlflow.note.content"  # the tag that MLflow shows as the description
COMMIT = "mlflow.source.git.commit"
NOTES = {
    "method": (
        "Means over the seeds nested below; `_sd` is a standard deviation over them (ddof = 1). `gap` is the tables'"
        " Avg Gap: from these means to those of the oracle."
    ),
    "run": f"One seed. `{SEED_GAP}` is the gap between this seed and the same seed of the oracle.",
    "table": "The tables of this configuration.",
}


@dataclass(frozen=True)
class Run:
    """One MLflow run.

    curves: lists with a value for each epoch, from epoch 1, by name. artifacts: files that MLflow
    keeps. started, ended: in ISO 8601. table: a CSV file that MLflow shows as a table, or empty.
    parent: the name of the run that it is nested under, or empty.
    """

    experiment: str
    name: str
    params: Mapping[str, object]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    curves: Mapping[str, list[float]] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    table: str = ""
    started: str | None = None
    ended: str | None = None
    parent: str = ""

    def digest(self) -> str:
        """Return a hash of the run's contents, including its artifacts."""
        files = [hashlib.sha256(read_bytes(path)).hexdigest() for path in self.artifacts]
        text = json.dumps([asdict(self), files], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Results:
    """The results to log.

    Attributes
    ----------
    titles
        The title of each system.
    inference
        The sections of params.yaml that predictions depend on, by data set and system.
    """

    layout: Layout
    evaluations: Sequence[Evaluation]
    titles: Mapping[str, str]
    inference: Mapping[str, Mapping[str, Sections]]


def make_runs(results: Results) -> list[Run]:
    """Make all runs to log. Each run comes after the one that it is nested under."""
    return [*_make_method_runs(results), *_make_table_runs(results.layout)]


def _make_method_runs(results: Results) -> Iterator[Run]:
    """Yield the run of each method at each rate, followed by those of its seeds."""
    table = read_table(fill(results.layout.table, table="main", ending="csv"))
    table_rows = {}
    for row in table.to_dict("records"):
        table_rows[Key(row["dataset"], float(row["rate"]), row["method"])] = row
    seed_runs: dict[Key, list[Run]] = {}
    for evaluation, run in zip(results.evaluations, _make_seed_runs(results), strict=True):
        key = Key(evaluation.dataset, float(evaluation.rate), evaluation.method)
        seed_runs.setdefault(key, []).append(run)
    for key, runs in seed_runs.items():
        yield _average_runs(runs, table_rows[key])
        yield from runs


def _average_runs(seeds: Sequence[Run], table_row: Mapping[Hashable, Any]) -> Run:
    """Make the run of a method, with means and standard deviations over seeds from the table.

    Its params and tags are those that the runs of all seeds have in common, and the list of seeds.
    """
    first = seeds[0]
    params = _select_shared_entries([run.params for run in seeds])
    tags = _select_shared_entries([run.tags for run in seeds])
    params["seeds"] = ", ".join(str(run.params["seed"]) for run in seeds)
    params.pop("seed", None)
    tags.pop("seed", None)
    metrics = {}
    for column, value in table_row.items():
        name = str(column)
        if name.endswith(("_mean", "_sd")) and not math.isnan(value):
            metrics[name.removesuffix("_mean")] = round_to_four_digits(value)
    return Run(
        experiment=first.experiment,
        name=first.parent,
        params=params,
        metrics=metrics,
        tags=tags | {"kind": "method", NOTE: NOTES["method"]},
        started=min(run.started or "" for run in seeds),
        ended=max(run.ended or "" for run in seeds),
    )


def _select_shared_entries(records: Sequence[Mapping[str, ValueT]]) -> dict[str, ValueT]:
    """Select the entries that all records have in common."""
    shared_entries = dict(records[0])
    for record in records[1:]:
        for name in list(shared_entries):
            if record.get(name) != shared_entries[name]:
                del shared_entries[name]
    return shared_entries


def _make_seed_runs(results: Results) -> Iterator[Run]:
    """Yield a run for each evaluation, in order."""
    metrics = read_table(results.layout.all_metrics).astype({"rate": str, "seed": str})
    groups = metrics.groupby(["dataset", "rate", "seed", "method"])
    data_digests: dict[str, str] = {}
    for run in results.evaluations:
        if run.dataset not in data_digests:
            data_digests[run.dataset] = _compute_data_digest(run.dataset, results.layout)
        key = {
            "dataset": run.dataset,
            "rate": run.rate,
            "seed": str(run.seed),
            "method": run.method,
        }
        record = read_json(run.record)
        inference = dump_sections(results.inference[run.dataset][run.method])
        params: dict[str, object] = dict(key)
        params |= flatten(record["settings"])
        params |= flatten(inference)
        params |= flatten({"facts": record.get("facts", {})})
        params["data_digest"] = data_digests[run.dataset]
        params["forget_digest"] = _compute_digest(read_bytes(run.forget))
        tags = key | {"kind": "run", NOTE: NOTES["run"]}
        for name, value in flatten(record["provenance"]).items():
            tags[name] = str(value)
        tags[COMMIT] = tags["commit"]
        if DIVERGED in record:
            tags[DIVERGED] = record[DIVERGED]
        curves = _read_curves("train", read_json(run.training))
        if run.record != run.training:
            curves |= _read_curves("unlearn", record)
        metrics_of_run = groups.get_group(tuple(key.values()))
        metrics_of_run = metrics_of_run.replace({"metric": {"gap": SEED_GAP}})
        values = {}
        for name, value in zip(metrics_of_run["metric"], metrics_of_run["value"], strict=True):
            values[name] = round_to_four_digits(value)
        method_title = f"{results.titles[run.method]} @{run.rate}"
        yield Run(
            experiment=run.dataset,
            name=f"{method_title} seed {run.seed}",
            params=params,
            metrics=values,
            tags=tags,
            curves=curves,
            artifacts=(run.record, run.forget),
            started=record["started"],
            ended=record["ended"],
            parent=method_title,
        )


def _make_table_runs(layout: Layout) -> Iterator[Run]:
    """Yield a run with the tables for each data set, without metrics."""
    main = fill(layout.table, table="main", ending="csv")
    artifacts = [main, layout.all_metrics]
    for table in ("main", "runtime"):
        artifacts.append(fill(layout.table, table=table, ending="md"))
    for dataset, rows in read_table(main).groupby("dataset"):
        yield Run(
            experiment=str(dataset),
            name="Tables",
            params={"n_seeds": int(rows["n"].min())},
            metrics={},
            tags={"dataset": str(dataset), "kind": "table", NOTE: NOTES["table"]},
            artifacts=tuple(artifacts),
            table=main,
        )


def flatten(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Flatten nested settings to dotted names: {"train.lr": 1} for {"train": {"lr": 1}}."""
    flattened: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flattened |= flatten(value, f"{prefix}{name}.")
        else:
            flattened[f"{prefix}{name}"] = value
    return flattened


def _read_curves(
    stage: str, record: Mapping[str, Sequence[Mapping[str, float]]]
) -> dict[str, list[float]]:
    curves = {}
    for name in CURVES:
        curves[f"{stage}/{name}"] = [
            round_to_four_digits(epoch[name]) for epoch in record["history"]
        ]
    return curves


def _compute_data_digest(dataset: str, layout: Layout) -> str:
    """Compute a hash of the checksums of a data set's images and samples."""
    images = Path(fill(layout.images, dataset=dataset))
    samples = Path(fill(layout.samples, dataset=dataset))
    checksums = checksum_path(images).read_bytes() + checksum_path(samples).read_bytes()
    return _compute_digest(checksums)


def _compute_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
