"""The job of a stream: forgets one half of an audit's pool in several requests."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.device import Stopwatch
from munkey.core.diverged import DIVERGED, DivergedError
from munkey.core.files import write_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared
from munkey.data.image_set import image_set
from munkey.encoders import keys
from munkey.evaluation.metrics import compute_accuracy
from munkey.experiment.run.job import Surroundings
from munkey.experiment.run.record import now, write_record
from munkey.memory import neighbors as neighbor_files
from munkey.memory.neighbors import find_nearest
from munkey.models import system as systems
from munkey.models import training_inputs
from munkey.models.family import FAMILIES, Family, FittedFamily, MemberKeys, System, Training
from munkey.models.training_inputs import SampleFiles
from munkey.settings import Sections
from munkey.studies.streams.stream import (
    Stream,
    StreamEvaluation,
    StreamEvaluator,
    draw_stream,
    evaluate_stream,
)
from munkey.unlearn import prepare
from munkey.unlearn.contract import METHODS, Method


@dataclass(frozen=True)
class RequestSeries:
    """The settings of a stream of requests, with additions between requests.

    Attributes
    ----------
    requests
        How many requests there are.
    additions
        The numbers of the requests after which labeled validation samples are added.
    depth
        How many neighbors of each sample are looked up.
    """

    requests: int
    additions: list[int]
    depth: int


def stream(
    files: SampleFiles,
    logits: Path,
    record: Path,
    method: str,
    dataset: str,
    seed: int,
    settings: Sections,
    series: RequestSeries,
    around: Surroundings,
    original: Path | None = None,
) -> None:
    """Forget one half of an audit's pool in several requests, and evaluate the model after each.

    If a model diverges, the outputs have the reason instead of results.

    Parameters
    ----------
    logits
        The output: the logits of test samples and of the pool after each evaluated request, and
        `request`, the number of the request that forgets a sample (0 if none does).
    record
        The output: seconds, RA and TA after each evaluated request.
    method
        An unlearning method, which starts from `original`, or an oracle, which is retrained after
        the first, the middle and the last request.
    """
    assert files.forget and files.absent, (
        "a stream forgets one half of a pool and never sees the other"
    )
    start_time = now()
    data = prepared.load(files.images.parent)
    device = around.device
    stage = Stage(dataset, "stream", seed // 2)
    split = forget_sets.split(data, files.forget, files.absent)
    order = draw_stream(split, data.get_ids("val"), series.requests, series.additions, stage / seed)
    all_keys = None
    if files.keyfile:
        all_keys = keys.read(files.keyfile, data.ids)
    evaluator = StreamEvaluator(data, all_keys, settings, series.depth, device)
    try:
        if method in METHODS:
            assert original
            applied = prepare.find_method(method, settings)
            predictions = _unlearn_stream(
                order, evaluator, applied, original, dataset, seed, around.resident_share
            )
        else:
            selected = training_inputs.read_selected_knobs(files.selected)
            predictions = list(_retrain_stream(order, evaluator, method, dataset, seed, selected))
    except DivergedError as error:
        why = error.reason(around.log)
        warn(f"diverged: {why}")
        write_npz(logits, {DIVERGED: np.array(why)})
        write_record(record, settings, device, start_time, [], {DIVERGED: why})
        return
    pool = np.concatenate([*order.requests, forget_sets.read(files.absent)])
    write_npz(logits, _make_logits_arrays(data, order, pool, predictions))
    facts = {"moments": [_measure_moment(data, order, moment) for moment in predictions]}
    write_record(record, settings, device, start_time, [], facts)


def _make_logits_arrays(
    data: prepared.Dataset, order: Stream, pool: np.ndarray, predictions: list[StreamEvaluation]
) -> dict[str, np.ndarray]:
    """Make the arrays of the output `logits`, for test samples and the pool's samples."""
    is_query = np.isin(data.ids, pool) | (data.splits == "test")
    request_numbers = np.zeros(len(data.ids), dtype=np.int64)
    for number, ids in enumerate(order.requests, 1):
        request_numbers[np.isin(data.ids, ids)] = number
    return {
        "ids": data.ids[is_query],
        "labels": data.labels[is_query],
        "splits": data.splits[is_query],
        "request": request_numbers[is_query],
        "done": np.array([moment.done for moment in predictions]),
        "logits": np.stack([moment.logits[is_query] for moment in predictions]),
    }


