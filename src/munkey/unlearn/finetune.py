"""Functions that fine-tuning methods share (app. B.2 of the paper), on top of the training loop."""

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
from munkey.training.loop import (
    Outcome,
    TrainingLoop,
    adamw,
    classification_outcome,
    shuffled_batches,
)
from munkey.training.precision import Precision
from munkey.unlearn.contract import Request

Objective = Callable[[nn.Module, Tensor, Tensor], Outcome]


def plain_batch(samples: LabeledSet, index: Tensor, request: Request) -> LabeledImages:
    """Return a batch of images (B, 3, S, S), prepared as at test time, and labels (B,)."""
    images, labels = samples.batch(index, request.device)
    return LabeledImages(request.tuning.augment.eval_transform(images), labels)


def endless_batches(
    samples: LabeledSet, batch_size: int, request: Request
) -> Iterator[LabeledImages]:
    """Yield augmented batches endlessly, with a new order and new crops in each epoch."""
    while True:
        for index in shuffled_batches(len(samples), batch_size, request.generator):
            images, labels = samples.batch(index, request.device)
            yield LabeledImages(request.tuning.augment(images, request.generator), labels)


def cross_entropy(model: nn.Module, images: Tensor, labels: Tensor) -> Outcome:
    """Return the mean cross-entropy of a batch, and the number of correct predictions."""
    return classification_outcome(model(images), labels)


