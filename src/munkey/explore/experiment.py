"""The page of an experiment: answers, neighbors and tables, from the files of its results."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from munkey.core.diverged import explain_divergence
from munkey.core.files import read_npz, read_table
from munkey.data import forget_sets, prepared
from munkey.data.prepared import Dataset
from munkey.encoders import keys
from munkey.evaluation.records import Evaluation
from munkey.explore.contents import FULL, Contents, NearRows, PageSamples, SystemAnswers
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
from munkey.settings import ExploreSettings

EXPLAINED = (
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
    "Some training pictures had to be forgotten. For single pictures, this page compares the answers of"
    " models before forgetting, after it, and of models that never saw them (oracles), all from the run"
    " `{run}`"
)
SAMPLINGS = {  # requests that are not random, by the sampling of their forget set
    "class": "whole classes",
    "cluster": "groups of look-alikes",
    "hard": "the hardest pictures",
    "medium": "pictures of medium difficulty",
    "easy": "the easiest pictures",
    "unit": "all pictures of a person or group",
}
CELLS = {"TA": "TA", "RA": "RA", "FA": "FA", "MIA": "MIA", "Avg Gap": "gap"}  # metrics by heading
AUDITED_KINDS = ("rows", "weights")  # of others the share is known without an audit
FINEST = 65535  # probabilities are stored in 16 bits


@dataclass(frozen=True)
class ResultFiles:
    """The files of an experiment that the page of a data set is made from.

    near: files of neighbors by the memory that was searched, `full` or SEED/REQUEST. audits,
    scenarios, streams: their table, if it was made.
    """

    images: Path
    keyfile: Path
    main_table: Path
    audits: list[Path]
    scenarios: list[Path]
    streams: list[Path]


@dataclass(frozen=True)
class Experiment:
    """The experiment, as planned.

    rests_on: number of neighbors that a system's answers rest on, if any. requests: those of
    scenarios, in words, by case.
    """

    name: str
    dataset: str
    runs: list[Evaluation]
    near: Mapping[str, Path]
    rows: list[Row]
    designs: list[Design]
    rests_on: Mapping[str, int]
    requests: Mapping[str, str]


def gather_contents(
    files: ResultFiles, experiment: Experiment, settings: ExploreSettings
) -> Contents:
    """Gather the contents of the page of a data set."""
    dataset = prepared.load(files.images.parent)
    forgotten = {}
    for run in experiment.runs:
        forgotten[make_request_key(run)] = forget_sets.read(Path(run.forget))
    near = {}
    for key, path in experiment.near.items():
        near[key] = neighbors.read(path, dataset.ids).truncate(settings.neighbors)
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
    answers = AnswerTable(dataset, ids)
    for run in experiment.runs:
        answers.add(run, forgotten[make_request_key(run)])
    return Contents(
        title=experiment.dataset,
        subtitle=SUBTITLE.format(run=experiment.name),
        scope=describe_scope(ids, dataset.ids, forgotten, near),
        classes=dataset.classes,
        samples=PageSamples(ids, dataset.labels[rows], dataset.splits[rows], points.x, points.y),
        projection=points.words,
        is_experiment=True,
        advice=write_advice(files, experiment),
        pictures=pictures,
        requests=list_requests(experiment),
        seeds=sorted({run.seed for run in experiment.runs}),
        systems=list_systems(experiment),
        answers=answers.shown,
        counts=answers.counts,
        correct=answers.correct,
        forgotten=positions,
        near=near_by_memory,
        designs=list_designs(files, experiment),
        streams=list_streams(files),
        words=explain_words([row.title for row in experiment.rows]),
        commands={"audits": "make audits", "scenarios": "make scenarios", "streams": STREAMS},
    )


STREAMS = "make run TARGET=streams"


def name_request(run: Evaluation) -> str:
    """Return the request of a run, without its seed."""
    return "/".join(filter(None, [run.case, f"rate{run.rate}"]))


def make_request_key(run: Evaluation) -> str:
    """Return the request of one seed: SEED/REQUEST."""
    return f"{run.seed}/{name_request(run)}"


def list_requests(experiment: Experiment) -> list[dict[str, Any]]:
    """List the requests to choose from, the main run's first, the largest rate first."""
    from munkey.evaluation.metrics import RANDOM  # heavy, and planning imports this file

    requests = {}
    for run in experiment.runs:
        words = f"{100 * float(run.rate):g} % of the training set"
        if run.case:
            sampling, _, listed = experiment.requests[run.case].partition(" ")
            drawn = listed or f"{100 * float(run.rate):g} %"
            words = f"{SAMPLINGS.get(sampling, sampling)} ({drawn})"
        elif run.sampling in RANDOM:
            words = f"{words}, at random"
        else:
            words = f"{words}, {run.sampling}"
        requests[name_request(run)] = {
            "key": name_request(run),
            "words": words,
            "case": run.case,
            "rate": float(run.rate),
        }
    return sorted(requests.values(), key=lambda each: (each["case"], -each["rate"]))


