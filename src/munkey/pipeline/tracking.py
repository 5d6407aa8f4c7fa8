"""What MLflow shows of the results: one run for each evaluation, candidate and table. The store is `mlflow_store`'s.

JSON, CSV and NPZ files on disk are the truth; a store that was deleted is filled again.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from munkey.core.files import DamagedFileError, read_bytes, read_json, read_table
from munkey.evaluation.records import Evaluation
from munkey.pipeline.layout import Layout, fill

CURVES = ("loss", "accuracy", "lr")


@dataclass(frozen=True)
class Model:
    """A MUNKEY to export and log. system: its file; sections: of params.yaml, by name, as they hold for it."""

    system: str
    evaluation: Evaluation
    sections: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Run:
    """What one MLflow run shows. curves: one value per epoch, from epoch 1; artifacts: file paths; times: ISO 8601.

    model: is exported when the run is made, and logged as the artifact `model`.
    """

    experiment: str
    name: str
    params: Mapping[str, object]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    curves: Mapping[str, list[float]] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    started: str | None = None
    ended: str | None = None
    model: Model | None = None

    def digest(self) -> str:
        """A hash of everything it shows, artifacts included."""
        paths = (*self.artifacts, self.model.system) if self.model else self.artifacts
        files = [hashlib.sha256(read_bytes(path)).hexdigest() for path in paths]
        text = json.dumps([asdict(self), files], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def runs_of(
    evaluations: Iterable[Evaluation],
    searches: Mapping[str, Evaluation],
    titles: Mapping[str, str],
    layout: Layout,
    models: Iterable[Model] = (),
) -> list[Run]:
    """All runs to mirror: one per evaluation, candidate of a search and model, and the tables of a data set.

    searches: by the path of search.json, the evaluation that it chose the settings for; titles: by system; layout: of
    the configuration. Models come last: where one cannot be exported, all else is there.
    """
    candidates = [run for path, evaluation in searches.items() for run in _candidates(Path(path), evaluation, titles)]
    return [
        *_evaluated(evaluations, titles, layout.all_metrics),
        *candidates,
        *_tables(layout),
        *(model_run(model, titles) for model in models),
    ]


def _evaluated(evaluations: Iterable[Evaluation], titles: Mapping[str, str], metrics_file: str) -> Iterator[Run]:
    metrics = read_table(metrics_file).astype({"rate": str, "seed": str})
    groups = metrics.groupby(["dataset", "rate", "seed", "method"])
    for evaluation in evaluations:
        names = _names(evaluation)
        values = groups.get_group(tuple(names.values())).set_index("metric")["value"]
        record, training = read_json(evaluation.record), read_json(evaluation.training)
        curves = _curves("train", training)
        if evaluation.record != evaluation.training:
            curves |= _curves("unlearn", record)
        yield Run(
            experiment=evaluation.dataset,
            name=_title(evaluation, titles),
            params=names | flat(record["settings"]) | flat({"facts": record.get("facts", {})}),
            metrics={str(metric): float(value) for metric, value in values.items()},
            tags=names | {"kind": "run"} | {name: str(value) for name, value in flat(record["provenance"]).items()},
            curves=curves,
            artifacts=(evaluation.record, evaluation.forget),
            started=record["started"],
            ended=record["ended"],
        )


def _candidates(search: Path, evaluation: Evaluation, titles: Mapping[str, str]) -> Iterator[Run]:
    """The runs of a search: what each candidate of the settings led to, and which one was chosen."""
    result, names = read_json(search), _names(evaluation)
    for number, candidate in enumerate(result["candidates"]):
        path = search.parent / str(number) / "record.json"
        record = read_json(path)
        yield Run(
            experiment=evaluation.dataset,
            name=f"{_title(evaluation, titles)} candidate {number}",
            params=names | flat(candidate["settings"]),
            metrics={metric: value for metric, value in candidate.items() if metric != "settings"},
            tags=names | {"kind": "candidate", "chosen": str(number == result["chosen"]).lower()},
            curves=_curves("unlearn", record),
            artifacts=(str(path),),
            started=record["started"],
            ended=record["ended"],
        )


def _tables(layout: Layout) -> Iterator[Run]:
    """For each data set, the tables and the gaps that the main table shows."""
    shown = (("main", "csv"), ("main", "md"), ("runtime", "md"))
    tables = tuple(fill(layout.table, table=table, ending=ending) for table, ending in shown)
    for dataset, part in read_table(tables[0]).groupby("dataset"):
        rows = part[part["gap_mean"].notna()]
        gaps = zip(rows["method"], rows["rate"], rows["gap_mean"], strict=True)
        yield Run(
            experiment=str(dataset),
            name="Tables",
            params={"n_seeds": int(part["n"].min())},
            metrics={f"gap/{method}/rate{rate:g}": float(gap) for method, rate, gap in gaps},
            tags={"dataset": str(dataset), "kind": "table"},
            artifacts=(*tables, layout.all_metrics),
        )


def model_run(model: Model, titles: Mapping[str, str]) -> Run:
    """A MUNKEY as it was trained, or as a method left it, to be served. The store adds the tags of its memory."""
    from munkey.serve.manifest import VERSION

    evaluation = model.evaluation
    names, title, record = _names(evaluation), _title(evaluation, titles), read_json(evaluation.record)
    if evaluation.record == evaluation.training:  # trained on everything, whatever the rate
        del names["rate"]
        title = f"{titles[evaluation.method]} seed {evaluation.seed}"
    return Run(
        experiment=evaluation.dataset,
        name=f"Model of {title}",
        params=names | flat(model.sections) | {"format": VERSION},
        metrics={},
        tags=names | {"kind": "model"},
        started=record["started"],
        ended=record["ended"],
        model=model,
    )


def _names(evaluation: Evaluation) -> dict[str, str]:
    return {name: str(getattr(evaluation, name)) for name in ("dataset", "rate", "seed", "method")}


def _title(evaluation: Evaluation, titles: Mapping[str, str]) -> str:
    return f"{titles[evaluation.method]} @{evaluation.rate} seed {evaluation.seed}"


def _curves(stage: str, record: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, list[float]]:
    return {f"{stage}/{curve}": [epoch[curve] for epoch in record["history"]] for curve in CURVES}


def flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested settings by dotted names: {"train": {"lr": 1}} becomes {"train.lr": 1}."""
    flattened: dict[str, object] = {}
    for name, value in settings.items():
        flattened |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flattened


def attempt(path: str) -> int:
    """The number of the next attempt to mirror, by what the last one left at `path`.

    As a parameter of the job it has a failed attempt made again by the next run, and a successful one left alone.
    """
    try:
        last = read_json(path) if Path(path).exists() else {}
    except DamagedFileError:
        return -1
    return int(last.get("attempt", 0)) + bool(last.get("failure"))


def outcome(path: str) -> str:
    """What to say of the mirror at the end of a run, by what it left at `path`: where to look, or why it failed."""
    last = read_json(path) if Path(path).exists() else {}
    uri = public(last.get("uri", ""))
    return str(last.get("failure") or (uri if uri.startswith("http") else "make ui"))


def public(uri: str) -> str:
    """The address of a store without a user's name and password."""
    return re.sub(r"//[^/@]*@", "//", uri)
