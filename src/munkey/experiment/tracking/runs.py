"""What MLflow shows of the results: a run for each method, seed, candidate of a search, model, and for the tables.

A method's run carries means and standard deviations over its seeds, which are nested under it. The files on disk are
the truth: a store that was deleted is filled again.
"""

import hashlib
import json
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from munkey.core.files import read_bytes, read_json, read_table, sum_file
from munkey.core.paths import Layout, fill
from munkey.evaluation.records import Evaluation
from munkey.report.tables.summary import Key, short

CURVES = ("loss", "accuracy", "lr")
SEED_GAP = "seed_gap"  # of one seed alone; `gap` is that of the means over seeds, as in the tables
NOTE, COMMIT = "mlflow.note.content", "mlflow.source.git.commit"  # tags that MLflow's pages show
NOTES = {
    "method": (
        "Means over the seeds nested below; `_sd` is a standard deviation over them (ddof = 1). `gap` is the tables'"
        " Avg Gap: from these means to those of the oracle."
    ),
    "run": f"One seed. `{SEED_GAP}` is the gap from this seed alone to the same seed of the oracle.",
    "candidate": "A candidate of the search for settings, measured on validation; `chosen` says whether it won.",
    "table": "The tables of this configuration, as artifacts.",
}


@dataclass(frozen=True)
class Model:
    """A MUNKEY to export and log. system: its file; sections: of params.yaml, by name, as they hold for it."""

    system: str
    evaluation: Evaluation
    sections: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Samples:
    """Samples that a run was made with. context: what for; source: their path; digest: of them; count: how many."""

    name: str
    context: str
    source: str
    digest: str
    count: int


@dataclass(frozen=True)
class Run:
    """What one MLflow run shows. curves: one value per epoch, from epoch 1; artifacts: file paths; times: ISO 8601.

    parent: the name of the run that it is nested under, empty for one at the top. model: is exported when the run is
    written, and logged as the artifact `model`. registered: the name of that model in the registry.
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
    parent: str = ""
    inputs: tuple[Samples, ...] = ()
    model: Model | None = None
    registered: str = ""

    def digest(self) -> str:
        """A hash of everything it shows, artifacts included."""
        paths = (*self.artifacts, self.model.system) if self.model else self.artifacts
        files = [hashlib.sha256(read_bytes(path)).hexdigest() for path in paths]
        text = json.dumps([asdict(self), files], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Results:
    """What there is to show.

    searches: by the path of search.json, the evaluation that it chose the settings for; titles: by system; asked: by
    data set and system, the sections of params.yaml that its answers depend on.
    """

    layout: Layout
    evaluations: Sequence[Evaluation]
    searches: Mapping[str, Evaluation]
    titles: Mapping[str, str]
    asked: Mapping[str, Mapping[str, Mapping[str, object]]]
    models: Sequence[Model] = ()


def runs_of(results: Results) -> list[Run]:
    """All runs to mirror, each after the one that it is nested under.

    Models come last: where one cannot be exported, all else is there.
    """
    return [
        *_methods(results),
        *(run for path, each in results.searches.items() for run in _candidates(Path(path), each, results.titles)),
        *_tables(results.layout),
        *(model_run(model, results.titles, results.layout.name) for model in results.models),
    ]


def _methods(results: Results) -> Iterator[Run]:
    """The run of each method at each rate, followed by those of its seeds."""
    table = read_table(fill(results.layout.table, table="main", ending="csv")).to_dict("records")
    lines = {Key(line["dataset"], float(line["rate"]), line["method"]): line for line in table}
    seeds: dict[Key, list[Run]] = {}
    for evaluation, run in zip(results.evaluations, _seeds(results), strict=True):
        seeds.setdefault(Key(evaluation.dataset, float(evaluation.rate), evaluation.method), []).append(run)
    for key, runs in seeds.items():
        yield _method(runs, lines[key])
        yield from runs


def _method(seeds: Sequence[Run], line: Mapping[Hashable, Any]) -> Run:
    """The run over seeds: what they have in common, with means and standard deviations from a line of the table."""
    first = seeds[0]
    params = {
        name: value for name, value in first.params.items() if all(run.params.get(name) == value for run in seeds)
    }
    tags = {name: value for name, value in first.tags.items() if all(run.tags.get(name) == value for run in seeds)}
    params.pop("seed", None)  # of the only one
    tags.pop("seed", None)
    numbers = {
        str(name).removesuffix("_mean"): value for name, value in line.items() if str(name).endswith(("_mean", "_sd"))
    }
    return Run(
        experiment=first.experiment,
        name=first.parent,
        params=params | {"seeds": ", ".join(str(run.params["seed"]) for run in seeds)},
        metrics={name: short(value) for name, value in numbers.items() if not math.isnan(value)},
        tags=tags | {"kind": "method", NOTE: NOTES["method"]},
        started=min(run.started or "" for run in seeds),
        ended=max(run.ended or "" for run in seeds),
        inputs=tuple(each for each in first.inputs if all(each in run.inputs for run in seeds)),
    )


def _seeds(results: Results) -> Iterator[Run]:
    """The run of each evaluation."""
    metrics = read_table(results.layout.all_metrics).astype({"rate": str, "seed": str})
    groups = metrics.groupby(["dataset", "rate", "seed", "method"])
    trained_on = {run.dataset: _training(run.dataset, results.layout) for run in results.evaluations}
    for run in results.evaluations:
        names = _names(run)
        measured = groups.get_group(tuple(names.values())).replace({"metric": {"gap": SEED_GAP}})
        record, training = read_json(run.record), read_json(run.training)
        curves = _curves("train", training)
        if run.record != run.training:
            curves |= _curves("unlearn", record)
        settings = flat(record["settings"]) | flat(results.asked[run.dataset][run.method])
        origin = {name: str(value) for name, value in flat(record["provenance"]).items()}
        yield Run(
            experiment=run.dataset,
            name=_title(run, results.titles),
            params=names | settings | flat({"facts": record.get("facts", {})}),
            metrics={name: short(value) for name, value in zip(measured["metric"], measured["value"], strict=True)},
            tags=names | {"kind": "run", NOTE: NOTES["run"]} | origin | {COMMIT: origin["commit"]},
            curves=curves,
            artifacts=(run.record, run.forget),
            started=record["started"],
            ended=record["ended"],
            parent=_title_of_method(run, results.titles),
            inputs=(trained_on[run.dataset], _forgotten(run)),
        )


def _candidates(search: Path, evaluation: Evaluation, titles: Mapping[str, str]) -> Iterator[Run]:
    """The runs of a search: what each candidate of the settings led to, and which one was chosen."""
    result, names, title = read_json(search), _names(evaluation), _title(evaluation, titles)
    for number, candidate in enumerate(result["candidates"]):
        path = search.parent / str(number) / "record.json"
        record, chosen = read_json(path), str(number == result["chosen"]).lower()
        yield Run(
            experiment=evaluation.dataset,
            name=f"{title} candidate {number}",
            params=names | flat(candidate["settings"]),
            metrics={name: short(float(value)) for name, value in candidate.items() if name != "settings"},
            tags=names | {"kind": "candidate", "chosen": chosen, NOTE: NOTES["candidate"]},
            curves=_curves("unlearn", record),
            artifacts=(str(path),),
            started=record["started"],
            ended=record["ended"],
            parent=title,
        )


def _tables(layout: Layout) -> Iterator[Run]:
    """For each data set, the tables. Their numbers are those of the methods' runs."""
    parts = (("main", "csv"), ("main", "md"), ("runtime", "md"))
    tables = tuple(fill(layout.table, table=table, ending=ending) for table, ending in parts)
    for dataset, part in read_table(tables[0]).groupby("dataset"):
        yield Run(
            experiment=str(dataset),
            name="Tables",
            params={"n_seeds": int(part["n"].min())},
            metrics={},
            tags={"dataset": str(dataset), "kind": "table", NOTE: NOTES["table"]},
            artifacts=(*tables, layout.all_metrics),
        )


