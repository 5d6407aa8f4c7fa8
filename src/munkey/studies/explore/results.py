"""The contents of an experiment's page: predictions, neighbors and tables from its result files."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from munkey.core.diverged import explain_divergence
from munkey.core.files import read_npz, read_table
from munkey.data import forget_sets, prepared
from munkey.data.prepared import Dataset
from munkey.encoders import keys
from munkey.evaluation.records import Evaluation
from munkey.explore.contents import FULL, Contents, NearRows, PageSamples, SystemPredictions
from munkey.explore.pictures import (
    choose_page_ids,
    make_thumbnails,
    rank_neighbors,
    select_shown,
    union_ids,
)
from munkey.explore.projection import project_keys
from munkey.memory import neighbors
from munkey.report.page import glossary
from munkey.report.tables import frontier
from munkey.report.tables.frontier import Design
from munkey.report.tables.markup import ABSENT, find_lowest_gap, format_cell, format_two_digits
from munkey.report.tables.summary import GAP_METRICS, Row, read_main
from munkey.studies.explore.requests import make_request_key, name_request
from munkey.studies.explore.settings import ExploreSettings

if TYPE_CHECKING:
    import pandas as pd

GLOSSARY_COLUMNS = (
    "TA",
    "RA",
    "FA",
    "MIA",
    "Avg Gap",
    "residual share [%]",
    "Seconds",
    "Must be stored",
    "±",
)
SUBTITLE = (
    "Some training pictures had to be forgotten. For single pictures, this page compares the predictions"
    " of models before forgetting, after forgetting, and of models that never saw the pictures (oracles)."
    " All models are from the run `{run}`"
)
SAMPLINGS = {  # descriptions of requests that are not random, by how the forget set is drawn
    "class": "whole classes",
    "cluster": "groups of look-alikes",
    "hard": "the hardest pictures",
    "medium": "pictures of medium difficulty",
    "easy": "the easiest pictures",
    "unit": "all pictures of a person or group",
}
CELL_METRICS = {
    "TA": "TA",
    "RA": "RA",
    "FA": "FA",
    "MIA": "MIA",
    "Avg Gap": "gap",
}  # metrics by heading
AUDITED_KINDS = ("rows", "weights")  # the shares of other kinds are known without an audit
PROBABILITY_SCALE = 65535  # probabilities are stored in 16 bits


@dataclass(frozen=True)
class ResultFiles:
    """The files that the page of a data set is generated from.

    Attributes
    ----------
    images
        The file with the data set's images.
    keyfile
        The file with the keys of its samples.
    audits, scenarios, streams
        A list with the path of the table, or an empty list if the table was not created.
    """

    images: Path
    keyfile: Path
    main_table: Path
    differences: Path
    audits: list[Path]
    scenarios: list[Path]
    streams: list[Path]


@dataclass(frozen=True)
class Experiment:
    """The experiment as planned.

    Attributes
    ----------
    near
        The files of neighbors, by the memory that was searched: `full` or SEED/REQUEST.
    rows
        The systems in the tables.
    neighbor_counts
        How many neighbors each system uses for a prediction, if it uses any.
    requests
        Descriptions of the scenarios' requests, by case.
    """

    name: str
    dataset: str
    runs: list[Evaluation]
    near: Mapping[str, Path]
    rows: list[Row]
    designs: list[Design]
    neighbor_counts: Mapping[str, int]
    requests: Mapping[str, str]


def gather_contents(
    files: ResultFiles, experiment: Experiment, settings: ExploreSettings
) -> Contents:
    """Gather the contents of a data set's page."""
    dataset = prepared.load(files.images.parent)
    forgotten = {}
    for run in experiment.runs:
        forgotten[make_request_key(run)] = forget_sets.read(Path(run.forget))
    near = {}
    for key, path in experiment.near.items():
        near[key] = neighbors.read_neighbors(path, dataset.ids).truncate(settings.neighbors)
    ids = choose_page_ids(dataset.ids, forgotten, near, settings.samples)
    rows = dataset.rows(ids)
    points = project_keys(keys.read(files.keyfile, ids).keys)
    pictures = None
    if settings.pictures:
        pictures = make_thumbnails(dataset.images[rows])
    positions = {}
    for key, forgotten_ids in forgotten.items():
        positions[key] = np.flatnonzero(np.isin(ids, forgotten_ids)).astype(np.int32)
    near_by_memory = {}
    for key, searched in near.items():
        near_by_memory[key] = pack_neighbors(searched.select(rows))
    predictions = PredictionTable(dataset, ids)
    for run in experiment.runs:
        predictions.add(run, forgotten[make_request_key(run)])
    return Contents(
        title=experiment.dataset,
        subtitle=SUBTITLE.format(run=experiment.name),
        scope=describe_scope(ids, dataset.ids, forgotten, near),
        classes=dataset.classes,
        samples=PageSamples(ids, dataset.labels[rows], dataset.splits[rows], points.x, points.y),
        projection=points.description,
        is_experiment=True,
        advice=describe_recommendation(files, experiment),
        pictures=pictures,
        requests=list_requests(experiment),
        seeds=sorted({run.seed for run in experiment.runs}),
        systems=list_systems(experiment),
        predictions=predictions.shown,
        counts=predictions.counts,
        correct=predictions.correct,
        forgotten=positions,
        near=near_by_memory,
        designs=list_designs(files, experiment),
        streams=list_streams(files),
        glossary=write_glossary([row.title for row in experiment.rows]),
        commands={
            "audits": "make audits",
            "scenarios": "make scenarios",
            "streams": "make run TARGET=streams",
        },
    )


