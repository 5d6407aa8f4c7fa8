"""Evaluation: the answers of a system to every sample, kept as logits; all metrics are measured from them."""

from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.diverged import DIVERGED, DivergedError, make_nan_logits
from munkey.core.files import read_json, write_npz
from munkey.data import forget_sets, prepared
from munkey.data.prepared import Dataset
from munkey.encoders import keys
from munkey.evaluation.predict import Queries, predict_samples
from munkey.experiment.run.job import Surroundings
from munkey.jobs.unlearn import unlearn
from munkey.memory import neighbors as neighbor_files
from munkey.models import system as systems
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.models.training_inputs import SampleFiles
from munkey.settings import DataSettings, InferenceSettings, Sections


def evaluate(
    files: SampleFiles,
    system: Path,
    logits: Path,
    settings: Sections,
    around: Surroundings,
    pool: list[Path] | None = None,
) -> None:
    """Write the logits of a system on every split; where it has pathways, also with either of them cut.

    A system that diverged answers NaN, with the reason.

    Parameters
    ----------
    settings
        The sections `data` and `inference`, and `audit` if an audit asks in a second way.
    pool
        The two halves of an audit's pool. Of the training set, only these samples are evaluated.
    """
    try:
        loaded = systems.load(system, device=around.device)
    except DivergedError as error:
        _answer_nothing(files.images, logits, pool or [], str(error))
    else:
        _answer(loaded, files, logits, settings, around, pool or [])


def unlearn_audited(
    files: SampleFiles,
    original: Path,
    logits: Path,
    record: Path,
    method: str,
    dataset: str,
    seed: int,
    rate: str,
    settings: Sections,
    around: Surroundings,
) -> None:
    """Apply a method in an audit and keep only its answers on the pool, `forget` and `absent`."""
    assert files.forget and files.absent, (
        "a model of an audit forgets one half of a pool and never sees the other"
    )
    pool = [files.forget, files.absent]
    unlearned = unlearn(files, original, record, method, dataset, seed, rate, settings, around)
    if unlearned is None:
        _answer_nothing(files.images, logits, pool, read_json(record)[DIVERGED])
    else:
        _answer(unlearned, files, logits, settings, around, pool)


def _answer(
    system: System,
    files: SampleFiles,
    logits: Path,
    settings: Sections,
    around: Surroundings,
    pool: list[Path],
) -> None:
    """Write the answers of a system."""
    dataset = prepared.load(files.images.parent)
    ids = _select_ids(dataset, pool)
    query_keys = None
    retrieval = None
    audit_retrieval = None
    if files.keyfile:
        query_keys = keys.read(files.keyfile, ids).keys
        retrieval = Retrieval(None, keys=query_keys)
    if system.memory is not None and files.neighbors:
        near = neighbor_files.read(files.neighbors, ids)
        family = FAMILIES[system.family]
        retrieval = family.make_retrieval(near, settings["inference"], query_keys)
        if "audit" in settings:
            knobs = {**dict(settings["inference"]), **dict(settings["audit"])}
            inference = InferenceSettings.model_validate(knobs)
            audit_retrieval = family.make_retrieval(near, inference, query_keys)
    data_settings = DataSettings.parse(settings["data"])
    queries = Queries(ids, retrieval, audit_retrieval)
    arrays = predict_samples(system, dataset, queries, data_settings, around.device)
    if not np.isfinite(arrays["logits"]).all():
        why = DivergedError("answers are not finite, though the weights are").reason(around.log)
        warn(f"diverged: {why}")
        arrays |= {DIVERGED: np.array(why)}
    write_npz(logits, arrays)


def _select_ids(dataset: Dataset, pool: list[Path]) -> np.ndarray:
    """Return the sorted ids of all samples, or of val, test and a pool."""
    if not pool:
        return dataset.ids
    held_out_ids = dataset.ids[dataset.splits != "train"]
    pool_ids = map(forget_sets.read, pool)
    return np.sort(np.concatenate([held_out_ids, *pool_ids]))


def _answer_nothing(images: Path, logits: Path, pool: list[Path], why: str) -> None:
    """Write NaN for all answers of a system that diverged."""
    dataset = prepared.load(images.parent)
    ids = _select_ids(dataset, pool)
    rows = dataset.rows(ids)
    arrays = {"ids": ids, "labels": dataset.labels[rows], "splits": dataset.splits[rows]}
    if dataset.units:
        arrays["units"] = np.array([dataset.units[row] or "" for row in rows])
    write_npz(logits, make_nan_logits(arrays, len(dataset.classes), why))
