"""What a method starts from: its original, and the data that it may use."""

import importlib
from pathlib import Path

from munkey.data.augment import Augmentation
from munkey.data.forget_sets import ForgetSplit
from munkey.data.image_set import ImageSet, image_set, resident
from munkey.data.prepared import Dataset
from munkey.models import system
from munkey.models.family import Recipe, System
from munkey.settings import FinetuneSettings, NetworkName, Sections
from munkey.unlearn.contract import METHODS, Method, Tuning


def applied(name: str, sections: Sections) -> Method:
    """The method of that name, as it starts from the family that the sections name, if they name one."""
    method = METHODS[name]
    if "network" not in sections:
        return method
    return method.on(NetworkName.typed(sections["network"]).name)


def recipe(method: Method, sections: Sections, seed: object, dataset: str) -> Recipe | None:
    """How the original was trained; None for a family that does not learn."""
    family = method.original
    return family.recipe(sections, family.stage(seed, dataset, "full")) if family.learns else None


def original(method: Method, recipe: Recipe | None, dataset: Dataset, file: str | Path, device: str) -> System:
    """The trained original in `file`. Raises ValueError where it holds another architecture than the recipe gives."""
    expected = method.original.architecture(recipe, len(dataset.classes)) if recipe else None
    return system.load(file, expected, device)


def parts(
    method: Method, dataset: Dataset, split: ForgetSplit, device: str, resident_share: float
) -> dict[str, ImageSet]:
    """Retain, forget and validation set; on a GPU the images that the method declares lie there already."""
    ids = {"retain": split.retain, "forget": split.forget, "val": dataset.ids_of("val")}
    sets = {part: image_set(dataset, of_part) for part, of_part in ids.items()}
    declared: frozenset[str] = method.needs
    return {
        part: resident(samples, device, resident_share) if f"{part} images" in declared else samples
        for part, samples in sets.items()
    }


def tuning(recipe: Recipe | None, sections: Sections) -> Tuning | None:
    """How to fine-tune, from the section `finetune`; None for a method that does not.

    Imports what fine-tuning needs, so that the time of a method counts none of it: the first optimizer of a process
    imports torch._dynamo, which takes seconds.
    """
    if recipe is None or "finetune" not in sections:
        return None
    for name in ("torch._dynamo", "munkey.training.loop", "munkey.unlearn.finetune"):
        importlib.import_module(name)
    settings = FinetuneSettings.typed(sections["finetune"])
    return Tuning(settings, recipe.train.lr, Augmentation.of(recipe.data, recipe.train), recipe.train.precision)
