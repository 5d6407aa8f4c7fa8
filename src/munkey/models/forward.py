"""What families share: supervised training of a network, and its answers to a set of samples."""

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
from munkey.models.family import Learner, System, Trained, Training
from munkey.settings import DataSettings, TrainSettings
from munkey.training.checkpoint import Checkpoint
from munkey.training.loop import Fit, Outcome, adamw, classified, cosine, shuffled
from munkey.training.precision import Precision

PASSES = 256  # passes of a model at once; a constant, so that results do not depend on it


def supervise(learner: Learner, training: Training) -> Trained:
    """Minimize the cross-entropy of random crops, all randomness derived from the recipe's stage."""
    recipe, samples, watch = training.recipe, training.samples, training.watch
    settings, stage = recipe.train, recipe.stage
    order, crops = (stage / "order").torch_generator(), (stage / "crops").torch_generator()
    augment = Augmentation.of(recipe.data, settings)

    def step(batch: Batch) -> Outcome:
        return classified(learner.answer(augment(batch.images, crops), batch.index), batch.labels)

    def after_epoch(epoch: int) -> dict[str, float]:
        if watch:
            watch(epoch, learner.system)
        return {}

    generators, model = [order, crops, *learner.generators], learner.system.weights()
    after_epoch(0)
    fit = Fit(
        epochs=settings.epochs,
        batches=lambda _: Loader(samples, shuffled(len(samples), settings.batch_size, order), training.device),
        step=step,
        optimizer=adamw(learner.parameters(), settings.betas, settings.weight_decay),
        rate=cosine(settings.lr, settings.epochs, settings.warmup_epochs),
        report=training.report,
        precision=Precision(settings.precision, training.device),
        checkpoint=Checkpoint(training.checkpoint, generators, buffers=model.buffers())
        if training.checkpoint
        else None,
        after_epoch=after_epoch,
    )
    with ExitStack() as own:
        if settings.compile:  # killed while it links, it leaves an empty library, which no other training may find
            from torch._inductor.utils import fresh_cache

            own.enter_context(fresh_cache())
        history = fit.run()
    model.eval()
    return Trained(learner.system, history)


def compiled(model: nn.Module, settings: TrainSettings) -> Callable[..., Tensor]:
    """The model's forward pass, compiled where the settings want it."""
    forward: Callable[..., Tensor] = torch.compile(model) if settings.compile else model
    return forward


class ImageBlock(NamedTuple):
    """Some of the samples. where: their positions; images: (B, 3, S, S) as the model reads them, on the device."""

    where: slice
    images: Tensor


def blocks(samples: ImageSet, data: DataSettings, device: str, passes: int = 1) -> Iterator[ImageBlock]:
    """All samples in order, resized and normalized. passes: how many passes of the model each of them takes."""
    start = 0
    positions = torch.arange(len(samples)).split(max(1, PASSES // passes))
    for batch in Loader(samples, positions, device):
        images = normalize(resize(batch.images, data.image_size), data.pixel_mean, data.pixel_std)
        yield ImageBlock(slice(start, start + len(batch)), images)
        start += len(batch)


def answers(blocks: Iterator[ImageBlock], answer: Callable[[ImageBlock], Tensor]) -> np.ndarray:
    """`answer` of every block, as one float32 array on the host."""
    with torch.inference_mode():
        return to_host(torch.cat([answer(block).float() for block in blocks])).numpy()


def image_logits(system: System, samples: ImageSet, data: DataSettings, device: str) -> np.ndarray:
    """Logits (S, C) float32 of a system that reads nothing but the image."""
    model = system.weights()
    return answers(blocks(samples, data, device), lambda block: model(block.images))