def list_requests(experiment: Experiment) -> list[dict[str, Any]]:
    """List the requests that a reader can choose from.

    Those of the main run come first; within the main run or a scenario, larger rates come first.
    """
    requests = {}
    for run in experiment.runs:
        key = name_request(run)
        if key not in requests:  # all seeds and systems share a request
            requests[key] = {
                "key": key,
                "label": describe_request(run, experiment.requests),
                "case": run.case,
                "rate": float(run.rate),
            }
    return sorted(requests.values(), key=lambda request: (request["case"], -request["rate"]))


def describe_request(run: Evaluation, scenario_requests: Mapping[str, str]) -> str:
    """Describe which samples a run's request forgets, e.g. "10% of the training set, at random".

    Parameters
    ----------
    scenario_requests
        See `Experiment.requests`.
    """
    # This module imports scikit-learn, which must not be loaded during planning.
    from munkey.evaluation.metrics import RANDOM

    percentage = f"{100 * float(run.rate):g}%"
    if run.case:
        # The description is SAMPLING or, if classes or units are named, SAMPLING NAMES.
        sampling, _, names = scenario_requests[run.case].partition(" ")
        return f"{SAMPLINGS.get(sampling, sampling)} ({names or percentage})"
    how_drawn = "at random" if run.sampling in RANDOM else run.sampling
    return f"{percentage} of the training set, {how_drawn}"


def write_glossary(titles: Sequence[str]) -> dict[str, str]:
    """Return the meanings of columns, as in the report's glossary, and of systems, by their titles."""
    # This import is slow, and planning imports the present module.
    from munkey.models.family import FAMILIES

    meanings = {name: glossary.find_meaning(name) for name in GLOSSARY_COLUMNS}
    for family in FAMILIES.values():
        if family.original_title in titles:
            meanings[family.original_title] = (
                f"{family.title} trained on everything, before unlearning"
            )
        if family.oracle_title in titles:
            meanings[family.oracle_title] = (
                f"the oracle of {family.title}, trained without the forget set; the reference"
            )
    meanings["oracle"] = (
        "the same kind of model, trained from scratch without the forgotten pictures"
    )
    meanings["key"] = (
        "the vector that a frozen encoder computes for a picture; deletions do not change the encoder"
    )
    return meanings


def list_systems(experiment: Experiment) -> list[dict[str, Any]]:
    """List all systems in the tables, with their roles, originals and oracles."""
    originals = {}
    for row in experiment.rows:
        if row.context:
            originals[row.oracle] = row.name
    systems = []
    for row in experiment.rows:
        if row.context:
            role = "original"
        elif row.oracle is None:
            role = "oracle"
        else:
            role = "method"
        oracle = row.name if role == "oracle" else row.oracle
        systems.append(
            {
                "name": row.name,
                "title": row.title,
                "role": role,
                "oracle": oracle,
                "original": originals.get(oracle),
                "restsOn": experiment.neighbor_counts.get(row.name, 0),
            }
        )
    return systems


