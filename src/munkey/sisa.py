"""SISA (Bourtoule et al. 2021): models that are sharded, isolated, sliced and aggregated, so that few are retrained.

Every sample belongs to one shard and one slice for good, by a hash of its id: deleting others never moves it. A shard's
model trains on its first slice, then on its first two, and so on; the weights after each slice are kept. Each (shard,
slice) draws from its own generators and starts with a fresh optimiser, so retraining from a checkpoint gives the very
weights of a training that never saw what was deleted.
"""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from munkey import models
from munkey.images import Batch, ImageSet, Loader
from munkey.models import Sisa
from munkey.precision import Precision
from munkey.randomness import derive_seed, torch_generator
from munkey.resume import Checkpoint, part_of
from munkey.system import System
from munkey.train import Augmentation, History, Recipe, Report, adamw, classified, cosine, fit, shuffled


def cells(ids: np.ndarray, shards: int, slices: int, stage: tuple[object, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The shard and the slice of each sample id: two (N,) arrays."""
    cell = np.array([derive_seed(*stage, "cell", i) % (shards * slices) for i in ids.tolist()], dtype=np.int64)
    return cell // slices, cell % slices


def epochs_per_slice(epochs: int, slices: int) -> int:
    """So that all slices together see as many samples as `epochs` over the whole shard (Bourtoule et al., IV-B)."""
    return round(2 * epochs / (slices + 1))


def train(
    architecture: dict[str, Any],
    samples: ImageSet,
    recipe: Recipe,
    device: str,
    report: Report,
    resume: tuple[Path, float] | None = None,
) -> tuple[System, History]:
    """Train every shard from fresh weights on `samples` (sorted by id). resume: as in `munkey.train.train`."""
    model = models.build("sisa", architecture, generator=None).to(device)
    assert isinstance(model, Sisa)
    fresh = dict.fromkeys(range(model.shards), 0)
    history = retrain(model, architecture, fresh, samples, recipe, device, report, resume)
    return System("sisa", architecture, model.eval(), None), history


def retrain(
    model: Sisa,
    architecture: dict[str, Any],
    first: dict[int, int],
    samples: ImageSet,
    recipe: Recipe,
    device: str,
    report: Report,
    resume: tuple[Path, float] | None = None,
) -> History:
    """Train, in place, each shard in `first` from its slice first[shard] on, out of the weights before it."""
    shard_of, slice_of = cells(samples.ids, model.shards, model.slices, recipe.stage)
    vit = {name: value for name, value in architecture.items() if name not in models.OWN_ARGUMENTS["sisa"]}
    history: History = []
    for shard, begin in first.items():
        for part in range(begin, model.slices):
            state = model.state(shard, part)
            if part:
                before = model.state(shard, part - 1)
            else:
                before = models.build("vit", vit, torch_generator(*recipe.stage, "weights", shard))
            state.load_state_dict(before.state_dict())
            members = np.flatnonzero((shard_of == shard) & (slice_of <= part))
            report(f"shard {shard + 1}/{model.shards}, slice {part + 1}: {len(members)} samples")
            kept = (part_of(resume[0], shard, part), resume[1]) if resume else None
            history += _train_slice(state, part, model.slices, members, samples, recipe, shard, device, report, kept)
    return [epoch | {"epoch": number} for number, epoch in enumerate(history, start=1)]


def _train_slice(
    model: torch.nn.Module,
    part: int,
    slices: int,
    members: np.ndarray,
    samples: ImageSet,
    recipe: Recipe,
    shard: int,
    device: str,
    report: Report,
    resume: tuple[Path, float] | None,
) -> History:
    """One slice's epochs on the samples at positions `members`; the learning rate falls over all slices as over one."""
    if not len(members):
        return []
    settings, augment = recipe.settings, Augmentation.of(recipe.data, recipe.settings)
    order, crops = (torch_generator(*recipe.stage, name, shard, part) for name in ("order", "crops"))
    epochs, positions = epochs_per_slice(settings.epochs, slices), torch.from_numpy(members)
    rate = cosine(settings.lr, epochs * slices, settings.warmup_epochs)

    def step(batch: Batch) -> tuple[Tensor, Tensor]:
        return classified(model(augment(batch.images, crops)), batch.labels)

    def batches(_: int) -> Loader:
        return Loader(
            samples, [positions[index] for index in shuffled(len(positions), settings.batch_size, order)], device
        )

    model.train()
    optimizer = adamw(model.parameters(), settings.betas, settings.weight_decay)
    precision = Precision(settings.precision, device)
    rate_here = lambda done: rate(part * epochs + done)  # noqa: E731
    checkpoint = Checkpoint(*resume, [order, crops], ends=epochs) if resume else None
    history = fit(epochs, batches, step, optimizer, rate_here, report, None, checkpoint, precision)
    model.eval().zero_grad(set_to_none=True)
    return history


def touched(deleted: np.ndarray, shards: int, slices: int, recipe: Recipe) -> dict[int, int]:
    """For each shard that holds deleted sample ids, the first slice that does."""
    first: dict[int, int] = {}
    for shard, part in zip(*cells(deleted, shards, slices, recipe.stage), strict=True):
        first[int(shard)] = min(int(part), first.get(int(shard), slices))
    return dict(sorted(first.items()))


def delete(
    system: System, deleted: np.ndarray, retain: ImageSet, recipe: Recipe, device: str, report: Report
) -> tuple[System, History, dict[str, int]]:
    """Retrain on `retain` what has seen the sample ids `deleted`: weights as if they had never been there."""
    model = copy.deepcopy(system.model)
    assert isinstance(model, Sisa)
    first = touched(deleted, model.shards, model.slices, recipe)
    history = retrain(model, system.architecture, first, retain, recipe, device, report)
    retrained = sum(model.slices - begin for begin in first.values())
    facts = {"retrained_slices": retrained, "slices": model.shards * model.slices}
    return System(system.kind, system.architecture, model, None), history, facts
