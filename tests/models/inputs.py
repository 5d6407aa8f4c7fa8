"""Small samples, settings and trainings that the tests of models share."""

import numpy as np
import torch

from munkey.core.randomness import Stage
from munkey.data.resample import resize
from munkey.encoders.keys import Keys
from munkey.memory.exemplars import ExemplarMemory
from munkey.memory.neighbors import Neighbors, drop_self, find_nearest
from munkey.models.family import (
    FAMILIES,
    FittedFamily,
    MemberKeys,
    Recipe,
    Retrieval,
    System,
    Training,
    TrainingResult,
)
from munkey.settings import DataSettings
from tests.conftest import image_set, unit_rows

STAGE = Stage(0, "toy", "full")
# unlike each other: one cannot pass for the other
DATA = DataSettings(image_size=8, pixel_mean=0.4, pixel_std=0.2)
# of seven samples; the memory holds 10, 12, ..., 20
QUERIES = Keys(10 + 2 * np.arange(7), unit_rows(7, 4, seed=9))

SECTIONS = {
    "knn": {"k": 4, "vote": "equal", "temperature": 0.07},
    "lda": {"alpha": 0.2, "temperature": 5.0},
    "ncm": {"temperature": 0.05},
    "ranpac": {"features": 24, "seed": 1, "lam": 0.1, "temperature": 0.2},
    "krr": {"lam": 0.1, "temperature": 0.2, "pixels": 0, "sigma": 0.4, "share": 0.5},
    "newton": {"lam": 0.01, "sigma": 0.1},
}
# the families whose deletion gives the oracle, to the bit
EXACT = [
    name for name in FAMILIES if isinstance(FAMILIES[name], FittedFamily) and FAMILIES[name].exact
]


def quiet(_):
    """Report nothing."""


def seven_samples():
    """Images larger than the model's input."""
    return image_set(7, side=10)


def normalized(samples):
    """Images (S, 3, 8, 8) as a model reads them at test time."""
    images, _ = samples.batch(torch.arange(len(samples)), "cpu")
    return (resize(images, 8) - 0.4) / 0.2


def retrieval(memory: ExemplarMemory, settings) -> Retrieval:
    """The neighbors of the seven samples, six each."""
    return Retrieval(
        find_nearest(QUERIES, Keys(memory.ids.numpy(), memory.keys.numpy()), 6), settings
    )


def answered(system: System, samples, queries: Retrieval | None = None) -> np.ndarray:
    """The logits of a system on the CPU."""
    return FAMILIES[system.family].predict_logits(system, samples, DATA, "cpu", queries)


def fitted(family: str, keys: Keys, labels, classes: int = 3, **settings) -> System:
    """A system of keys and labels. settings: changes of the family's section of params.yaml."""
    kind = FAMILIES[family]
    return kind.fit(
        keys,
        np.array(labels),
        classes,
        kind.read_section({family: SECTIONS[family] | settings}),
        STAGE,
    )


def member_keys(ids: np.ndarray, count: int = 4) -> MemberKeys:
    """Random keys of samples, and their nearest others."""
    keys = Keys(ids, unit_rows(len(ids), 4))
    return MemberKeys(keys.keys, others(keys, count))


def others(keys: Keys, count: int) -> Neighbors:
    """The nearest others of each sample."""
    return drop_self(find_nearest(keys, keys, count + 1), keys.ids, count)


def recipe(
    params, family: str, stage: Stage = STAGE, train=None, others=None, **of_family
) -> Recipe:
    """The recipe of a family. train: changes of the section `train`; of_family: of the family's own section;
    others: further sections.
    """
    sections = params.model_dump(
        include={"model", "train", "munkey", "sisa", "example-tied-dropout", "spm"}
    ) | {"data": DATA.model_dump()}
    sections["train"] |= train or {}
    sections |= others or {}
    sections.get(family, {}).update(of_family)
    return FAMILIES[family].make_recipe(sections, stage)


def trained(recipe_of_family: Recipe, family: str, samples=None, **more) -> TrainingResult:
    """Train on a dozen random images, or on `samples`. more: further fields of the training."""
    samples = samples or image_set(12)
    members = member_keys(samples.ids) if family == "munkey" else None
    return FAMILIES[family].train(
        Training(samples, 3, recipe_of_family, "cpu", quiet, members, **more)
    )
