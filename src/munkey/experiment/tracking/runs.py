"""What MLflow shows of the results: a run for each method, seed, candidate of a search, model, and for the tables.

A method's run carries means and standard deviations over its seeds, which are nested under it. The files on disk are
the truth: a store that was deleted is filled again.
"""

import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from munkey.core.files import read_bytes, read_json, read_table, sum_file
from munkey.core.paths import Layout, fill
from munkey.evaluation.records import Evaluation
from munkey.experiment.tracking.tracking import Model, Run, Samples, flat
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
    candidates = [
        run for path, each in results.searches.items() for run in _candidates(Path(path), each, results.titles)
    ]
    models = [model_run(model, results.titles, results.layout.name) for model in results.models]
    return [*_methods(results), *candidates, *_tables(results.layout), *models]


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


def _method(seeds: Sequence[Run], summary: Mapping[Hashable, object]) -> Run:
    """The run over seeds: what they have in common, with means and standard deviations from a line of the table."""
    first = seeds[0]
    params, tags = (_shared([getattr(run, name) for run in seeds], but="seed") for name in ("params", "tags"))
    numbers = ", ".join(str(run.params["seed"]) for run in seeds)
    return Run(
        experiment=first.experiment,
        name=first.parent,
        params=params | {"seeds": numbers},
        metrics=_means(summary),
        tags={name: str(value) for name, value in tags.items()} | {"kind": "method", NOTE: NOTES["method"]},
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
        yield Run(
            experiment=run.dataset,
            name=_title(run, results.titles),
            params=names | settings | flat({"facts": record.get("facts", {})}),
            metrics=_rounded(dict(zip(measured["metric"], measured["value"], strict=True))),
            tags=names | {"kind": "run", NOTE: NOTES["run"]} | _origin(record["provenance"]),
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
            metrics=_rounded({name: value for name, value in candidate.items() if name != "settings"}),
            tags=names | {"kind": "candidate", "chosen": chosen, NOTE: NOTES["candidate"]},
            curves=_curves("unlearn", record),
            artifacts=(str(path),),
            started=record["started"],
            ended=record["ended"],
            parent=title,
        )


def _tables(layout: Layout) -> Iterator[Run]:
    """For each data set, the tables. Their numbers are those of the methods' runs."""
    shown = (("main", "csv"), ("main", "md"), ("runtime", "md"))
    tables = tuple(fill(layout.table, table=table, ending=ending) for table, ending in shown)
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
    """A MUNKEY as it was trained, or as a method left it, to be served. The store adds the tags of its memory."""
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


def _names(evaluation: Evaluation) -> dict[str, str]:
    return {name: str(getattr(evaluation, name)) for name in ("dataset", "rate", "seed", "method")}


def _title_of_method(evaluation: Evaluation, titles: Mapping[str, str]) -> str:
    return f"{titles[evaluation.method]} @{evaluation.rate}"


def _title(evaluation: Evaluation, titles: Mapping[str, str]) -> str:
    return f"{_title_of_method(evaluation, titles)} seed {evaluation.seed}"


def _origin(provenance: Mapping[str, object]) -> dict[str, str]:
    """Tags of where a result came from; the commit also as MLflow's pages look for it."""
    return {name: str(value) for name, value in flat(provenance).items()} | {COMMIT: str(provenance["commit"])}


def _curves(stage: str, record: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, list[float]]:
    return {f"{stage}/{curve}": [short(epoch[curve]) for epoch in record["history"]] for curve in CURVES}


def _means(line: Mapping[Hashable, object]) -> dict[str, float]:
    """Means and standard deviations of a line of the main table, as METRIC and METRIC_sd, but for empty ones."""
    numbers = {str(name): value for name, value in line.items() if str(name).endswith(("_mean", "_sd"))}
    metrics = _rounded({name.removesuffix("_mean"): value for name, value in numbers.items()})
    return {name: value for name, value in metrics.items() if not math.isnan(value)}


def _rounded(metrics: Mapping[str, object]) -> dict[str, float]:
    return {str(name): short(float(str(value))) for name, value in metrics.items()}


def _shared(each: Sequence[Mapping[str, object]], but: str) -> dict[str, object]:
    """What all of them have, with the same value; without one name."""
    return {
        name: value
        for name, value in each[0].items()
        if name != but and all(name in other and other[name] == value for other in each)
    }


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
