"""Evaluation: the answers of a system to every sample, kept as logits; all metrics are measured from them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from munkey.core.device import Stopwatch
from munkey.core.files import write_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared
from munkey.data.image_set import image_set
from munkey.encoders import keys
from munkey.evaluation.metrics import accuracy
from munkey.evaluation.predict import Asked, predictions
from munkey.evaluation.streams import Answered, Asker, Stream, moments, stream_of
from munkey.experiment.run.job import now
from munkey.experiment.run.record import write_record
from munkey.jobs.unlearn import unlearn
from munkey.memory import neighbors as neighbor_files
from munkey.memory.neighbors import nearest
from munkey.models import system as systems
from munkey.models.family import FAMILIES, Family, FittedFamily, MemberKeys, Retrieval, System, Training
from munkey.models.training_inputs import Sections
from munkey.settings import DataSettings
from munkey.unlearn import prepare
from munkey.unlearn.contract import METHODS, Method, Request


def evaluate(
    images: Path,
    system: Path,
    logits: Path,
    settings: Sections,
    device: str,
    neighbors: Path | None = None,
    keyfile: Path | None = None,
    pool: list[Path] | None = None,
) -> None:
    """Write the logits of a system on every split; where it has pathways, also with either of them cut.

    settings: `data`, `inference`, and `audit` where it is asked in a second way for an audit. neighbors, keyfile: of a
    system with a memory, with which it is asked. pool: the two halves of an audit's pool; of the training set, these
    samples alone are asked about.
    """
    _answer(systems.load(system, device=device), images, logits, settings, device, neighbors, keyfile, pool or [])


def unlearn_audited(
    images: Path,
    original: Path,
    forget: Path,
    absent: Path,
    logits: Path,
    record: Path,
    method: str,
    dataset: str,
    seed: int,
    rate: str,
    settings: Sections,
    device: str,
    neighbors: Path | None = None,
    keyfile: Path | None = None,
    resident_share: float = 0.5,
) -> None:
    """In an audit, apply a method and ask what it leaves about the pool, `forget` and `absent`: all that is kept."""
    left = unlearn(
        images, original, forget, record, method, dataset, seed, rate, settings, device, absent, resident_share
    )
    _answer(left, images, logits, settings, device, neighbors, keyfile, [forget, absent])


def stream(
    images: Path,
    forget: Path,
    absent: Path,
    logits: Path,
    record: Path,
    method: str,
    dataset: str,
    seed: int,
    settings: Sections,
    requests: int,
    additions: list[int],
    depth: int,
    device: str,
    original: Path | None = None,
    keyfile: Path | None = None,
    resident_share: float = 0.5,
) -> None:
    """Forget one half of an audit's pool in `requests` requests, one after another, and ask after each.

    method: of unlearning, which starts from `original`, or an oracle, which is retrained for the first, the middle and
    the last request. logits: those of test samples and of the pool after each, and `request`, the number of that which
    forgets a sample, 0 for all others; record: seconds, RA and TA. additions: requests after which samples of the
    validation set come with their labels.
    """
    started, data, pair = now(), prepared.load(images.parent), seed // 2
    stage, split = Stage(dataset, "stream", pair), forget_sets.split(data, forget, absent)
    order = stream_of(split, data.ids_of("val"), requests, additions, stage / seed)
    held = keys.read(keyfile, data.ids) if keyfile else None
    ask = Asker(data, held, settings, depth, device)
    if method in METHODS:
        assert original
        found = _unlearned(order, ask, METHODS[method], original, dataset, seed, resident_share)
    else:
        found = list(_retrained(order, ask, method, dataset, seed))
    asked = np.isin(data.ids, np.concatenate([*order.requests, forget_sets.read(absent)])) | (data.splits == "test")
    number = np.zeros(len(data.ids), dtype=np.int64)
    for place, ids in enumerate(order.requests, 1):
        number[np.isin(data.ids, ids)] = place
    arrays = {"ids": data.ids, "labels": data.labels, "splits": data.splits, "request": number}
    answered = {"done": np.array([each.done for each in found]), "logits": np.stack([e.logits[asked] for e in found])}
    write_npz(logits, {name: values[asked] for name, values in arrays.items()} | answered)
    write_record(record, settings, device, started, [], {"moments": [_numbers(data, order, each) for each in found]})


def _unlearned(
    order: Stream, ask: Asker, applied: Method, original: Path, dataset: str, seed: int, resident_share: float
) -> list[Answered]:
    settings, device = ask.settings, ask.device
    recipe = prepare.recipe(applied, settings, seed, dataset)
    tuning, own = prepare.tuning(recipe, settings), applied.settings.model_validate(settings["method"])

    def forget(system: System, split: forget_sets.ForgetSplit, number: int) -> tuple[System, float]:
        parts = prepare.parts(applied, ask.dataset, split, device, resident_share)
        generator = Stage(seed, dataset, "unlearn", f"request {number}", applied.name).torch_generator()
        request = Request(split.forget, generator, device, print, applied.needs, parts, recipe, tuning)
        with Stopwatch(device) as watch:
            left = applied.run(system, request, own)
        print(f"request {number} of {len(order.requests)}: {watch.seconds:.2g} s")
        return left, watch.seconds

    return moments(order, prepare.original(applied, recipe, ask.dataset, original, device), forget, ask)


def _retrained(order: Stream, ask: Asker, oracle: str, dataset: str, seed: int) -> Iterator[Answered]:
    """What is trained anew on what is left after the first, the middle and the last request."""
    family = next(each for each in FAMILIES.values() if each.oracle == oracle)
    last = len(order.requests)
    for done in sorted({1, (last + 1) // 2, last}):
        ids = np.union1d(order.members(done), order.additions(done))
        with Stopwatch(ask.device) as watch:
            trained = _trained(family, ids, ask, family.stage(seed, dataset, f"stream{done}"))
        yield Answered(done, watch.seconds, ask.answers(trained, ids[:0]))


def _trained(family: Family, ids: np.ndarray, ask: Asker, stage: Stage) -> System:
    samples = image_set(ask.dataset, ids)
    if isinstance(family, FittedFamily):
        return family.fitted(ask.of(ids), samples.labels, len(ask.dataset.classes), family.section(ask.settings))
    recipe, members = family.recipe(ask.settings, stage), None
    if family.has_memory and recipe.family:
        own, count = ask.of(ids), max(family.neighbors_read(recipe.family).values())
        members = MemberKeys(own.keys, neighbor_files.without_self(nearest(own, own, count + 1), ids, count))
    return family.train(Training(samples, len(ask.dataset.classes), recipe, ask.device, members=members)).system


def _numbers(data: prepared.Dataset, order: Stream, moment: Answered) -> dict[str, float]:
    """RA is that of the training samples that are left then."""
    left, test = np.isin(data.ids, order.members(moment.done)), data.splits == "test"
    accuracies = [accuracy(moment.logits[rows], data.labels[rows]) for rows in (left, test)]
    return {"done": moment.done, "seconds": moment.seconds, "RA": accuracies[0], "TA": accuracies[1]}


def _answer(
    system: System,
    images: Path,
    logits: Path,
    settings: Sections,
    device: str,
    neighbors: Path | None,
    keyfile: Path | None,
    pool: list[Path],
) -> None:
    dataset = prepared.load(images.parent)
    audited = np.concatenate([dataset.ids[dataset.splits != "train"], *map(forget_sets.read, pool)])
    ids = np.sort(audited) if pool else dataset.ids
    asked_keys, other = keys.read(keyfile, ids).keys if keyfile else None, None
    retrieval = Retrieval(None, keys=asked_keys) if keyfile else None
    if system.memory is not None and neighbors:
        near, family = neighbor_files.read(neighbors, ids), FAMILIES[system.family]
        retrieval = family.retrieval(near, settings["inference"], asked_keys)
        if second := settings.get("audit"):
            other = family.retrieval(near, {**settings["inference"], **second}, asked_keys)
    data, asked = DataSettings(**settings["data"]), Asked(ids, retrieval, other)
    write_npz(logits, predictions(system, dataset, asked, data, device))
