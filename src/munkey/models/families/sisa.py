"""SISA (Bourtoule et al. 2021): sharded, isolated, sliced and aggregated training.

Each sample belongs permanently to one shard and one slice, by a hash of its id, so deleting other
samples never moves it. A shard's model is trained on its first slice, then on its first two, and so
on, and the weights after each slice are kept. Each (shard, slice) has its own random generators and
starts with a new optimizer. So retraining from a checkpoint gives exactly the weights of a training
run that never saw the deleted samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from munkey.core.randomness import Stage
from munkey.models.families.vit import ViTFamily
from munkey.models.family import Architecture, Recipe, System, Training, TrainingResult, family
from munkey.settings import Section, SmallCount

if TYPE_CHECKING:
    import torch
    from torch import nn

    from munkey.models.networks.sisa import Sisa, SisaArchitecture
    from munkey.training.checkpoint import History


class SisaSettings(Section):
    """The family's section of params.yaml.

    Attributes
    ----------
    shards
        The number of models, among which the training set is divided.
    slices
        The number of checkpoints per model.
    """

    shards: SmallCount
    slices: SmallCount


class Cells(NamedTuple):
    """The shard and the slice of each sample, (N,) int64 each."""

    shards: np.ndarray
    slices: np.ndarray


@family
class SisaFamily(ViTFamily[SisaSettings]):
    name = "sisa"
    title = "SISA"
    letter = "s"
    settings = SisaSettings
    is_network = False
    place = 2
    holds = "weights after each slice"

    def make_stage(self, seed: object, dataset: str, subset: str) -> Stage:
        """Return the same stage for all subsets: no shard depends on other shards."""
        return Stage(seed, dataset, self.name)

    def estimate_epoch_seconds(self, history: History, recipe: Recipe[SisaSettings]) -> float:
        """Estimate the seconds of all shards and slices per epoch over the whole training set."""
        return sum(epoch["seconds"] for epoch in history) / recipe.train.epochs

    def get_network(self) -> tuple[type[SisaArchitecture], Callable[..., nn.Module]]:
        from munkey.models.networks.sisa import Sisa, SisaArchitecture

        return SisaArchitecture, Sisa

    def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
        """Build the networks without initializing their weights.

        Each (shard, slice) initializes its weights when its training begins. Raises ValueError if a
        generator is given.
        """
        if generator is not None:
            raise ValueError("SISA's models are initialized when their training begins, not before")
        return super().build(architecture, None)

    def train(self, training: Training[SisaSettings]) -> TrainingResult:
        from munkey.models.networks.sisa import Sisa, SisaArchitecture

        architecture = self.make_architecture(training.recipe, training.classes)
        model = self.build(architecture, None).to(training.device)
        assert isinstance(architecture, SisaArchitecture) and isinstance(model, Sisa)
        first_slices = dict.fromkeys(range(model.shards), 0)  # every shard from its beginning
        history = retrain(model, architecture, first_slices, training)
        return TrainingResult(System(self.name, architecture, model.eval()), history)


def assign_cells(ids: np.ndarray, shards: int, slices: int, stage: Stage) -> Cells:
    """Assign each sample id to a shard and a slice."""
    cells = np.empty(len(ids), dtype=np.int64)
    for row, sample_id in enumerate(ids.tolist()):
        cells[row] = (stage / "cell" / sample_id).seed() % (shards * slices)
    return Cells(shards=cells // slices, slices=cells % slices)


def count_epochs_per_slice(epochs: int, slices: int) -> int:
    """Return the number of epochs per slice, at least one (Bourtoule et al., IV-B).

    Over all slices, as many samples are seen as in `epochs` epochs over the whole shard.
    """
    return max(1, round(2 * epochs / (slices + 1)))


def retrain(
    model: Sisa, architecture: SisaArchitecture, first: Mapping[int, int], training: Training
) -> History:
    """Train shards in place, each from slice first[shard], starting from its previous weights."""
    from munkey.models.networks.vit import ViT, build_on_cpu

    stage = training.recipe.stage
    cells = assign_cells(training.samples.ids, model.shards, model.slices, stage)
    history: History = []
    for shard, first_slice in first.items():
        for part in range(first_slice, model.slices):
            if part:
                start = model.state(shard, part - 1)
            else:
                generator = (stage / "weights" / shard).torch_generator()
                start = build_on_cpu(lambda: ViT(architecture.make_shard_architecture()), generator)
            model.state(shard, part).load_state_dict(start.state_dict())
            members = np.flatnonzero((cells.shards == shard) & (cells.slices <= part))
            training.report(
                f"shard {shard + 1}/{model.shards}, slice {part + 1}: {len(members)} samples"
            )
            history += train_slice(model, shard, part, members, training)
    return [epoch | {"epoch": number} for number, epoch in enumerate(history, start=1)]


def train_slice(
    model: Sisa, shard: int, part: int, members: np.ndarray, training: Training
) -> History:
    """Train a slice on the samples at positions `members`.

    The learning-rate schedule spans all slices of a shard.
    """
    import torch

    from munkey.data.augment import Augmentation
    from munkey.data.loader import Batch, Loader
    from munkey.training.checkpoint import Checkpoint
    from munkey.training.loop import (
        Fit,
        Outcome,
        adamw,
        classification_outcome,
        cosine_schedule,
        shuffled_batches,
    )
    from munkey.training.precision import Precision

    if not len(members):
        return []
    settings = training.recipe.train
    stage = training.recipe.stage
    state = model.state(shard, part)
    order = (stage / "order" / shard / part).torch_generator()
    crops = (stage / "crops" / shard / part).torch_generator()
    epochs = count_epochs_per_slice(settings.epochs, model.slices)
    positions = torch.from_numpy(members)
    augment = Augmentation.from_settings(training.recipe.data, settings)
    rate = cosine_schedule(settings.lr, epochs * model.slices, settings.warmup_epochs)

    def step(batch: Batch) -> Outcome:
        return classification_outcome(state(augment(batch.images, crops)), batch.labels)

    def batches(_: int) -> Loader:
        indices = shuffled_batches(len(positions), settings.batch_size, order)
        batch_positions = [positions[index] for index in indices]
        return Loader(training.samples, batch_positions, training.device)

    checkpoint = None
    if training.checkpoint:
        file = training.checkpoint.for_part(shard, part)
        checkpoint = Checkpoint(file, [order, crops], always_after=epochs)
    state.train()
    history = Fit(
        epochs=epochs,
        batches=batches,
        step=step,
        optimizer=adamw(state.parameters(), settings.betas, settings.weight_decay),
        rate=lambda done: rate(part * epochs + done),
        report=training.report,
        precision=Precision(settings.precision, training.device),
        checkpoint=checkpoint,
    ).run()
    state.eval().zero_grad(set_to_none=True)
    return history


def find_first_affected_slices(
    deleted: np.ndarray, shards: int, slices: int, stage: Stage
) -> dict[int, int]:
    """Find the first slice with a deleted sample, for each shard that has any."""
    cells = assign_cells(deleted, shards, slices, stage)
    first: dict[int, int] = {}
    for shard in np.unique(cells.shards).tolist():
        first[shard] = int(cells.slices[cells.shards == shard].min())
    return first