def explain_words(titles: Sequence[str]) -> dict[str, str]:
    """Explain columns, as the report's glossary does, and systems, by their titles."""
    from munkey.models.family import FAMILIES  # heavy, and planning imports this file

    words = {name: glossary.find_meaning(name) for name in EXPLAINED}
    for family in FAMILIES.values():
        if family.original_title in titles:
            words[family.original_title] = (
                f"{family.title} trained on everything, before unlearning"
            )
        if family.oracle_title in titles:
            words[family.oracle_title] = (
                f"the oracle of {family.title}: trained without the forget set, the reference"
            )
    words["oracle"] = "the same kind of model, trained from scratch without the forgotten pictures"
    words["key"] = (
        "the vector a frozen encoder computes for a picture; no deletion changes the encoder"
    )
    return words


def list_systems(experiment: Experiment) -> list[dict[str, Any]]:
    """List every system of the tables: its role, its original and its oracle."""
    originals = {}
    for row in experiment.rows:
        if row.context:
            originals[row.oracle] = row.name
    systems = []
    for row in experiment.rows:
        role = "method"
        if row.context:
            role = "original"
        elif row.oracle is None:
            role = "oracle"
        oracle = row.name if role == "oracle" else row.oracle
        systems.append(
            {
                "name": row.name,
                "title": row.title,
                "role": role,
                "oracle": oracle,
                "original": originals.get(oracle),
                "restsOn": experiment.rests_on.get(row.name, 0),
            }
        )
    return systems


def describe_scope(
    shown_ids: np.ndarray,
    all_ids: np.ndarray,
    forgotten: Mapping[str, np.ndarray],
    near: Mapping[str, neighbors.Neighbors],
) -> str:
    """Describe in sentences which samples the page shows, and by which rule."""
    if len(shown_ids) == len(all_ids):
        return f"All {len(shown_ids):,} pictures of the data set are shown."
    forgotten_ids = union_ids(forgotten.values())
    groups = rank_neighbors(all_ids, near, select_shown(forgotten, shown_ids))
    neighbor_ids = np.setdiff1d(union_ids(groups), forgotten_ids)
    others = "then neighbors of those"
    if not np.isin(neighbor_ids, shown_ids).all():
        others = "the nearest first"
    return (
        f"{len(shown_ids):,} of {len(all_ids):,} pictures are shown:"
        f" {format_shown_count(forgotten_ids, shown_ids)} that a request forgets,"
        f" {format_shown_count(neighbor_ids, shown_ids)} that are neighbors of these before or after forgetting,"
        f" {others}, and a random sample of the rest (fixed seed). Accuracies are of all pictures."
    )


def format_shown_count(ids: np.ndarray, shown_ids: np.ndarray) -> str:
    """Return in words how many of the ids are shown."""
    count = int(np.isin(ids, shown_ids).sum())
    if count == len(ids):
        return f"all {count:,}"
    return f"{count:,} of the {len(ids):,}"


def pack_neighbors(near: neighbors.Neighbors) -> NearRows:
    """Pack neighbors as the page stores them: ids in 16 bits if they fit."""
    dtype: type[np.int16] | type[np.int32] = np.int32
    if near.ids.max(initial=0) < np.iinfo(np.int16).max:
        dtype = np.int16
    return NearRows(near.ids.astype(dtype).ravel(), near.cosines.ravel(), near.ids.shape[1])