def describe_scope(
    shown_ids: np.ndarray,
    all_ids: np.ndarray,
    forgotten: Mapping[str, np.ndarray],
    near: Mapping[str, neighbors.Neighbors],
) -> str:
    """Describe in sentences which samples the page shows, and how they were chosen."""
    if len(shown_ids) == len(all_ids):
        return f"All {len(shown_ids):,} pictures of the data set are shown."
    forgotten_ids = union_ids(forgotten.values())
    groups = rank_neighbors(all_ids, near, select_shown(forgotten, shown_ids))
    neighbor_ids = np.setdiff1d(union_ids(groups), forgotten_ids)
    if np.isin(neighbor_ids, shown_ids).all():
        others = "then neighbors of those"
    else:
        others = "nearest first"
    return (
        f"{len(shown_ids):,} of {len(all_ids):,} pictures are shown:"
        f" {format_shown_count(forgotten_ids, shown_ids)} that a request forgets,"
        f" {format_shown_count(neighbor_ids, shown_ids)} that are neighbors of these before or after forgetting,"
        f" {others}, and a random sample of the rest (fixed seed). Accuracies are computed on all pictures."
    )


def format_shown_count(ids: np.ndarray, shown_ids: np.ndarray) -> str:
    """Return a phrase that states how many of the ids are shown: "all 50" or "30 of the 50"."""
    count = int(np.isin(ids, shown_ids).sum())
    if count == len(ids):
        return f"all {count:,}"
    return f"{count:,} of the {len(ids):,}"


def pack_neighbors(near: neighbors.Neighbors) -> NearRows:
    """Return neighbors in the page's format, with 16-bit ids if all ids are small enough."""
    has_small_ids = near.ids.max(initial=0) < np.iinfo(np.int16).max
    dtype = np.int16 if has_small_ids else np.int32
    return NearRows(near.ids.astype(dtype).ravel(), near.cosines.ravel(), near.ids.shape[1])


class PredictionTable:
    """Collects the predictions of systems, one evaluation at a time.

    Parameters
    ----------
    ids
        The ids of the samples that are shown on the page.

    Attributes
    ----------
    shown, counts, correct
        The fields `predictions`, `counts` and `correct` of `Contents`.
    """

    def __init__(self, dataset: Dataset, ids: np.ndarray) -> None:
        self.dataset = dataset
        self.rows = dataset.rows(ids)
        self.shown: dict[str, SystemPredictions] = {}
        self.counts: dict[str, dict[str, list[int]]] = {}
        self.correct: dict[str, dict[str, list[int]]] = {}

    def add(self, run: Evaluation, forgotten: np.ndarray) -> None:
        """Add the predictions of one evaluation.

        Raises ValueError if its samples are not those of the data set.

        Parameters
        ----------
        forgotten
            The ids that the run's request forgets.
        """
        arrays = read_npz(run.logits)
        if not np.array_equal(arrays["ids"], self.dataset.ids):
            raise ValueError(f"{run.logits}: the samples do not match those of the data set")
        top = arrays["logits"].argmax(axis=1)
        divergence = explain_divergence(arrays)
        self._count(run, top, forgotten, has_diverged=bool(divergence))
        if Path(run.logits).parent.name == FULL:  # an original, which is the same for all requests
            key = f"{run.seed}/{FULL}/{run.method}"
        else:
            key = f"{make_request_key(run)}/{run.method}"
        if key not in self.shown:
            smallest_type = np.min_scalar_type(len(self.dataset.classes))
            p_true = compute_true_class_probability(
                arrays["logits"][self.rows], self.dataset.labels[self.rows]
            )
            self.shown[key] = SystemPredictions(
                top=top[self.rows].astype(smallest_type), p_true=p_true, diverged=divergence
            )

    def _count(
        self, run: Evaluation, top: np.ndarray, forgotten: np.ndarray, *, has_diverged: bool
    ) -> None:
        """Count all samples and, unless it diverged, the correctly classified ones, by part and class."""
        is_forgotten = np.isin(self.dataset.ids, forgotten)
        parts = {
            "test": self.dataset.splits == "test",
            "retain": (self.dataset.splits == "train") & ~is_forgotten,
            "forget": is_forgotten,
        }
        labels = self.dataset.labels
        class_count = len(self.dataset.classes)
        counts = {}
        correct = {}
        for part, is_in_part in parts.items():
            counts[part] = np.bincount(labels[is_in_part], minlength=class_count).tolist()
            is_correct = is_in_part & (top == labels)
            correct[part] = np.bincount(labels[is_correct], minlength=class_count).tolist()
        self.counts[make_request_key(run)] = counts
        if not has_diverged:
            self.correct[f"{make_request_key(run)}/{run.method}"] = correct


