"""SFRon (Huang et al. 2024; beyond the paper): steps on D_r with occasional steps against D_f."""

import math
from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Count, NonNegative, Positive
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor

    from munkey.data.loader import Batch
    from munkey.training.loop import Outcome

EPS = 1e-15  # prevents division by 0, as in the released code


class SfronSettings(TuningSettings):
    """The section `unlearn.sfron` of params.yaml."""

    every: Count
    alpha: Positive
    lam: NonNegative
    gamma: Positive
    max_norm: Positive


def sfron_passes(images: Images, settings: SfronSettings) -> float:
    """Count the passes for importances, retain steps, and forget steps."""
    steps = images.epochs * images.retain * (1 + 1 / settings.every)
    return 3 * (images.retain + images.forget) + 3 * steps


@method(
    "sfron",
    title="SFRon",
    description=(
        "fine-tune on the retain set, with occasional gradient ascent on the forget set in the"
        " weights that matter to it"
    ),
    citation=(
        "Z. Huang et al. *Unified Gradient-Based Machine Unlearning with Remain Geometry"
        " Enhancement*. NeurIPS 2024"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=SfronSettings,
    passes=sfron_passes,
)
def sfron(system: System, request: Request, settings: SfronSettings) -> System:
    """Fine-tune on D_r, with occasional steps that increase the loss of D_f."""
    # The slow weights of the paper are omitted, because the released code sets their factor to 1,
    # which makes them equal to the fast weights.
    import torch

    from munkey.core.device import to_host
    from munkey.training.loop import classification_outcome, cosine_schedule
    from munkey.unlearn.finetune import endless_batches, finish, fit, make_optimizer
    from munkey.unlearn.saliency import compute_importances, trainable_parameters

    model = system.copy_model().eval()
    retain = request.retain
    tuning = request.tuning
    forget_importances = compute_importances(model, request.forget, request)
    retain_importances = compute_importances(model, retain, request)
    masks = {}
    for name in forget_importances:
        ratio = (forget_importances[name] + EPS) / (retain_importances[name] + EPS)
        masks[name] = ratio >= settings.gamma
    optimizer = make_optimizer(model.train(), request)
    forget_batches = endless_batches(request.forget, tuning.settings.batch_size, request)
    step_count = tuning.settings.epochs * math.ceil(len(retain) / tuning.settings.batch_size)
    completed_steps = 0

    def forget_step(ascent_weight: float) -> None:
        images, labels = next(forget_batches)
        losses = torch.nn.functional.cross_entropy(model(images), labels, reduction="none")
        # The optimizer descends. The minus sign makes it ascend on the loss of D_f.
        loss = -ascent_weight * adaptive_mean(losses, settings.lam)
        parameters = trainable_parameters(model)
        # `loss.backward` would add to the gradients that the last retain step has left in the
        # parameters. Here, the masked gradients replace them.
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
            parameter.grad = gradient * masks[name]
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_norm)
        optimizer.step()
        optimizer.zero_grad()

    def step(batch: "Batch") -> "Outcome":
        nonlocal completed_steps
        if completed_steps % settings.every == 0:
            # alpha_t = alpha (1 + cos(pi t / T)) / 2
            cosine_factor = (1 + math.cos(math.pi * completed_steps / step_count)) / 2
            forget_step(settings.alpha * cosine_factor)
        completed_steps += 1
        images = tuning.augment(batch.images, request.generator)
        return classification_outcome(model(images), batch.labels)

    lr = settings.lr_factor * tuning.base_lr
    learning_rate = cosine_schedule(lr, tuning.settings.epochs, warmup_epochs=0)
    request.history = fit(retain, step, optimizer, request, learning_rate=learning_rate)
    movable_count = torch.stack([mask.sum() for mask in masks.values()]).sum()
    request.facts = {"movable": int(to_host(movable_count))}
    return finish(system, model)


def adaptive_mean(losses: "Tensor", lam: float) -> "Tensor":
    """Return the mean of losses (B,), each weighted by loss^-lam.

    The weights receive no gradient.
    """
    weights = 1 / (losses.detach() ** lam + EPS)
    return (weights / weights.sum() * losses).sum()
