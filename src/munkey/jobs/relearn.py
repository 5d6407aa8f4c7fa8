"""Further training: of systems on the retain set alone, and of originals once more while their pathways are watched."""

from pathlib import Path

import numpy as np

from munkey.audits.further_training import Questions, trained_further
from munkey.core.files import write_csv, write_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared
from munkey.data.image_set import image_set, resident
from munkey.encoders import keys
from munkey.evaluation.trace import Trace
from munkey.memory import neighbors as neighbor_files
from munkey.models import system as systems
from munkey.models import training_inputs
from munkey.models.family import FAMILIES, Training
from munkey.models.training_inputs import Sections
from munkey.settings import RelearnSettings


def relearn(
    images: Path,
    system: Path,
    forget: Path,
    curve: Path,
    dataset: str,
    seed: int,
    settings: Sections,
    device: str,
    keyfile: Path | None = None,
    neighbors: Path | None = None,
    retrieved: Path | None = None,
    selected: Path | None = None,
    resident_share: float = 0.5,
) -> None:
    """Train a system further on the retain set, and note what it answers about the forget set on the way.

    neighbors: in the memory of the retain set, for training; retrieved: in the system's own memory, for its answers.
    """
    data, loaded = prepared.load(images.parent), systems.load(system, device=device)
    family, split = FAMILIES[loaded.family], forget_sets.split(data, forget)
    sections = training_inputs.with_selected(settings, family, selected)
    recipe = family.recipe(sections, Stage(seed, dataset, "relearn", family.name))
    samples = resident(image_set(data, split.retain), device, resident_share)
    members = training_inputs.member_keys(family, recipe, samples.ids, keyfile, neighbors)
    asked_of, retrieval = image_set(data, np.union1d(split.forget, data.ids_of("test"))), None
    if family.has_memory and retrieved:
        asked_keys = keys.read(keyfile, asked_of.ids).keys if keyfile else None
        near = neighbor_files.read(retrieved, asked_of.ids)
        retrieval = family.retrieval(near, sections["inference"], asked_keys)
    questions = Questions(asked_of, np.isin(asked_of.ids, split.forget), recipe.data, device, retrieval)
    training = Training(samples, len(data.classes), recipe, device, members=members)
    write_csv(curve, trained_further(loaded, training, RelearnSettings.model_validate(sections["relearn"]), questions))


def trace(
    images: Path,
    trace: Path,
    family: str,
    dataset: str,
    seed: int,
    settings: Sections,
    device: str,
    keyfile: Path | None = None,
    neighbors: Path | None = None,
    selected: Path | None = None,
    resident_share: float = 0.5,
) -> None:
    """Train an original once more, watched: P_s after every epoch, tokens and [CLS] at start, middle and end."""
    data, traced = prepared.load(images.parent), FAMILIES[family]
    samples = resident(image_set(data, data.ids_of("train")), device, resident_share)
    sections = training_inputs.with_selected(settings, traced, selected)
    recipe = traced.recipe(sections, traced.stage(seed, dataset, "full"))  # the original's: the same to the bit
    members = training_inputs.member_keys(traced, recipe, samples.ids, keyfile, neighbors)
    watched = Trace(samples, recipe, device)
    traced.train(Training(samples, len(data.classes), recipe, device, members=members, watch=watched.watch))
    write_npz(trace, watched.arrays())
