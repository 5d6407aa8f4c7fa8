"""Search for the constants of a family that is fitted, on validation data alone: no test sample takes part."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.console import progress
from munkey.data import prepared
from munkey.data.image_set import image_set
from munkey.encoders import keys
from munkey.evaluation.metrics import accuracy
from munkey.memory.neighbors import nearest
from munkey.models.family import FittedFamily, Retrieval
from munkey.settings import DataSettings

ANYTHING = DataSettings(image_size=1, pixel_mean=0.0, pixel_std=1.0)  # these families read no pixels


class FittedCandidate(NamedTuple):
    """Constants, with the mean negative log-likelihood of the validation samples, and their accuracy in percent."""

    settings: Mapping[str, object]
    loss: float
    accuracy: float


def search(folder: Path, keyfile: Path, family: FittedFamily) -> list[FittedCandidate]:
    """Every combination of the family's `tried`, fitted to the training samples; the smallest loss first."""
    dataset = prepared.load(folder)
    train, val = (keys.read(keyfile, dataset.ids_of(split)) for split in ("train", "val"))
    labels, samples = dataset.labels[dataset.rows(train.ids)], image_set(dataset, val.ids)
    asked = Retrieval(nearest(val, train, 100), keys=val.keys)
    found: list[FittedCandidate] = []
    names, values = zip(*family.tried, strict=True)
    for chosen in progress(list(product(*values)), family.name, "settings"):
        settings = dict(zip(names, chosen, strict=True))
        system = family.fitted(train, labels, len(dataset.classes), family.section({family.name: settings}))
        logits = family.logits(system, samples, ANYTHING, "cpu", asked).astype(np.float64)
        right = logits[np.arange(len(logits)), samples.labels]
        loss = float(np.mean(np.logaddexp.reduce(logits, axis=1) - right))
        found.append(FittedCandidate(settings, loss, accuracy(logits, samples.labels)))
    return sorted(found, key=lambda each: each.loss)


def lines(found: list[FittedCandidate], count: int) -> list[str]:
    """The best ones, a line each."""
    return [
        f"  {', '.join(f'{name} {value}' for name, value in each.settings.items())}: log-likelihood {-each.loss:.3f},"
        f" accuracy {each.accuracy:.2f} %"
        for each in found[:count]
    ]