def uniformity_outcome(scores: Tensor) -> Outcome:
    """Return the mean of KL(uniform || softmax) over rows of scores (B, n), plus log n (FCS)."""
    correct = scores.new_zeros(())  # scores are not predictions, so none is correct
    return Outcome(-scores.log_softmax(dim=1).mean(), correct)


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return T^2 KL(softmax(teacher / T) || softmax(student / T)) (Hinton et al. 2015).

    The teacher receives no gradient.
    """
    scaled_student = student / temperature
    scaled_teacher = teacher.detach() / temperature
    log_p = scaled_teacher - scaled_teacher.logsumexp(dim=1, keepdim=True)
    p = log_p.exp()
    # In this form, the gradient, softmax(student) - p, is exactly 0 if the student equals the
    # teacher. The gradient of F.kl_div would be rounding noise, which AdamW turns into full steps.
    cross_entropies = scaled_student.logsumexp(dim=1) - (p * scaled_student).sum(dim=1)
    divergence = cross_entropies + (p * log_p).sum(dim=1)
    return temperature**2 * divergence.mean()


def mislabel(samples: ImageSet, classes: int, generator: torch.Generator) -> ImageSet:
    """Return the images with random wrong labels, drawn uniformly from the other classes."""
    # Adding a random number from 1 to C - 1, modulo C, gives each of the other classes with the
    # same probability.
    shifts = torch.randint(1, classes, (len(samples),), generator=generator).numpy()
    labels = (np.asarray(samples.labels) + shifts) % classes
    return replace(samples, labels=labels)


def mark_samples(samples: ImageSet, positions: Tensor, mark: bool) -> ImageSet:
    """Return the samples at these positions, with `mark` instead of their labels."""
    rows = positions.numpy()
    return replace(
        samples,
        rows=samples.rows[rows],
        ids=samples.ids[rows],
        labels=np.full(len(rows), mark),
    )


def select(samples: ImageSet, positions: np.ndarray) -> ImageSet:
    """Return the samples at these positions."""
    return replace(
        samples,
        rows=samples.rows[positions],
        ids=samples.ids[positions],
        labels=samples.labels[positions],
    )


def split_by_loss(system: System, request: Request, part_count: int) -> list[ImageSet]:
    """Split the forget set into equal parts, each sorted by id, from the lowest loss up."""
    model = system.copy_model().eval()
    forget = request.forget
    losses = []
    with torch.no_grad():
        for index in torch.arange(len(forget)).split(request.tuning.settings.batch_size):
            images, labels = plain_batch(forget, index, request)
            losses.append(F.cross_entropy(model(images), labels, reduction="none"))
    positions_by_loss = to_host(torch.cat(losses)).argsort(stable=True).numpy()
    parts = np.array_split(positions_by_loss, part_count)
    return [select(forget, np.sort(positions)) for positions in parts]


def make_repelling_noise(
    model: nn.Module,
    label: int,
    size: tuple[int, ...],
    steps: int,
    request: Request,
) -> TensorSet:
    """Return a batch of noise images that maximizes the model's error on a class (UNSIR).

    The noise has the scale of pixels in [0, 1], but is not clipped. `size` is the stored images'
    height and width. The model's weights do not change.
    """
    augment = request.tuning.augment
    batch_size = request.tuning.settings.batch_size
    initial_noise = torch.randn((batch_size, 3, *size), generator=request.generator)
    noise = to_device(initial_noise, request.device).requires_grad_()  # in normalized pixels
    labels = torch.full((batch_size,), label)
    targets = to_device(labels, request.device)
    # The learning rate and the weight of the penalty are those of UNSIR's code.
    optimizer = torch.optim.Adam([noise], lr=0.1)
    for _ in range(steps):
        inputs = augment.eval_transform(augment.mean + augment.std * noise)
        penalty = 0.1 * inputs.square().sum(dim=(1, 2, 3)).mean()
        loss = penalty - F.cross_entropy(model(inputs), targets)
        # Unlike loss.backward(), this does not compute the gradients of the weights.
        (gradient,) = torch.autograd.grad(loss, noise)
        noise.grad = gradient
        optimizer.step()
    return TensorSet(to_host(augment.mean + augment.std * noise.detach()), labels)


def make_step_scaler(factors: Mapping[str, Tensor]) -> Callable[[nn.Module], None]:
    """Return a function that scales, in place, how far weights moved since its previous call.

    Its first call only stores the weights. Scaling gradients instead would have no effect, since
    AdamW divides each by its own magnitude. `factors`: by parameter name, in its shape.
    """
    previous_weights: dict[str, Tensor] = {}

    def scale_steps(model: nn.Module) -> None:
        for name, factor in factors.items():
            weight = model.get_parameter(name).data
            previous = previous_weights.get(name, weight)
            # lerp: previous + factor * (weight - previous)
            previous_weights[name] = torch.lerp(previous, weight, factor)
            weight.copy_(previous_weights[name])

    return scale_steps


def make_triangular_schedule(epochs: int) -> Callable[[float], float]:
    """Return a schedule of factors that rise to 1 in the middle of training and then fall (MSG).

    It maps completed epochs to a factor, which is constant within an epoch.
    """
    middle = (epochs + 1) // 2

    def schedule(progress: float) -> float:
        epoch = int(progress)
        rise = (epoch + 1) / middle
        fall = (epochs - epoch) / (epochs + 1 - middle)
        return min(rise, fall)

    return schedule


def measure_accuracy(model: nn.Module, samples: LabeledSet, request: Request) -> float:
    """Return the top-1 accuracy in percent, without augmentation.

    Use this only for methods whose definition requires it, such as SCRUB.
    """
    is_correct = []
    with torch.no_grad():
        for index in torch.arange(len(samples)).split(request.tuning.settings.batch_size):
            images, labels = plain_batch(samples, index, request)
            is_correct.append(model(images).argmax(dim=1) == labels)
    correct_count = to_host(torch.cat(is_correct).sum()).item()
    return 100 * correct_count / len(samples)


def finetune(  # noqa: PLR0913  # the last three parameters can only be passed by name
    system: System,
    request: Request,
    lr_factor: float,
    samples: LabeledSet,
    *,
    objective: Objective = cross_entropy,
    only: str = "",
    schedule: Callable[[float], float] = lambda _: 1.0,
) -> System:
    """Train a copy of `system` on `samples`, with the settings of the section `finetune`.

    Stores a record for each epoch in `request.history`.

    Parameters
    ----------
    system : System
        The original, which is not changed.
    request : Request
        Gives the device, the random generator and the settings of fine-tuning.
    lr_factor : float
        Factor of the base learning rate, `train.lr` (app. B.2 of the paper).
    samples : LabeledSet
        An ImageSet, TensorSet or JoinedSet. Its images are randomly cropped in each epoch.
    objective : callable, default cross_entropy
        ``objective(model, images, labels)`` returns an Outcome.
    only : str, default ""
        Prefix of the names of the parameters to train. By default, all parameters.
    schedule : callable, optional
        Number of completed epochs, including fractions -> factor of the learning rate. By default,
        1.

    Returns
    -------
    System
        The trained copy, in eval mode.
    """
    model = system.copy_model().train()
    for name, parameter in model.named_parameters():
        # Frozen parameters are not passed to the optimizer, since weight decay would change them
        # even without a gradient.
        parameter.requires_grad_(parameter.requires_grad and name.startswith(only))

    base_lr = lr_factor * request.tuning.base_lr
    request.history = fit(
        samples,
        step=make_training_step(model, request, objective),
        optimizer=make_optimizer(model, request),
        request=request,
        learning_rate=lambda progress: base_lr * schedule(progress),
    )
    return finish(system, model)


def make_training_step(
    model: nn.Module, request: Request, objective: Objective = cross_entropy
) -> Callable[[Batch], Outcome]:
    """Return a step function for the training loop that computes the objective on random crops."""

    def step(batch: Batch) -> Outcome:
        images = request.tuning.augment(batch.images, request.generator)
        return objective(model, images, batch.labels)

    return step


def make_optimizer(model: nn.Module, request: Request) -> torch.optim.AdamW:
    """Return an AdamW optimizer with the settings of the section `finetune` (app. B.2)."""
    settings = request.tuning.settings
    return adamw(model.parameters(), settings.betas, settings.weight_decay)


def fit(
    samples: LabeledSet,
    step: Callable[[Batch], Outcome],
    optimizer: torch.optim.Optimizer,
    request: Request,
    learning_rate: Callable[[float], float],
    epochs: int | None = None,
) -> History:
    """Train on shuffled batches. Returns a record for each epoch.

    `step` computes the loss of a batch, and `learning_rate` maps completed epochs to the rate. By
    default, `epochs` is that of the section `finetune`.
    """
    tuning = request.tuning
    if epochs is None:
        epochs = tuning.settings.epochs

    def batches(_: int) -> Loader:
        positions = shuffled_batches(len(samples), tuning.settings.batch_size, request.generator)
        return Loader(samples, positions, request.device)

    return TrainingLoop(
        epochs=epochs,
        batches=batches,
        step=step,
        optimizer=optimizer,
        learning_rate=learning_rate,
        report=request.report,
        precision=Precision(tuning.precision, request.device),
    ).run()


def finish(system: System, model: nn.Module) -> System:
    """Return a copy of the system with this model, in eval mode, trainable where `system` is."""
    assert system.model is not None, "a system without a network"
    for parameter, original in zip(model.parameters(), system.model.parameters(), strict=True):
        parameter.requires_grad_(original.requires_grad)
        parameter.grad = None
    return replace(system, model=model.eval())
