"""SFRon (Huang et al. 2024; beyond the paper): a masked step away from the forget set among steps on the retain set."""

import math
from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Count, NonNegative, Positive
from munkey.unlearn.contract import Request, Tuned, method

if TYPE_CHECKING:
    from torch import Tensor

    from munkey.data.loader import Batch
    from munkey.training.loop import Outcome

TINY = 1e-15  # of the original


class SfronSettings(Tuned):
    """every: retain steps per forget step; alpha: weight of the first forget step; lam: 0: all samples count alike;
    gamma: ratio of importances from which a weight may move; max_norm: of a forget step's gradient.
    """

    every: Count
    alpha: Positive
    lam: NonNegative
    gamma: Positive
    max_norm: Positive


@method(
    "sfron",
    title="SFRon",
    description="fine-tune on the retain set; now and then ascend on the forget set, with weights that matter to it",
    citation=(
        "Z. Huang et al. *Unified Gradient-Based Machine Unlearning with Remain Geometry Enhancement*. NeurIPS 2024"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=SfronSettings,
    passes=lambda images, s: (
        3 * (images.retain + images.forget) + 3 * images.epochs * images.retain * (1 + 1 / s.every)
    ),
)
def sfron(system: System, request: Request, settings: SfronSettings) -> System:
    """The slow weights of the paper have a factor of 1 in the released code: they are the fast ones, and not here."""
    import torch

    from munkey.core.device import to_host
    from munkey.training.loop import classified, cosine
    from munkey.unlearn.finetune import endless, finished, fitted, optimizer_of
    from munkey.unlearn.saliency import importances, trainable

    model, tuning, retain = system.copy_of_model().eval(), request.tuning, request.retain
    matters, others = (importances(model, samples, request) for samples in (request.forget, retain))
    movable = {name: (matters[name] + TINY) / (others[name] + TINY) >= settings.gamma for name in matters}
    optimizer = optimizer_of(model.train(), request)
    forget = endless(request.forget, tuning.settings.batch_size, request)
    steps = tuning.settings.epochs * -(-len(retain) // tuning.settings.batch_size)
    done = 0

    def ascend(weight: float) -> None:
        images, labels = next(forget)
        losses = torch.nn.functional.cross_entropy(model(images), labels, reduction="none")
        gradients = torch.autograd.grad(-weight * adapted(losses, settings.lam), list(trainable(model).values()))
        for (name, parameter), gradient in zip(trainable(model).items(), gradients, strict=True):
            parameter.grad = gradient * movable[name]
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_norm)
        optimizer.step()
        optimizer.zero_grad()

    def step(batch: "Batch") -> "Outcome":
        nonlocal done
        if done % settings.every == 0:
            ascend(settings.alpha * (1 + math.cos(math.pi * done / steps)) / 2)
        done += 1
        return classified(model(tuning.augment(batch.images, request.generator)), batch.labels)

    rate = cosine(settings.lr_factor * tuning.base_lr, tuning.settings.epochs, 0)
    request.history = fitted(retain, step, optimizer, request, rate)
    request.facts = {"movable": int(to_host(torch.stack([mask.sum() for mask in movable.values()]).sum()))}
    return finished(system, model)


def adapted(losses: "Tensor", lam: float) -> "Tensor":
    """The mean of a batch's losses (B,), each weighted by loss^-lam; the weights have no gradient and the mean 1."""
    weights = 1 / (losses.detach() ** lam + TINY)
    return (weights / weights.sum() * losses).sum()
