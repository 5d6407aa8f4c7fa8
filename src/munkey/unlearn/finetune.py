"""Shared functions of methods that fine-tune (app. B.2), on top of the training loop."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.core.device import to_device, to_host
from munkey.data.image_set import ImageSet, LabeledImages, LabeledSet, TensorSet
from munkey.data.loader import Batch, Loader
from munkey.models.family import System
from munkey.training.checkpoint import History
from munkey.training.loop import Fit, Outcome, adamw, classification_outcome, shuffled_batches
from munkey.training.precision import Precision
from munkey.unlearn.contract import Request

Objective = Callable[[nn.Module, Tensor, Tensor], Outcome]


def plain_batch(samples: LabeledSet, index: Tensor, request: Request) -> LabeledImages:
    """Return a batch (B, 3, S, S) with labels (B,), resized without cropping as in evaluation."""
    images, labels = samples.batch(index, request.device)
    return LabeledImages(request.tuning.augment.eval_transform(images), labels)


def endless_batches(
    samples: LabeledSet, batch_size: int, request: Request
) -> Iterator[LabeledImages]:
    """Yield augmented batches endlessly. Each pass has new crops and a new order."""
    while True:
        for index in shuffled_batches(len(samples), batch_size, request.generator):
            images, labels = samples.batch(index, request.device)
            yield LabeledImages(request.tuning.augment(images, request.generator), labels)


def cross_entropy(model: nn.Module, images: Tensor, labels: Tensor) -> Outcome:
    """Compute a batch's mean cross-entropy and number of correct predictions."""
    return classification_outcome(model(images), labels)


