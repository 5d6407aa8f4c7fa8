"""Search for the number of neighbors and their weights, by leave-one-out log loss.

Each training sample is predicted from the memory's other rows, without validation or test samples.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.console import progress
from munkey.core.files import read_json
from munkey.data import prepared
from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.encoders import keys
from munkey.encoders.keys import Keys
from munkey.evaluation.metrics import compute_accuracy
from munkey.memory.neighbors import Neighbors, drop_self, find_nearest
from munkey.models import system as systems
from munkey.models.family import FAMILIES, Family, FittedFamily, Retrieval, System
from munkey.settings import DataSettings, InferenceSettings

# Closed-form families read keys, not pixels, so these settings have no effect.
NO_PIXELS = DataSettings(image_size=1, pixel_mean=0.0, pixel_std=1.0)
MAX_LEFT_OUT = 4096  # rows to predict; more would hardly change the result


class ScoredSettings(NamedTuple):
    """Settings with their mean log loss and accuracy [%] on left-out training samples."""

    settings: Mapping[str, object]
    loss: float
    accuracy: float


class LeftOut(NamedTuple):
    """The training samples to predict, and their neighbors among the other training samples."""

    ids: np.ndarray
    neighbors: Neighbors


def search_fitted(folder: Path, keyfile: Path, family: FittedFamily) -> list[ScoredSettings]:
    """Score all settings in `family.search_settings` on a prepared data set, smallest loss first."""
    dataset = prepared.load(folder)
    train = keys.read(keyfile, dataset.get_ids("train"))
    labels = dataset.labels[dataset.rows(train.ids)]
    left_out = _leave_out(train, family)
    candidates = []
    for settings in progress(family.search_settings, family.name, "settings"):
        section = family.read_section({family.name: settings})
        system = family.fit(train, labels, len(dataset.classes), section)
        retrieval = Retrieval(left_out.neighbors)
        candidates.append(_score(dataset, [system], left_out, retrieval, settings, NO_PIXELS))
    return sorted(candidates, key=lambda candidate: candidate.loss)


def search_inference(folder: Path, keyfile: Path, files: Sequence[Path]) -> list[ScoredSettings]:
    """Score all settings of `inference` for originals of one family, smallest loss first.

    `files` has one original for each seed. Raises ValueError for a system with an added head, which
    is fitted to all rows.
    """
    dataset = prepared.load(folder)
    train = keys.read(keyfile, dataset.get_ids("train"))
    trained = [_load_without_head(file) for file in files]
    family = FAMILIES[trained[0].family]
    record = read_json(files[0].with_name("record.json"))
    data = DataSettings.parse(record["settings"]["data"])
    left_out = _leave_out(train, family)
    candidates = []
    for settings in progress(family.search_settings, family.name, "settings"):
        retrieval = Retrieval(left_out.neighbors, InferenceSettings.parse(settings))
        candidates.append(_score(dataset, trained, left_out, retrieval, settings, data))
    return sorted(candidates, key=lambda candidate: candidate.loss)


def _load_without_head(file: Path) -> System:
    """Load a system. Raises ValueError if it has an added head."""
    system = systems.load(file)
    if getattr(system.architecture, "head", None) is not None:
        raise ValueError(
            f"{file}: munkey.head adds logits that are fitted to all rows, so no row can be left"
            " out; search with a MUNKEY without a head"
        )
    return system


def _leave_out(train: Keys, family: Family) -> LeftOut:
    """Choose at most MAX_LEFT_OUT training samples to predict, evenly, and find their neighbors."""
    count = max(int(str(settings["k"])) for settings in family.search_settings)
    step = math.ceil(len(train.ids) / MAX_LEFT_OUT)
    queries = Keys(train.ids[::step], train.keys[::step])
    nearest = find_nearest(queries, train, count + 1)
    return LeftOut(queries.ids, drop_self(nearest, queries.ids, count))


def _score(
    dataset: Dataset,
    candidate_systems: Iterable[System],
    left_out: LeftOut,
    retrieval: Retrieval,
    settings: Mapping[str, object],
    data: DataSettings,
) -> ScoredSettings:
    """Score settings on left-out training samples, as an average over systems."""
    samples = image_set(dataset, left_out.ids)
    losses = []
    accuracies = []
    for system in candidate_systems:
        family = FAMILIES[system.family]
        logits = family.predict_logits(system, samples, data, "cpu", retrieval)
        logits = logits.astype(np.float64)
        true_logits = logits[np.arange(len(logits)), samples.labels]
        losses.append(np.mean(np.logaddexp.reduce(logits, axis=1) - true_logits))
        accuracies.append(compute_accuracy(logits, samples.labels))
    return ScoredSettings(settings, float(np.mean(losses)), float(np.mean(accuracies)))


def describe_candidates(candidates: Sequence[ScoredSettings], count: int) -> list[str]:
    """Return one line for each of the first `count` candidates."""
    descriptions = []
    for candidate in candidates[:count]:
        settings = ", ".join(f"{name} {value}" for name, value in candidate.settings.items())
        descriptions.append(
            f"  {settings}: log-likelihood {-candidate.loss:.3f}, accuracy"
            f" {candidate.accuracy:.2f}%"
        )
    return descriptions
