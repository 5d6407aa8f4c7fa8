"""Supervised training of networks and prediction on a set of samples, shared by families."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from munkey.core.device import to_host
from munkey.data.augment import Augmentation
from munkey.data.image_set import ImageSet
from munkey.data.loader import Batch, Loader
from munkey.data.resample import normalize, resize
from munkey.models.family import Learner, System, Training, TrainingResult
from munkey.settings import DataSettings, TrainSettings
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

# The number of forward passes per prediction batch. It is fixed, so that results do not depend on a
# setting.
PASSES = 256


def supervise(learner: Learner, training: Training) -> TrainingResult:
    """Train by minimizing the cross-entropy on random crops (sec. 3.2, eq. 2; app. B.3), in place."""
    recipe = training.recipe
    samples = training.samples
    settings = recipe.train
    order_generator = (recipe.stage / "order").torch_generator()
    crop_generator = (recipe.stage / "crops").torch_generator()
    augment = Augmentation.from_settings(recipe.data, settings)
    model = learner.system.require_model()

    def batches(_: int) -> Loader:
        positions = shuffled_batches(len(samples), settings.batch_size, order_generator)
        return Loader(samples, positions, training.device)

    def step(batch: Batch) -> Outcome:
        logits = learner.predict(augment(batch.images, crop_generator), batch.index)
        return classification_outcome(logits, batch.labels)

    def call_watch(epoch: int) -> dict[str, float]:
        if training.watch:
            training.watch(epoch, learner.system)
        return {}  # adds no values to the epoch's record

    checkpoint = None
    if training.checkpoint:
        generators = [order_generator, crop_generator, *learner.generators]
        checkpoint = Checkpoint(training.checkpoint, generators, buffers=model.buffers())
    call_watch(0)
    loop = TrainingLoop(
        epochs=settings.epochs,
        batches=batches,
        step=step,
        optimizer=adamw(learner.parameters(), settings.betas, settings.weight_decay),
        learning_rate=cosine_schedule(settings.lr, settings.epochs, settings.warmup_epochs),
        report=training.report,
        precision=Precision(settings.precision, training.device),
        checkpoint=checkpoint,
        after_epoch=call_watch,
    )
    with ExitStack() as contexts:
        if settings.compile:
            from torch._inductor.utils import fresh_cache

            # Each training run has its own cache. A compilation that is killed while linking leaves
            # an empty library in the cache, which other runs would fail to load.
            contexts.enter_context(fresh_cache())
        history = loop.run()
    model.eval()
    return TrainingResult(learner.system, history)


def compile_forward(model: nn.Module, settings: TrainSettings) -> Callable[..., Tensor]:
    """Return the model's forward pass, compiled if the settings say so."""
    forward: Callable[..., Tensor] = torch.compile(model) if settings.compile else model
    return forward


class ImageBlock(NamedTuple):
    """Normalized images (B, 3, S, S) on the device, at these positions of the whole set."""

    positions: slice
    images: Tensor


def iterate_blocks(
    samples: ImageSet, data: DataSettings, device: str, passes: int = 1
) -> Iterator[ImageBlock]:
    """Yield all samples in order, in blocks for `passes` forward passes, as at test time."""
    start = 0
    batch_positions = torch.arange(len(samples)).split(max(1, PASSES // passes))
    for batch in Loader(samples, batch_positions, device):
        resized = resize(batch.images, data.image_size)
        images = normalize(resized, data.pixel_mean, data.pixel_std)
        yield ImageBlock(slice(start, start + len(batch)), images)
        start += len(batch)


def predict_blocks(
    blocks: Iterator[ImageBlock], predict: Callable[[ImageBlock], Tensor]
) -> np.ndarray:
    """Return the predictions for all blocks as a single float32 array on the host."""
    with torch.inference_mode():
        predictions = [predict(block).float() for block in blocks]
        return to_host(torch.cat(predictions)).numpy()


def read_head_inputs(
    model: nn.Module, blocks: Iterator[ImageBlock], predict: Callable[[ImageBlock], Tensor]
) -> np.ndarray:
    """Return the inputs (S, width) of a model's head while `predict` classifies all blocks."""
    head_inputs: list[Tensor] = []

    def store_input(_: nn.Module, inputs: tuple[Tensor]) -> None:
        head_inputs.append(inputs[0])

    def read_block(block: ImageBlock) -> Tensor:
        predict(block)
        return head_inputs.pop()

    hook = model.get_submodule("head").register_forward_pre_hook(store_input)
    try:
        return predict_blocks(blocks, read_block)
    finally:
        hook.remove()


def predict_from_images(
    system: System, samples: ImageSet, data: DataSettings, device: str
) -> np.ndarray:
    """Return the float32 logits (S, C) of a system whose only input is the image."""
    model = system.require_model()
    return predict_blocks(iterate_blocks(samples, data, device), lambda block: model(block.images))
