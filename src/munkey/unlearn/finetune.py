"""What methods that fine-tune a copy of the original share (app. B.2), on top of the one training loop."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from munkey.core.device import to_host
from munkey.data.image_set import ImageSet, Labeled, LabeledImages
from munkey.data.loader import Batch, Loader
from munkey.models.family import System
from munkey.training.checkpoint import History
from munkey.training.loop import Fit, Outcome, adamw, classified, shuffled
from munkey.training.precision import Precision
from munkey.unlearn.contract import Request

Objective = Callable[[nn.Module, Tensor, Tensor], Outcome]


def plain(samples: Labeled, index: Tensor, request: Request) -> LabeledImages:
    """A batch (B, 3, S, S) with labels (B,), as at test time."""
    images, labels = samples.batch(index, request.device)
    return LabeledImages(request.tuning.augment.plain(images), labels)


def endless(samples: Labeled, batch_size: int, request: Request) -> Iterator[LabeledImages]:
    """Augmented batches without end: in a new order each time round, every image cropped anew."""
    while True:
        for index in shuffled(len(samples), batch_size, request.generator):
            images, labels = samples.batch(index, request.device)
            yield LabeledImages(request.tuning.augment(images, request.generator), labels)


def cross_entropy(model: nn.Module, images: Tensor, labels: Tensor) -> Outcome:
    """Mean cross-entropy of a batch, and the number of correct predictions."""
    return classified(model(images), labels)


def distillation(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T^2 KL(softmax(teacher / T) || softmax(student / T)) of logits (B, C), averaged over the batch (Hinton 2015).

    Written so that its gradient is exactly 0 where the student equals the teacher. That of `F.kl_div` is rounding noise
    there, of which AdamW makes full steps.
    """
    student, teacher = student / temperature, teacher.detach() / temperature
    log_p = teacher - teacher.logsumexp(dim=1, keepdim=True)
    p = log_p.exp()
    divergence = student.logsumexp(dim=1) - (p * student).sum(dim=1) + (p * log_p).sum(dim=1)
    return temperature**2 * divergence.mean()


def mislabeled(samples: ImageSet, classes: int, generator: torch.Generator) -> ImageSet:
    """The same images, each with one wrong label, uniform over the other classes; drawn once, here."""
    shift = torch.randint(1, classes, (len(samples),), generator=generator).numpy()
    return replace(samples, labels=(np.asarray(samples.labels) + shift) % classes)


def marked(samples: ImageSet, index: Tensor, mark: bool) -> ImageSet:
    """The samples at the positions `index`, with the mark in place of their labels."""
    rows = index.numpy()
    return replace(samples, rows=samples.rows[rows], ids=samples.ids[rows], labels=np.full(len(rows), mark))


def accuracy(model: nn.Module, samples: Labeled, request: Request) -> float:
    """Top-1 accuracy over all samples, not augmented, percent: only for a method that is defined by it (SCRUB)."""
    hits = []
    with torch.no_grad():
        for index in torch.arange(len(samples)).split(request.tuning.settings.batch_size):
            images, labels = plain(samples, index, request)
            hits.append(model(images).argmax(dim=1) == labels)
    return 100 * to_host(torch.cat(hits).sum()).item() / len(samples)


def finetune(
    system: System,
    request: Request,
    lr_factor: float,
    samples: Labeled,
    objective: Objective = cross_entropy,
    only: str = "",
) -> System:
    """A copy of `system` trained on `samples` at the constant rate lr_factor * train.lr (app. B.2).

    objective: (model, images, labels) -> (loss, number correct). only: train the parameters whose names start with it;
    the others stay out of the optimizer, whose weight decay would move them without a gradient. Writes the curve into
    `request.history`.
    """
    model, tuning = system.copy_of_model().train(), request.tuning
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and name.startswith(only))

    def step(batch: Batch) -> Outcome:
        return Outcome(*objective(model, tuning.augment(batch.images, request.generator), batch.labels))

    request.history = fitted(samples, step, optimizer_of(model, request), request, lambda _: lr_factor * tuning.base_lr)
    return finished(system, model)


def optimizer_of(model: nn.Module, request: Request) -> torch.optim.AdamW:
    """AdamW with the section `finetune` (app. B.2)."""
    settings = request.tuning.settings
    return adamw(model.parameters(), settings.betas, settings.weight_decay)


def fitted(
    samples: Labeled,
    step: Callable[[Batch], Outcome],
    optimizer: torch.optim.Optimizer,
    request: Request,
    rate: Callable[[float], float],
    epochs: int | None = None,
) -> History:
    """Minimize over shuffled batches of the samples, whose last is kept. rate: by epochs done; epochs: None: all."""
    tuning = request.tuning

    def batches(_: int) -> Loader:
        order = shuffled(len(samples), tuning.settings.batch_size, request.generator)
        return Loader(samples, order, request.device)

    return Fit(
        epochs=tuning.settings.epochs if epochs is None else epochs,
        batches=batches,
        step=step,
        optimizer=optimizer,
        rate=rate,
        report=request.report,
        precision=Precision(tuning.precision, request.device),
    ).run()


def finished(system: System, model: nn.Module) -> System:
    """The system with its trained copy: in eval mode, without gradients, trainable where the original was."""
    assert system.model is not None
    for parameter, original in zip(model.parameters(), system.model.parameters(), strict=True):
        parameter.requires_grad_(original.requires_grad).grad = None
    return replace(system, model=model.eval())
