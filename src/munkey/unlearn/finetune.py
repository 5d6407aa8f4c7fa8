"""What methods that fine-tune a copy of the original share (app. B.2), on top of the one training loop."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.core.device import to_device, to_host
from munkey.data.image_set import ImageSet, Labeled, LabeledImages, TensorSet
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


def spread(scores: Tensor) -> Outcome:
    """KL of the uniform distribution to the softmax of each row of scores (B, n), up to a constant (FCS).

    It predicts nothing, so nothing is correct.
    """
    return Outcome(-scores.log_softmax(dim=1).mean(), scores.new_zeros(()))


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


def subset(samples: ImageSet, rows: np.ndarray) -> ImageSet:
    """The samples at the positions `rows`."""
    return replace(samples, rows=samples.rows[rows], ids=samples.ids[rows], labels=samples.labels[rows])


def by_loss(system: System, request: Request, parts: int) -> list[ImageSet]:
    """The forget set in as many parts as equal as can be, by rising cross-entropy of the system, not augmented; each
    part is sorted by id.
    """
    model, forget, losses = system.copy_of_model().eval(), request.forget, []
    with torch.no_grad():
        for index in torch.arange(len(forget)).split(request.tuning.settings.batch_size):
            images, labels = plain(forget, index, request)
            losses.append(F.cross_entropy(model(images), labels, reduction="none"))
    ranked = to_host(torch.cat(losses)).argsort(stable=True).numpy()
    return [subset(forget, np.sort(rows)) for rows in np.array_split(ranked, parts)]


def repelling_noise(model: nn.Module, label: int, side: tuple[int, ...], steps: int, request: Request) -> TensorSet:
    """A batch of noise pictures of a class, which the model thinks least of (UNSIR); the weights stay.

    From N(0, 1), in normalized pixels, so many steps of Adam at 0.1 down 0.1 mean |x|^2 less the mean cross-entropy.
    side: height and width of the stored pictures; what is returned is in their pixels, not clipped to [0, 1].
    """
    augment, batch = request.tuning.augment, request.tuning.settings.batch_size
    noise = to_device(torch.randn((batch, 3, *side), generator=request.generator), request.device).requires_grad_()
    labels = torch.full((batch,), label)
    optimizer, targets = torch.optim.Adam([noise], lr=0.1), to_device(labels, request.device)
    for _ in range(steps):
        seen = augment.plain(augment.mean + augment.std * noise)
        loss = 0.1 * seen.square().sum(dim=(1, 2, 3)).mean() - F.cross_entropy(model(seen), targets)
        (noise.grad,) = torch.autograd.grad(loss, noise)
        optimizer.step()
    return TensorSet(to_host(augment.mean + augment.std * noise.detach()), labels)


def scaled_steps(factors: Mapping[str, Tensor]) -> Callable[[nn.Module], None]:
    """What shortens, by the factors, how far a model's weights have moved since it was last called on it.

    A factor of their gradients would be lost on AdamW. factors: by parameter name, each of the parameter's shape.
    """
    last: dict[str, Tensor] = {}

    def shorten(model: nn.Module) -> None:
        for name, factor in factors.items():
            weight = model.get_parameter(name).data
            last[name] = torch.lerp(last.get(name, weight), weight, factor)
            weight.copy_(last[name])

    return shorten


def rising_and_falling(epochs: int) -> Callable[[float], float]:
    """A factor by epochs done: it rises linearly to 1 in the middle epoch, then falls, constant in an epoch (MSG)."""
    middle = (epochs + 1) // 2
    return lambda done: min((int(done) + 1) / middle, (epochs - int(done)) / (epochs + 1 - middle))


def accuracy(model: nn.Module, samples: Labeled, request: Request) -> float:
    """Top-1 accuracy over all samples, not augmented, percent: only for a method that is defined by it (SCRUB)."""
    hits = []
    with torch.no_grad():
        for index in torch.arange(len(samples)).split(request.tuning.settings.batch_size):
            images, labels = plain(samples, index, request)
            hits.append(model(images).argmax(dim=1) == labels)
    return 100 * to_host(torch.cat(hits).sum()).item() / len(samples)


def finetune(  # noqa: PLR0913  # what methods differ in, the last three by name
    system: System,
    request: Request,
    lr_factor: float,
    samples: Labeled,
    objective: Objective = cross_entropy,
    only: str = "",
    schedule: Callable[[float], float] = lambda _: 1.0,
) -> System:
    """A copy of `system` trained on `samples` at the rate lr_factor * train.lr, constant (app. B.2) unless scheduled.

    objective: (model, images, labels) -> (loss, number correct). only: train the parameters whose names start with it;
    the others stay out of the optimizer, whose weight decay would move them without a gradient. Writes the curve into
    `request.history`. schedule: the rate's factor by epochs done.
    """
    model = system.copy_of_model().train()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and name.startswith(only))

    step, rate = training_step(model, request, objective), lr_factor * request.tuning.base_lr
    optimizer = optimizer_of(model, request)
    request.history = fitted(samples, step, optimizer, request, lambda done: rate * schedule(done))
    return finished(system, model)


def training_step(
    model: nn.Module, request: Request, objective: Objective = cross_entropy
) -> Callable[[Batch], Outcome]:
    """The objective of a batch whose images are cropped anew."""
    return lambda batch: Outcome(
        *objective(model, request.tuning.augment(batch.images, request.generator), batch.labels)
    )


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