def compute_true_class_probability(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the probability of each sample's true class, in units of 1/65535. NaN becomes 0."""
    logits = logits.astype(np.float64)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    p_true = exponentials[np.arange(len(labels)), labels] / exponentials.sum(axis=1)
    return np.round(np.nan_to_num(p_true) * PROBABILITY_SCALE).astype(np.uint16)


def list_designs(files: ResultFiles, experiment: Experiment) -> list[dict[str, Any]]:
    """List every design after every request, with the cells of the tables and their numbers."""
    audit = _read_audit(files)
    ranked = [row.name for row in experiment.rows if row.is_ranked]
    designs = []
    for case, summary in _read_summaries(files, experiment):
        for _, summary_of_rate in summary.groupby("rate", sort=False):
            rate = float(summary_of_rate["rate"].iloc[0])
            # An audit has its own forget sets, so its shares are shown with every request.
            points = frontier.collect_points(summary_of_rate, audit, experiment.designs)
            request = "/".join(filter(None, [case, f"rate{rate!r}"]))  # as in `name_request`
            by_method = summary_of_rate.set_index("method")
            best = find_lowest_gap(by_method[by_method.index.isin(ranked)])
            for _, point in points.iterrows():
                designs.append(describe_design(point, request) | {"bold": point["name"] == best})
    return designs


def describe_recommendation(files: ResultFiles, experiment: Experiment) -> str:
    """Return the report's recommendation of a design for requests at the largest rate."""
    points = frontier.collect_points(
        _read_main_summary(files, experiment), _read_audit(files), experiment.designs
    )
    return frontier.recommend_design(points)


def _read_main_summary(files: ResultFiles, experiment: Experiment) -> "pd.DataFrame":
    """Read the rows of the main table for the experiment's data set."""
    main = read_main(files.main_table, files.differences)
    return main[main["dataset"] == experiment.dataset]


def _read_summaries(files: ResultFiles, experiment: Experiment) -> "list[tuple[str, pd.DataFrame]]":
    """Read the main table and the scenarios' tables, each with its case; '' for the main table."""
    summaries = [("", _read_main_summary(files, experiment))]
    for path in files.scenarios:
        scenarios = read_table(path)
        for case, summary in scenarios.groupby("case", sort=False):
            summaries.append((str(case), summary))
    return summaries


def _read_audit(files: ResultFiles) -> "pd.DataFrame | None":
    """Read the table of audits, or return None if it was not created."""
    return read_table(files.audits[0]) if files.audits else None


def describe_design(point: Any, request: str) -> dict[str, Any]:
    """Return the page's record of one design after one request.

    Parameters
    ----------
    point
        The design's row of `frontier.collect_points`.
    request
        The request's key: `rateRATE` or `CASE/rateRATE`.
    """
    columns = [f"{metric}_mean" for metric in (*GAP_METRICS, "gap")]
    columns += ["TA_sd", "gap_sd", "share", "share_low", "share_high"]
    numbers = {}
    for column in columns:
        numbers[column.removesuffix("_mean")] = number_or_none(point.get(column, math.nan))
    seconds = number_or_none(point["seconds"])
    cells = {
        heading: format_cell(point, metric, "markdown") for heading, metric in CELL_METRICS.items()
    }
    cells["Seconds"] = ABSENT if seconds is None else format_two_digits(seconds)
    is_audited = point["kind"] in AUDITED_KINDS and point["unknown_because"] != frontier.NOT_AUDITED
    return {
        "request": request,
        "name": point["name"],
        "title": point["title"],
        "kind": point["kind"],
        "kindWords": frontier.KINDS[point["kind"]],
        "stored": point["stored"],
        "n": int(point["n"]),
        "seconds": seconds,
        "shareText": point["share_text"],
        "audited": is_audited,
        "cells": cells,
        **numbers,
    }


def number_or_none(value: Any) -> float | None:
    """Return a number, or None if it is NaN or infinite, which JSON does not support."""
    if not math.isfinite(value):
        return None
    return float(value)


def list_streams(files: ResultFiles) -> Sequence[Mapping[str, Any]]:
    """List the points of the streams' curves, one per system, seed and number of requests."""
    points = []
    for path in files.streams:
        for _, row in read_table(path).iterrows():
            points.append(
                {
                    "name": row["name"],
                    "title": row["title"],
                    "seed": int(row["seed"]),
                    "done": int(row["done"]),
                    "RA": number_or_none(row["RA"]),
                    "TA": number_or_none(row["TA"]),
                }
            )
    return points
