"""Search for the settings of closed-form families on validation data, never on test data."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.console import progress
from munkey.data import prepared
from munkey.data.image_set import image_set
from munkey.encoders import keys
from munkey.evaluation.metrics import compute_accuracy
from munkey.memory.neighbors import find_nearest
from munkey.models.family import FittedFamily, Retrieval
from munkey.settings import DataSettings

# Closed-form families read keys, not pixels, so these settings have no effect.
NO_PIXELS = DataSettings(image_size=1, pixel_mean=0.0, pixel_std=1.0)
NEIGHBORS = 100  # retrieved per query; must not be less than the largest k that is tried for KNN


class FittedCandidate(NamedTuple):
    """Settings and their scores on the validation samples.

    Attributes
    ----------
    loss
        The mean negative log-likelihood.
    accuracy
        The top-1 accuracy in percent.
    """

    settings: Mapping[str, object]
    loss: float
    accuracy: float


def search(folder: Path, keyfile: Path, family: FittedFamily) -> list[FittedCandidate]:
    """Score every combination of the values in `family.search_values`, smallest loss first.

    Each combination is fitted to the training samples and scored on the validation samples.

    Parameters
    ----------
    folder
        The folder of a prepared data set.
    keyfile
        The file with the keys of its samples.
    """
    dataset = prepared.load(folder)
    train = keys.read(keyfile, dataset.get_ids("train"))
    val = keys.read(keyfile, dataset.get_ids("val"))
    train_labels = dataset.labels[dataset.rows(train.ids)]
    samples = image_set(dataset, val.ids)
    retrieval = Retrieval(find_nearest(val, train, NEIGHBORS), keys=val.keys)
    candidates: list[FittedCandidate] = []
    names, values = zip(*family.search_values, strict=True)
    for combination in progress(list(product(*values)), family.name, "settings"):
        settings = dict(zip(names, combination, strict=True))
        section = family.read_section({family.name: settings})
        system = family.fit(train, train_labels, len(dataset.classes), section)
        logits = family.predict_logits(system, samples, NO_PIXELS, "cpu", retrieval)
        logits = logits.astype(np.float64)
        true_logits = logits[np.arange(len(logits)), samples.labels]
        loss = float(np.mean(np.logaddexp.reduce(logits, axis=1) - true_logits))
        candidates.append(FittedCandidate(settings, loss, compute_accuracy(logits, samples.labels)))
    return sorted(candidates, key=lambda candidate: candidate.loss)


def describe_candidates(candidates: list[FittedCandidate], count: int) -> list[str]:
    """Return one line for each of the first `count` candidates."""
    descriptions = []
    for candidate in candidates[:count]:
        settings = ", ".join(f"{name} {value}" for name, value in candidate.settings.items())
        descriptions.append(
            f"  {settings}: log-likelihood {-candidate.loss:.3f}, accuracy"
            f" {candidate.accuracy:.2f}%"
        )
    return descriptions
