"""The inputs of a method: the original, the data that the method may use, and how to fine-tune."""

import importlib
from pathlib import Path

import numpy as np

from munkey.core.randomness import Stage
from munkey.data.augment import Augmentation
from munkey.data.forget_sets import ForgetSplit
from munkey.data.image_set import ImageSet, image_set, move_to_gpu_if_it_fits
from munkey.data.prepared import Dataset
from munkey.models import system
from munkey.models.family import Recipe, System
from munkey.settings import FinetuneSettings, NetworkName, Sections
from munkey.unlearn.contract import METHODS, Method, Request, Tuning


def find_method(name: str, sections: Sections) -> Method:
    """Return a method by name, for the network in the section `network`, if there is one."""
    method = METHODS[name]
    if "network" not in sections:
        return method
    network = NetworkName.parse(sections["network"]).name
    return method.for_network(network)


def make_recipe(method: Method, sections: Sections, seed: object, dataset: str) -> Recipe | None:
    """Return how the original was trained, or None for a family that is not trained."""
    family = method.original
    if not family.learns:
        return None
    return family.make_recipe(sections, family.make_stage(seed, dataset, "full"))


def load_original(
    method: Method, recipe: Recipe | None, dataset: Dataset, file: str | Path, device: str
) -> System:
    """Load the original from its file.

    Raises ValueError if its architecture is not the recipe's, DivergedError, and DamagedFileError.
    """
    expected_architecture = None
    if recipe:
        expected_architecture = method.original.make_architecture(recipe, len(dataset.classes))
    return system.load(file, expected_architecture, device)


def make_sets(
    method: Method, dataset: Dataset, split: ForgetSplit, device: str, resident_share: float
) -> dict[str, ImageSet]:
    """Return the retain, forget, and validation sets, on the GPU if declared and if they fit there."""
    val_ids = dataset.get_ids("val")
    is_added = np.isin(val_ids, split.retain)  # by a stream; it is trained on
    ids = {"retain": split.retain, "forget": split.forget, "val": val_ids[~is_added]}
    declared: frozenset[str] = method.needs
    sets = {}
    for name, set_ids in ids.items():
        sets[name] = image_set(dataset, set_ids)
        if f"{name} images" in declared:
            sets[name] = move_to_gpu_if_it_fits(sets[name], device, resident_share)
    return sets


def make_tuning(recipe: Recipe | None, sections: Sections) -> Tuning | None:
    """Return how to fine-tune, or None for a method that does not read the section `finetune`."""
    if recipe is None or "finetune" not in sections:
        return None
    # Import the modules for fine-tuning now, so that the measured time of a method does not include
    # their import. The first optimizer of a process imports torch._dynamo, which takes seconds.
    for name in ("torch._dynamo", "munkey.training.loop", "munkey.unlearn.finetune"):
        importlib.import_module(name)
    settings = FinetuneSettings.parse(sections["finetune"])
    return Tuning(
        settings=settings,
        base_lr=recipe.train.lr,
        augment=Augmentation.from_settings(recipe.data, recipe.train),
        precision=recipe.train.precision,
    )


def make_request(  # noqa: PLR0913  # the parts of a request
    method: Method,
    split: ForgetSplit,
    sets: dict[str, ImageSet],
    stage: Stage,
    recipe: Recipe | None,
    tuning: Tuning | None,
    device: str,
) -> Request:
    """Return a request to forget the forget set of a split, with `make_sets` and `make_tuning`."""
    return Request(
        forget_ids=split.forget,
        generator=stage.torch_generator(),
        device=device,
        report=print,
        needs=method.needs,
        data=sets,
        recipe=recipe,
        finetuning=tuning,
    )
