"""SFRon (Huang et al. 2024; beyond the paper): train on D_r, with masked ascent steps on D_f."""

import math
from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Count, NonNegative, Positive
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor

    from munkey.data.loader import Batch
    from munkey.training.loop import Outcome

EPSILON = 1e-15  # avoids division by 0, as in the released code


class SfronSettings(TuningSettings):
    """The method's section of params.yaml.

    Attributes
    ----------
    every
        The number of retain steps per forget step.
    alpha
        The weight of the first forget step.
    lam
        How much more samples with a low loss count; 0 weights all samples equally.
    gamma
        The smallest ratio of importance to D_f over importance to D_r with which a weight changes
        in a forget step.
    max_norm
        The maximum norm to which gradients are clipped in a forget step.
    """

    every: Count
    alpha: Positive
    lam: NonNegative
    gamma: Positive
    max_norm: Positive


def count_sfron_passes(images: Images, settings: SfronSettings) -> float:
    """Count the passes for importances, and fine-tuning with interspersed forget steps."""
    steps = images.epochs * images.retain * (1 + 1 / settings.every)
    return 3 * (images.retain + images.forget) + 3 * steps


@method(
    "sfron",
    title="SFRon",
    description=(
        "fine-tune on the retain set; now and then ascend on the forget set, with weights that"
        " matter to it"
    ),
    citation=(
        "Z. Huang et al. *Unified Gradient-Based Machine Unlearning with Remain Geometry"
        " Enhancement*. NeurIPS 2024"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=SfronSettings,
    passes=count_sfron_passes,
)
def sfron(system: System, request: Request, settings: SfronSettings) -> System:
    """Train on D_r, with interspersed masked steps that raise D_f's loss."""
    # The paper's slow weights are omitted: in the released code, their factor is 1, which makes
    # them equal to the fast weights.
    import torch

    from munkey.core.device import to_host
    from munkey.training.loop import classification_outcome, cosine_schedule
    from munkey.unlearn.finetune import endless_batches, finish, fit, make_optimizer
    from munkey.unlearn.saliency import compute_importances, get_trainable_parameters

    model = system.copy_model().eval()
    retain = request.retain
    tuning = request.tuning
    to_forget = compute_importances(model, request.forget, request)
    to_retain = compute_importances(model, retain, request)
    is_movable = {}
    for name in to_forget:
        is_movable[name] = (to_forget[name] + EPSILON) / (
            to_retain[name] + EPSILON
        ) >= settings.gamma
    optimizer = make_optimizer(model.train(), request)
    forget_batches = endless_batches(request.forget, tuning.settings.batch_size, request)
    step_count = tuning.settings.epochs * math.ceil(len(retain) / tuning.settings.batch_size)
    steps_done = 0

    def take_forget_step(weight: float) -> None:
        images, labels = next(forget_batches)
        losses = torch.nn.functional.cross_entropy(model(images), labels, reduction="none")
        loss = -weight * compute_adaptive_mean(losses, settings.lam)
        parameters = get_trainable_parameters(model)
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
            parameter.grad = gradient * is_movable[name]
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_norm)
        optimizer.step()
        optimizer.zero_grad()

    def step(batch: "Batch") -> "Outcome":
        nonlocal steps_done
        if steps_done % settings.every == 0:
            # alpha_t = alpha (1 + cos(pi t / T)) / 2
            cosine_factor = (1 + math.cos(math.pi * steps_done / step_count)) / 2
            take_forget_step(settings.alpha * cosine_factor)
        steps_done += 1
        images = tuning.augment(batch.images, request.generator)
        return classification_outcome(model(images), batch.labels)

    rate = cosine_schedule(settings.lr_factor * tuning.base_lr, tuning.settings.epochs, 0)
    request.history = fit(retain, step, optimizer, request, rate)
    movable_count = torch.stack([mask.sum() for mask in is_movable.values()]).sum()
    request.facts = {"movable": int(to_host(movable_count))}
    return finish(system, model)


def compute_adaptive_mean(losses: "Tensor", lam: float) -> "Tensor":
    """Compute the mean of losses (B,), weighted by loss^-lam. The weights have no gradient."""
    weights = 1 / (losses.detach() ** lam + EPSILON)
    return (weights / weights.sum() * losses).sum()