def uniformity_outcome(scores: Tensor) -> Outcome:
    """Compute the mean KL(uniform || softmax) of scores (B, n), up to a constant (FCS)."""
    none_correct = scores.new_zeros(())  # because the scores are not predictions
    return Outcome(-scores.log_softmax(dim=1).mean(), none_correct)


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Compute the distillation loss of logits (B, C), averaged over the batch (Hinton et al. 2015).

    It is T^2 KL(softmax(teacher / T) || softmax(student / T)), without gradient for the teacher.
    """
    student = student / temperature
    teacher = teacher.detach() / temperature
    log_p = teacher - teacher.logsumexp(dim=1, keepdim=True)
    p = log_p.exp()
    # In this form, the gradient softmax(student) - p is exactly 0 where the student equals the
    # teacher. With F.kl_div, it is rounding noise there, which AdamW would amplify to full steps.
    divergence = student.logsumexp(dim=1) - (p * student).sum(dim=1) + (p * log_p).sum(dim=1)
    return temperature**2 * divergence.mean()


def mislabel(samples: ImageSet, classes: int, generator: torch.Generator) -> ImageSet:
    """Replace the labels by wrong ones, drawn once and uniformly over the other classes."""
    # A shift of 1 to C - 1, modulo C, gives every other class with the same probability.
    shift = torch.randint(1, classes, (len(samples),), generator=generator).numpy()
    labels = (np.asarray(samples.labels) + shift) % classes
    return replace(samples, labels=labels)


def mark_samples(samples: ImageSet, index: Tensor, mark: bool) -> ImageSet:
    """Select the samples at the positions `index`, with `mark` instead of their labels."""
    rows = index.numpy()
    return replace(
        samples,
        rows=samples.rows[rows],
        ids=samples.ids[rows],
        labels=np.full(len(rows), mark),
    )


def select(samples: ImageSet, rows: np.ndarray) -> ImageSet:
    """Select the samples at the positions `rows`."""
    return replace(
        samples,
        rows=samples.rows[rows],
        ids=samples.ids[rows],
        labels=samples.labels[rows],
    )


def split_by_loss(system: System, request: Request, parts: int) -> list[ImageSet]:
    """Split the forget set into equal parts by the system's loss, lowest first.

    Each part is sorted by id.
    """
    model = system.copy_model().eval()
    forget = request.forget
    losses = []
    with torch.no_grad():
        for index in torch.arange(len(forget)).split(request.tuning.settings.batch_size):
            images, labels = plain_batch(forget, index, request)
            losses.append(F.cross_entropy(model(images), labels, reduction="none"))
    rows_by_loss = to_host(torch.cat(losses)).argsort(stable=True).numpy()
    return [select(forget, np.sort(rows)) for rows in np.array_split(rows_by_loss, parts)]


def make_repelling_noise(
    model: nn.Module,
    label: int,
    side: tuple[int, ...],
    steps: int,
    request: Request,
) -> TensorSet:
    """Make a batch of noise images that maximizes the model's error on a class (UNSIR).

    Pixels are not clipped to [0, 1]. The model's weights do not change.

    Parameters
    ----------
    side
        Height and width of the stored images.
    """
    augment = request.tuning.augment
    batch_size = request.tuning.settings.batch_size
    noise = torch.randn((batch_size, 3, *side), generator=request.generator)  # normalized pixels
    noise = to_device(noise, request.device).requires_grad_()
    labels = torch.full((batch_size,), label)
    targets = to_device(labels, request.device)
    optimizer = torch.optim.Adam([noise], lr=0.1)  # 0.1, here and below, is from UNSIR's code
    for _ in range(steps):
        inputs = augment.eval_transform(augment.mean + augment.std * noise)
        penalty = 0.1 * inputs.square().sum(dim=(1, 2, 3)).mean()
        loss = penalty - F.cross_entropy(model(inputs), targets)
        (noise.grad,) = torch.autograd.grad(loss, noise)  # does not compute the weights' gradients
        optimizer.step()
    return TensorSet(to_host(augment.mean + augment.std * noise.detach()), labels)


def make_step_scaler(factors: Mapping[str, Tensor]) -> Callable[[nn.Module], None]:
    """Make a function that scales how far weights have moved since its last call.

    Scaling gradients would have no effect, because AdamW divides each gradient by its magnitude.

    Parameters
    ----------
    factors
        Factors by parameter name, in the parameters' shapes.
    """
    previous: dict[str, Tensor] = {}

    def scale(model: nn.Module) -> None:
        for name, factor in factors.items():
            weight = model.get_parameter(name).data
            start = previous.get(name, weight)
            # lerp: start + factor * (weight - start)
            previous[name] = torch.lerp(start, weight, factor)
            weight.copy_(previous[name])

    return scale


def make_triangular_schedule(epochs: int) -> Callable[[float], float]:
    """Make a learning-rate factor that rises to 1 in the middle epoch, then falls (MSG).

    It is constant within an epoch.
    """
    middle = (epochs + 1) // 2

    def schedule(done: float) -> float:
        epoch = int(done)
        rise = (epoch + 1) / middle
        fall = (epochs - epoch) / (epochs + 1 - middle)
        return min(rise, fall)

    return schedule


def measure_accuracy(model: nn.Module, samples: LabeledSet, request: Request) -> float:
    """Measure the top-1 accuracy in percent, without augmentation.

    Only for methods whose definition requires it, such as SCRUB.
    """
    is_correct = []
    with torch.no_grad():
        for index in torch.arange(len(samples)).split(request.tuning.settings.batch_size):
            images, labels = plain_batch(samples, index, request)
            is_correct.append(model(images).argmax(dim=1) == labels)
    correct_count = to_host(torch.cat(is_correct).sum()).item()
    return 100 * correct_count / len(samples)


def finetune(  # noqa: PLR0913  # methods differ in all of these
    system: System,
    request: Request,
    lr_factor: float,
    samples: LabeledSet,
    objective: Objective = cross_entropy,
    only: str = "",
    schedule: Callable[[float], float] = lambda _: 1.0,
) -> System:
    """Train a copy of `system` on `samples`, with the section `finetune`.

    Sets `request.history`.

    Parameters
    ----------
    system : System
        The original. It does not change.
    request : Request
        The method's request.
    lr_factor : float
        The learning rate as a multiple of `train.lr`, constant by default (app. B.2).
    samples : ImageSet, TensorSet or JoinedSet
        Training samples. Each epoch draws new random crops.
    objective : callable, default cross_entropy
        (model, images, labels) -> Outcome: the loss and the number of correct predictions.
    only : str, default ""
        Train only parameters whose names start with this prefix.
    schedule : callable, default constant
        Epochs done -> factor of the learning rate.

    Returns
    -------
    System
        The trained copy, in eval mode.
    """
    model = system.copy_model().train()
    for name, parameter in model.named_parameters():
        # The optimizer does not get frozen parameters, because weight decay would change them even
        # without a gradient.
        parameter.requires_grad_(parameter.requires_grad and name.startswith(only))

    rate = lr_factor * request.tuning.base_lr
    step = make_training_step(model, request, objective)
    optimizer = make_optimizer(model, request)
    request.history = fit(samples, step, optimizer, request, lambda done: rate * schedule(done))
    return finish(system, model)


def make_training_step(
    model: nn.Module, request: Request, objective: Objective = cross_entropy
) -> Callable[[Batch], Outcome]:
    """Make a step for the training loop, which computes the objective on a batch with new crops."""

    def step(batch: Batch) -> Outcome:
        images = request.tuning.augment(batch.images, request.generator)
        return objective(model, images, batch.labels)

    return step


def make_optimizer(model: nn.Module, request: Request) -> torch.optim.AdamW:
    """Make an AdamW optimizer with the settings of the section `finetune` (app. B.2)."""
    settings = request.tuning.settings
    return adamw(model.parameters(), settings.betas, settings.weight_decay)


def fit(
    samples: LabeledSet,
    step: Callable[[Batch], Outcome],
    optimizer: torch.optim.Optimizer,
    request: Request,
    rate: Callable[[float], float],
    epochs: int | None = None,
) -> History:
    """Train on shuffled batches, of which the last may be smaller. Returns one record per epoch.

    Parameters
    ----------
    rate
        Epochs done -> learning rate.
    epochs
        Number of epochs; by default, that of the section `finetune`.
    """
    tuning = request.tuning
    if epochs is None:
        epochs = tuning.settings.epochs

    def batches(_: int) -> Loader:
        order = shuffled_batches(len(samples), tuning.settings.batch_size, request.generator)
        return Loader(samples, order, request.device)

    return Fit(
        epochs=epochs,
        batches=batches,
        step=step,
        optimizer=optimizer,
        rate=rate,
        report=request.report,
        precision=Precision(tuning.precision, request.device),
    ).run()


def finish(system: System, model: nn.Module) -> System:
    """Return the unlearned system with this model, in eval mode and without gradients.

    Each parameter requires gradients if the original's does.
    """
    assert system.model is not None
    for parameter, original in zip(model.parameters(), system.model.parameters(), strict=True):
        parameter.requires_grad_(original.requires_grad)
        parameter.grad = None
    return replace(system, model=model.eval())
