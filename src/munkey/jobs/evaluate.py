"""Evaluation: writes the logits of a system, from which all metrics are computed."""

from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.device import to_host
from munkey.core.diverged import DIVERGED, DivergedError, make_nan_logits
from munkey.core.files import read_json, write_npz
from munkey.core.ids import NO_NEIGHBOR
from munkey.data import forget_sets, prepared
from munkey.encoders import keys
from munkey.encoders.keys import Keys
from munkey.evaluation.predict import Queries, predict_samples
from munkey.experiment.run.job import Surroundings
from munkey.jobs.unlearn import unlearn
from munkey.memory import neighbors as neighbor_files
from munkey.memory.neighbors import find_nearest
from munkey.models import system as systems
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.models.training_inputs import SampleFiles
from munkey.settings import DataSettings, FurtherPaths, InferenceSettings, Section, Sections


def evaluate(
    files: SampleFiles,
    system: Path,
    logits: Path,
    settings: Sections,
    around: Surroundings,
    pool: list[Path] | None = None,
) -> None:
    """Write the logits of a system on all splits; if it has pathways, also with each of them cut.

    If the system diverged, all logits are NaN, and the reason is written with them.

    Parameters
    ----------
    settings
        The sections `data` and `inference`. In an audit of a system with pathways, `audit` contains
        the inference settings for a second set of logits, and `paths` names further paths.
    pool
        The two halves of an audit's pool. If given, other training samples are not evaluated.
    """
    try:
        loaded = systems.load(system, device=around.device)
    except DivergedError as error:
        _write_nan_logits(files.images, logits, pool or [], str(error))
    else:
        _write_logits(loaded, files, logits, settings, around, pool or [])


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
    """Apply a method in an audit, and write the logits of the unlearned system, but not the system.

    Of the training samples, only those in the pool (`forget` and `absent`) are evaluated.
    """
    assert files.forget and files.absent, (
        "a model of an audit forgets one half of a pool and never sees the other"
    )
    pool = [files.forget, files.absent]
    unlearned = unlearn(files, original, record, method, dataset, seed, rate, settings, around)
    if unlearned is None:
        _write_nan_logits(files.images, logits, pool, read_json(record)[DIVERGED])
    else:
        _write_logits(unlearned, files, logits, settings, around, pool)


def _write_logits(
    system: System,
    files: SampleFiles,
    logits: Path,
    settings: Sections,
    around: Surroundings,
    pool: list[Path],
) -> None:
    """Write the logits of a system."""
    dataset = prepared.load(files.images.parent)
    ids = forget_sets.select_evaluated_ids(dataset, pool)
    query_keys = None
    retrieval = None
    audit_retrieval = None
    if files.keyfile:
        query_keys = keys.read(files.keyfile, ids).keys
        retrieval = Retrieval(None, keys=query_keys)
    if system.memory is not None and files.neighbors:
        near = neighbor_files.read_neighbors(files.neighbors, ids)
        family = FAMILIES[system.family]
        retrieval = family.make_retrieval(near, settings["inference"], query_keys)
        if "audit" in settings:
            knobs = {**dict(settings["inference"]), **dict(settings["audit"])}
            inference = InferenceSettings.model_validate(knobs)
            audit_retrieval = family.make_retrieval(near, inference, query_keys)
    data_settings = DataSettings.parse(settings["data"])
    paths = []
    perturbed_retrieval = None
    if "paths" in settings:
        paths = FurtherPaths.parse(settings["paths"]).names
    if files.perturbed_keys:
        perturbed_keys = keys.read(files.perturbed_keys, ids).keys
        perturbed_retrieval = _retrieve(system, perturbed_keys, settings["inference"])
    queries = Queries(ids, retrieval, audit_retrieval, paths, perturbed_retrieval)
    arrays = predict_samples(system, dataset, queries, data_settings, around.device)
    if not np.isfinite(arrays["logits"]).all():
        why = DivergedError("logits are not finite, but the weights are").reason(around.log)
        warn(f"diverged: {why}")
        arrays |= {DIVERGED: np.array(why)}
    write_npz(logits, arrays)


def _retrieve(system: System, query_keys: np.ndarray, inference: Section) -> Retrieval:
    """Return the inputs of a prediction for new pictures with these keys (S, d)."""
    family = FAMILIES[system.family]
    if family.asks_keys:
        return Retrieval(None, keys=query_keys)
    memory = system.require_memory()
    members = Keys(to_host(memory.ids).numpy(), to_host(memory.keys).numpy())
    # Without an id, a picture is not recognized as a row of the memory.
    new_pictures = Keys(np.full(len(query_keys), NO_NEIGHBOR), query_keys)
    near = find_nearest(new_pictures, members, InferenceSettings.parse(inference).k)
    return family.make_retrieval(near, inference, query_keys)


def _write_nan_logits(images: Path, logits: Path, pool: list[Path], why: str) -> None:
    """Write NaN for all logits of a system that diverged, and the reason."""
    dataset = prepared.load(images.parent)
    ids = forget_sets.select_evaluated_ids(dataset, pool)
    rows = dataset.rows(ids)
    arrays = {"ids": ids, "labels": dataset.labels[rows], "splits": dataset.splits[rows]}
    if dataset.units:
        arrays["units"] = np.array([dataset.units[row] or "" for row in rows])
    write_npz(logits, make_nan_logits(arrays, len(dataset.classes), why))