def _unlearn_stream(
    order: Stream,
    evaluator: StreamEvaluator,
    applied: Method,
    original: Path,
    dataset: str,
    seed: int,
    resident_share: float,
) -> list[StreamEvaluation]:
    """Apply a method to one request after another. Returns an evaluation after each."""
    settings = evaluator.settings
    device = evaluator.device
    recipe = prepare.make_recipe(applied, settings, seed, dataset)
    tuning = prepare.make_tuning(recipe, settings)

    def forget(system: System, split: forget_sets.ForgetSplit, number: int) -> tuple[System, float]:
        sets = prepare.make_sets(applied, evaluator.dataset, split, device, resident_share)
        stage = Stage(seed, dataset, "unlearn", f"request {number}", applied.name)
        request = prepare.make_request(applied, split, sets, stage, recipe, tuning, device)
        with Stopwatch(device) as watch:
            unlearned = systems.require_finite(applied.unlearn(system, request, settings["method"]))
        print(f"request {number} of {len(order.requests)}: {watch.seconds:.2g} s")
        return unlearned, watch.seconds

    system = prepare.load_original(applied, recipe, evaluator.dataset, original, device)
    return evaluate_stream(order, system, forget, evaluator)


def _retrain_stream(
    order: Stream,
    evaluator: StreamEvaluator,
    oracle: str,
    dataset: str,
    seed: int,
    selected: Mapping[str, float] | None,
) -> Iterator[StreamEvaluation]:
    """Retrain an oracle after the first, middle and last request, and yield its evaluations."""
    family = next(family for family in FAMILIES.values() if family.oracle == oracle)
    last = len(order.requests)
    for done in sorted({1, (last + 1) // 2, last}):
        ids = np.union1d(order.get_members(done), order.get_additions(done))
        stage = family.make_stage(seed, dataset, f"stream{done}")
        with Stopwatch(evaluator.device) as watch:
            trained = _train(family, ids, evaluator, stage, selected)
        # The oracle was trained on the additions, so none are added to its memory here.
        logits = evaluator.predict_logits(trained, ids[:0])
        yield StreamEvaluation(done, watch.seconds, logits)


def _train(
    family: Family,
    ids: np.ndarray,
    evaluator: StreamEvaluator,
    stage: Stage,
    selected: Mapping[str, float] | None = None,
) -> System:
    """Train (or fit) a system of a family on these samples. selected: p_image and p_token."""
    samples = image_set(evaluator.dataset, ids)
    if isinstance(family, FittedFamily):
        head = family.fit(
            evaluator.select_keys(ids),
            samples.labels,
            len(evaluator.dataset.classes),
            family.read_section(evaluator.settings),
            stage,
        )
        return head.to(evaluator.device)
    recipe = family.make_recipe(evaluator.settings, stage, selected)
    members = None
    if family.has_memory and recipe.family:
        memory = evaluator.select_keys(ids)
        count = max(family.count_neighbors(recipe.family).values())
        # Every sample is its own nearest neighbor, so look up one more, and drop the sample itself.
        near = find_nearest(memory, memory, count + 1)
        members = MemberKeys(memory.keys, neighbor_files.drop_self(near, ids, count))
    training = Training(
        samples, len(evaluator.dataset.classes), recipe, evaluator.device, members=members
    )
    return family.train(training).system


def _measure_moment(
    data: prepared.Dataset, order: Stream, moment: StreamEvaluation
) -> dict[str, float]:
    """Compute RA and TA, the accuracies on the remaining training samples and the test samples."""
    is_retained = np.isin(data.ids, order.get_members(moment.done))
    is_test = data.splits == "test"
    return {
        "done": moment.done,
        "seconds": moment.seconds,
        "RA": compute_accuracy(moment.logits[is_retained], data.labels[is_retained]),
        "TA": compute_accuracy(moment.logits[is_test], data.labels[is_test]),
    }
