"""SISA (Bourtoule et al. 2021): sharded, isolated, sliced, and aggregated training.

A hash of its id assigns each sample to a shard and a slice, so other deletions never move it. A
shard's model is trained on the first slice, then the first two, and so on, and the weights after
each are stored. Each slice has its own generators and a new optimizer, so retraining from a
checkpoint gives exactly the weights of a run that never saw the deleted samples.
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
    """The section `sisa` of params.yaml."""

    shards: SmallCount
    slices: SmallCount


class Cells(NamedTuple):
    """The shard and the slice of each sample: (N,) int64 arrays."""

    shards: np.ndarray
    slices: np.ndarray


@family
class SisaFamily(ViTFamily[SisaSettings]):
    name = "sisa"
    title = "SISA"
    letter = "s"
    settings = SisaSettings
    is_network = False
    has_features = False
    place = 2
    holds = "weights after each slice"

    def make_stage(self, seed: object, dataset: str, subset: str) -> Stage:
        """Return the same stage for all subsets, so that samples in other shards do not matter."""
        return Stage(seed, dataset, self.name)

    def estimate_epoch_seconds(self, history: History, recipe: Recipe[SisaSettings]) -> float:
        """Return the time to train all shards and slices, divided by the setting `train.epochs`."""
        return sum(epoch["seconds"] for epoch in history) / recipe.train.epochs

    def get_network(self) -> tuple[type[SisaArchitecture], Callable[..., nn.Module]]:
        from munkey.models.networks.sisa import Sisa, SisaArchitecture

        return SisaArchitecture, Sisa

    def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
        """Build the networks without weights, which are drawn when the training of a shard begins.

        Raises ValueError if `generator` is not None.
        """
        if generator is not None:
            raise ValueError("SISA's models are initialized when their training begins, not before")
        return super().build(architecture, generator=None)

    def train(self, training: Training[SisaSettings]) -> TrainingResult:
        from munkey.models.networks.sisa import Sisa, SisaArchitecture

        architecture = self.make_architecture(training.recipe, training.classes)
        model = self.build(architecture, generator=None).to(training.device)
        assert isinstance(architecture, SisaArchitecture) and isinstance(model, Sisa)
        first_slices = dict.fromkeys(range(model.shards), 0)  # train all shards from the beginning
        history = retrain(model, architecture, first_slices, training)
        return TrainingResult(System(self.name, architecture, model.eval()), history)


def assign_cells(ids: np.ndarray, shards: int, slices: int, stage: Stage) -> Cells:
    """Assign each sample id to a shard and a slice."""
    cells = np.empty(len(ids), dtype=np.int64)
    for row, sample_id in enumerate(ids.tolist()):
        # A hash of the id, so that a sample's cell does not depend on the other samples.
        cells[row] = (stage / "cell" / sample_id).seed() % (shards * slices)
    return Cells(shards=cells // slices, slices=cells % slices)


def count_epochs_per_slice(epochs: int, slices: int) -> int:
    """Return the number of epochs for each slice, at least one (Bourtoule et al., IV-B).

    In total, about as many samples are processed as in `epochs` over the whole shard.
    """
    # An epoch for slice r processes r / R of the shard. Over r = 1, ..., R, this is (R + 1) / 2.
    return max(1, round(2 * epochs / (slices + 1)))


def retrain(
    model: Sisa, architecture: SisaArchitecture, first_slices: Mapping[int, int], training: Training
) -> History:
    """Train shards in place. Returns a record for each epoch, numbered across shards and slices.

    `first_slices` maps each shard to its first slice to train, from the checkpoint before it.
    """
    from munkey.models.networks.vit import ViT, build_on_cpu

    stage = training.recipe.stage
    cells = assign_cells(training.samples.ids, model.shards, model.slices, stage)
    history: History = []
    for shard, first_slice in first_slices.items():
        for slice_index in range(first_slice, model.slices):
            if slice_index > 0:
                initial = model.get_checkpoint(shard, slice_index - 1)
            else:
                generator = (stage / "weights" / shard).torch_generator()
                initial = build_on_cpu(
                    lambda: ViT(architecture.make_shard_architecture()), generator
                )
            model.get_checkpoint(shard, slice_index).load_state_dict(initial.state_dict())
            members = np.flatnonzero((cells.shards == shard) & (cells.slices <= slice_index))
            training.report(
                f"shard {shard + 1}/{model.shards}, slice {slice_index + 1}: {len(members)} samples"
            )
            history += train_slice(model, shard, slice_index, members, training)
    return [epoch | {"epoch": number} for number, epoch in enumerate(history, start=1)]


def train_slice(
    model: Sisa, shard: int, slice_index: int, members: np.ndarray, training: Training
) -> History:
    """Train the network of a shard and slice on the samples at the positions `members`, if any.

    One schedule of the learning rate spans all slices of the shard. Returns a record for each
    epoch.
    """
    import torch

    from munkey.data.augment import Augmentation
    from munkey.data.loader import Batch, Loader
    from munkey.training.checkpoint import Checkpoint
    from munkey.training.loop import (
        Outcome,
        TrainingLoop,
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
    network = model.get_checkpoint(shard, slice_index)
    order_generator = (stage / "order" / shard / slice_index).torch_generator()
    crop_generator = (stage / "crops" / shard / slice_index).torch_generator()
    epochs = count_epochs_per_slice(settings.epochs, model.slices)
    positions = torch.from_numpy(members)
    augment = Augmentation.from_settings(training.recipe.data, settings)
    schedule = cosine_schedule(settings.lr, epochs * model.slices, settings.warmup_epochs)

    def step(batch: Batch) -> Outcome:
        return classification_outcome(network(augment(batch.images, crop_generator)), batch.labels)

    def batches(_: int) -> Loader:
        member_batches = shuffled_batches(len(positions), settings.batch_size, order_generator)
        batch_positions = [positions[index] for index in member_batches]
        return Loader(training.samples, batch_positions, training.device)

    checkpoint = None
    if training.checkpoint:
        file = training.checkpoint.for_part(shard, slice_index)
        checkpoint = Checkpoint(file, [order_generator, crop_generator], always_after=epochs)
    network.train()
    history = TrainingLoop(
        epochs=epochs,
        batches=batches,
        step=step,
        optimizer=adamw(network.parameters(), settings.betas, settings.weight_decay),
        learning_rate=lambda progress: schedule(slice_index * epochs + progress),
        report=training.report,
        precision=Precision(settings.precision, training.device),
        checkpoint=checkpoint,
    ).run()
    network.eval().zero_grad(set_to_none=True)
    return history


def find_first_affected_slices(
    deleted_ids: np.ndarray, shards: int, slices: int, stage: Stage
) -> dict[int, int]:
    """Return the first slice with deleted samples, for each shard that has deleted samples."""
    cells = assign_cells(deleted_ids, shards, slices, stage)
    first_slices: dict[int, int] = {}
    for shard in np.unique(cells.shards).tolist():
        first_slices[shard] = int(cells.slices[cells.shards == shard].min())
    return first_slices
