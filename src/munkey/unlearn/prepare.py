"""Prepare a method's inputs: its original, the data that it may use, and how to fine-tune."""

import importlib
from pathlib import Path

from munkey.data.augment import Augmentation
from munkey.data.forget_sets import ForgetSplit
from munkey.data.image_set import ImageSet, image_set, move_to_gpu_if_it_fits
from munkey.data.prepared import Dataset
from munkey.models import system
from munkey.models.family import Recipe, System
from munkey.settings import FinetuneSettings, NetworkName, Sections
from munkey.unlearn.contract import METHODS, Method, Tuning


def find_method(name: str, sections: Sections) -> Method:
    """Find a method by name, for the network in the sections if there is one."""
    method = METHODS[name]
    if "network" not in sections:
        return method
    network = NetworkName.parse(sections["network"]).name
    return method.for_network(network)


def make_recipe(method: Method, sections: Sections, seed: object, dataset: str) -> Recipe | None:
    """Make the recipe of the original's training; None for a family that is not trained."""
    family = method.original
    if not family.learns:
        return None
    return family.make_recipe(sections, family.make_stage(seed, dataset, "full"))


def load_original(
    method: Method, recipe: Recipe | None, dataset: Dataset, file: str | Path, device: str
) -> System:
    """Load the original. Raises ValueError if its architecture differs from the recipe's."""
    expected = None
    if recipe:
        expected = method.original.make_architecture(recipe, len(dataset.classes))
    return system.load(file, expected, device)


def make_parts(
    method: Method, dataset: Dataset, split: ForgetSplit, device: str, resident_share: float
) -> dict[str, ImageSet]:
    """Make the retain, forget and validation sets. Declared images are moved to the GPU."""
    ids = {"retain": split.retain, "forget": split.forget, "val": dataset.get_ids("val")}
    declared: frozenset[str] = method.needs
    sets = {}
    for part, part_ids in ids.items():
        sets[part] = image_set(dataset, part_ids)
        if f"{part} images" in declared:
            sets[part] = move_to_gpu_if_it_fits(sets[part], device, resident_share)
    return sets


def make_tuning(recipe: Recipe | None, sections: Sections) -> Tuning | None:
    """Make the fine-tuning settings; None for a method that does not fine-tune."""
    if recipe is None or "finetune" not in sections:
        return None
    # Imported now, so that a method's measured time does not include it: a process's first
    # optimizer imports torch._dynamo, which takes seconds.
    for name in ("torch._dynamo", "munkey.training.loop", "munkey.unlearn.finetune"):
        importlib.import_module(name)
    settings = FinetuneSettings.parse(sections["finetune"])
    return Tuning(
        settings=settings,
        base_lr=recipe.train.lr,
        augment=Augmentation.from_settings(recipe.data, recipe.train),
        precision=recipe.train.precision,
    )