class AnswerTable:
    """Answers of systems, gathered one evaluation after the other."""

    def __init__(self, dataset: Dataset, ids: np.ndarray) -> None:
        """ids: of the samples whose answers are shown one by one."""
        self.dataset = dataset
        self.rows = dataset.rows(ids)
        self.shown: dict[str, SystemAnswers] = {}
        self.counts: dict[str, dict[str, list[int]]] = {}
        self.correct: dict[str, dict[str, list[int]]] = {}

    def add(self, run: Evaluation, forgotten: np.ndarray) -> None:
        """Add the answers of one system to all samples."""
        arrays = read_npz(run.logits)
        if not np.array_equal(arrays["ids"], self.dataset.ids):
            raise ValueError(f"{run.logits}: holds answers on other samples than the data set has")
        key = f"{make_request_key(run)}/{run.method}"
        top = arrays["logits"].argmax(axis=1)
        why = explain_divergence(arrays)
        self._count(run, top, forgotten)
        if f"/{FULL}/" in run.logits:
            key = f"{run.seed}/{FULL}/{run.method}"
        if key not in self.shown:
            smallest = np.min_scalar_type(len(self.dataset.classes))
            p_true = compute_true_class_probability(
                arrays["logits"][self.rows], self.dataset.labels[self.rows]
            )
            self.shown[key] = SystemAnswers(top[self.rows].astype(smallest), p_true, why)

    def _count(self, run: Evaluation, top: np.ndarray, forgotten: np.ndarray) -> None:
        """Count samples and correct answers by class, on all samples of each part."""
        is_forgotten = np.isin(self.dataset.ids, forgotten)
        parts = {
            "test": self.dataset.splits == "test",
            "retain": (self.dataset.splits == "train") & ~is_forgotten,
            "forget": is_forgotten,
        }
        labels = self.dataset.labels
        size = len(self.dataset.classes)
        counts = {}
        correct = {}
        for part, is_in_part in parts.items():
            counts[part] = np.bincount(labels[is_in_part], minlength=size).tolist()
            is_correct = is_in_part & (top == labels)
            correct[part] = np.bincount(labels[is_correct], minlength=size).tolist()
        self.counts[make_request_key(run)] = counts
        self.correct[f"{make_request_key(run)}/{run.method}"] = correct


def compute_true_class_probability(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute the softmax probability of each sample's true class, in 1/65535; 0 for NaN."""
    logits = logits.astype(np.float64)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    p_true = exponentials[np.arange(len(labels)), labels] / exponentials.sum(axis=1)
    return np.round(np.nan_to_num(p_true) * FINEST).astype(np.uint16)


def list_designs(files: ResultFiles, experiment: Experiment) -> list[dict[str, Any]]:
    """List each design after each request: cells of the tables, and the numbers behind them."""
    main = read_main(files.main_table)
    tables = [("", main[main["dataset"] == experiment.dataset])]
    for path in files.scenarios:
        scenarios = read_table(path)
        for case, part in scenarios.groupby("case", sort=False):
            tables.append((str(case), part))
    audit = read_table(files.audits[0]) if files.audits else None
    lines = []
    for case, summary in tables:
        for _, part in summary.groupby("rate", sort=False):
            rate = float(part["rate"].iloc[0])
            # An audit has its own forget set: its shares are shown with every request.
            points = frontier.collect_points(part, audit, experiment.designs)
            request = "/".join(filter(None, [case, f"rate{rate!r}"]))
            ranked = [row.name for row in experiment.rows if row.is_ranked]
            by_method = part.set_index("method")
            best = find_lowest_gap(by_method[by_method.index.isin(ranked)])
            for _, point in points.iterrows():
                lines.append(describe_design(point, request) | {"bold": point["name"] == best})
    return lines


def write_advice(files: ResultFiles, experiment: Experiment) -> str:
    """Write which design to deploy, in the words of the report: at the largest rate."""
    main = read_main(files.main_table)
    audit = read_table(files.audits[0]) if files.audits else None
    summary = main[main["dataset"] == experiment.dataset]
    return frontier.recommend_design(frontier.collect_points(summary, audit, experiment.designs))


def describe_design(point: Any, request: str) -> dict[str, Any]:
    """Describe one design after one request."""
    columns = [f"{metric}_mean" for metric in (*GAP_METRICS, "gap")]
    columns += ["TA_sd", "gap_sd", "share", "share_low", "share_high"]
    numbers = {}
    for column in columns:
        numbers[column.removesuffix("_mean")] = number_or_none(point.get(column, math.nan))
    seconds = number_or_none(point["seconds"])
    cells = {heading: format_cell(point, metric, "markdown") for heading, metric in CELLS.items()}
    cells["Seconds"] = ABSENT if seconds is None else format_two_digits(seconds)
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
        "audited": point["kind"] in AUDITED_KINDS and point["share_text"] != frontier.NOT_AUDITED,
        "cells": cells,
        **numbers,
    }


def number_or_none(value: Any) -> float | None:
    """Return the number; None if it is NaN or infinite, which JSON cannot hold."""
    if not math.isfinite(value):
        return None
    return float(value)


def list_streams(files: ResultFiles) -> Sequence[Mapping[str, Any]]:
    """List the points of the streams' curves: one per system, seed and number of requests."""
    lines = []
    for path in files.streams:
        for _, line in read_table(path).iterrows():
            lines.append(
                {
                    "name": line["name"],
                    "title": line["title"],
                    "seed": int(line["seed"]),
                    "done": int(line["done"]),
                    "RA": number_or_none(line["RA"]),
                    "TA": number_or_none(line["TA"]),
                }
            )
    return lines
