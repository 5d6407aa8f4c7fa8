"""What methods share that fine-tune a copy of the original (app. B.2), on top of the one training loop."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.images import Batch, ImageSet, Labelled, Loader
from munkey.precision import Precision
from munkey.system import System
from munkey.train import adamw, classified, fit, shuffled

if TYPE_CHECKING:
    from munkey.unlearn import Request

Objective = Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Tensor]]


def augmented(samples: Labelled, index: Tensor, request: "Request") -> tuple[Tensor, Tensor]:
    """A batch (B, 3, S, S) with labels (B,), freshly cropped as in training."""
    images, labels = samples.batch(index, request.device)
    return request.tuning.augment(images, request.generator), labels


def plain(samples: Labelled, index: Tensor, request: "Request") -> tuple[Tensor, Tensor]:
    """A batch (B, 3, S, S) with labels (B,), as at test time."""
    images, labels = samples.batch(index, request.device)
    return request.tuning.augment.plain(images), labels


def endless(samples: Labelled, batch_size: int, request: "Request") -> Iterator[tuple[Tensor, Tensor]]:
    """Augmented batches without end: each time round in a new order, every image cropped anew."""
    while True:
        for index in shuffled(len(samples), batch_size, request.generator):
            yield augmented(samples, index, request)


def cross_entropy(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of a batch, and the number of correct predictions."""
    return classified(model(images), labels)


def distillation(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T^2 KL(softmax(teacher / T) || softmax(student / T)) of logits (B, C), averaged over the batch (Hinton 2015)."""
    told, knows = (F.log_softmax(logits / temperature, dim=1) for logits in (student, teacher))
    return temperature**2 * F.kl_div(told, knows, reduction="batchmean", log_target=True)


def mislabelled(samples: ImageSet, classes: int, generator: torch.Generator) -> ImageSet:
    """The same images, each with one wrong label, uniform over the classes that are not its own; drawn once, here."""
    shift = torch.randint(1, classes, (len(samples),), generator=generator).numpy()
    return replace(samples, labels=(np.asarray(samples.labels) + shift) % classes)


def accuracy(model: nn.Module, samples: Labelled, request: "Request") -> float:
    """Top-1 accuracy over all samples, un-augmented, percent: only for a method that is defined by it (SCRUB)."""
    hits = []
    with torch.no_grad():
        for index in torch.arange(len(samples)).split(request.tuning.settings.batch_size):
            images, labels = plain(samples, index, request)
            hits.append(model(images).argmax(dim=1) == labels)
    return 100 * torch.cat(hits).sum().item() / len(samples)


def finetune(
    system: System,
    request: "Request",
    lr_factor: float,
    samples: Labelled,
    objective: Objective = cross_entropy,
    only: str = "",
    after_step: Callable[[nn.Module], None] | None = None,
) -> System:
    """A copy of `system` trained on `samples` at the constant rate lr_factor * train.lr (app. B.2).

    objective: (model, images, labels) -> (loss, number correct). only: train the parameters whose name starts so;
    the others stay out of the optimiser, whose weight decay would move them without a gradient. after_step: called
    after every step with the model. Writes the curve into `request.history`.
    """
    model, tuning = system.copy_of_model().train(), request.tuning
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and name.startswith(only))
    optimizer = adamw(model.parameters(), tuning.settings.betas, tuning.settings.weight_decay)
    if after_step:
        optimizer.register_step_post_hook(lambda *_: after_step(model))

    def step(batch: Batch) -> tuple[Tensor, Tensor]:
        return objective(model, tuning.augment(batch.images, request.generator), batch.labels)

    request.history = fit(
        tuning.settings.epochs,
        lambda _: Loader(
            samples, shuffled(len(samples), tuning.settings.batch_size, request.generator), request.device
        ),
        step,
        optimizer,
        lambda _: lr_factor * tuning.base_lr,
        request.report,
        precision=Precision(tuning.precision, request.device),
    )
    return finished(system, model)


def finished(system: System, model: nn.Module) -> System:
    """The system with its trained copy: in eval mode, without gradients, trainable where the original was."""
    for own, original in zip(model.parameters(), system.model.parameters(), strict=True):
        own.requires_grad_(original.requires_grad).grad = None
    return replace(system, model=model.eval())