def model_run(model: Model, titles: Mapping[str, str], configuration: str) -> Run:
    """A MUNKEY as it was trained, or as a method left it, to be served. The mirror adds the tags of its memory."""
    from munkey.deploy.model.manifest import MODEL_FORMAT

    evaluation = model.evaluation
    names, record = _names(evaluation), read_json(evaluation.record)
    title, note = _title(evaluation, titles), f"What is left after deletion, at a forget rate of {evaluation.rate}."
    if evaluation.record == evaluation.training:  # trained on everything, whatever the rate
        del names["rate"]
        title, note = f"{titles[evaluation.method]} seed {evaluation.seed}", "Trained on all samples; holds them all."
    rate = f"rate{names['rate']}-" if "rate" in names else ""
    return Run(
        experiment=evaluation.dataset,
        name=f"Model of {title}",
        params=names | flat(model.sections) | {"format": MODEL_FORMAT},
        metrics={},
        tags=names | {"kind": "model", NOTE: note},
        started=record["started"],
        ended=record["ended"],
        parent=_title(evaluation, titles),
        model=model,
        registered=f"munkey-{configuration}-{evaluation.dataset}-{evaluation.method}-{rate}seed{evaluation.seed}",
    )


def flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested settings by dotted names: {"train": {"lr": 1}} becomes {"train.lr": 1}."""
    flattened: dict[str, object] = {}
    for name, value in settings.items():
        flattened |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flattened


def _names(evaluation: Evaluation) -> dict[str, str]:
    return {name: str(getattr(evaluation, name)) for name in ("dataset", "rate", "seed", "method")}


def _title_of_method(evaluation: Evaluation, titles: Mapping[str, str]) -> str:
    return f"{titles[evaluation.method]} @{evaluation.rate}"


def _title(evaluation: Evaluation, titles: Mapping[str, str]) -> str:
    return f"{_title_of_method(evaluation, titles)} seed {evaluation.seed}"


def _curves(stage: str, record: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, list[float]]:
    return {f"{stage}/{curve}": [short(epoch[curve]) for epoch in record["history"]] for curve in CURVES}


def _training(dataset: str, layout: Layout) -> Samples:
    """The training split of a data set. Its digest is that of the checksums of images and samples."""
    images, samples = (Path(fill(path, dataset=dataset)) for path in (layout.images, layout.samples))
    sums = b"".join(sum_file(path).read_bytes() for path in (images, samples))
    count = int((read_table(samples)["split"] == "train").sum())
    return Samples(dataset, "training", str(images.parent), _digest(sums), count)


def _forgotten(evaluation: Evaluation) -> Samples:
    """The forget set that a system is measured with."""
    name = f"{evaluation.dataset} forget {evaluation.rate} seed {evaluation.seed}"
    content = read_bytes(evaluation.forget)
    return Samples(name, "forgetting", evaluation.forget, _digest(content), content.count(b"\n") - 1)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
