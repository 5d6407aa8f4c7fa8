"""FCS: forget, then contrast and strengthen in turns (Cadet et al. 2024; beyond the paper)."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Positive
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class FCSSettings(TuningSettings):
    """The method's section of params.yaml.

    Attributes
    ----------
    first, contrast
        The learning rates of the forget pass and the contrast passes, as multiples of the rate on
        the retain set.
    temperature
        The temperature of the logits' products.
    """

    first: Positive
    contrast: Positive
    temperature: Positive


def count_fcs_passes(images: Images, _: FCSSettings) -> int:
    """Count the forget pass, and contrast with retain images and training on them in each round."""
    return 3 * images.forget + images.epochs * (4 * images.forget + 3 * images.retain)


@method(
    "fcs",
    title="FCS",
    description=(
        "make predictions on the forget set uniform; then alternate between contrasting it with "
        "the retain set and fine-tuning on that"
    ),
    citation=(
        "X. F. Cadet, A. Borovykh, M. Malekzadeh, S. Ahmadi-Abhari, H. Haddadi. *Deep Unlearn: "
        "Benchmarking Machine Unlearning for Image Classification*"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images"},
    settings=FCSSettings,
    passes=count_fcs_passes,
)
def fcs(system: System, request: Request, settings: FCSSettings) -> System:
    """Flatten predictions on D_f, then alternate contrasts of D_f and D_r with training on D_r."""
    import torch

    from munkey.training.loop import cosine_schedule
    from munkey.unlearn.finetune import (
        endless_batches,
        finish,
        fit,
        make_optimizer,
        make_training_step,
        mark_samples,
        uniformity_outcome,
    )

    model = system.copy_model().train()
    retain = request.retain
    # The labels are not needed.
    forget = mark_samples(request.forget, torch.arange(len(request.forget)), True)
    tuning = request.tuning.settings
    history = request.history
    rate = settings.lr_factor * request.tuning.base_lr
    contrast_rate = cosine_schedule(settings.contrast * rate, tuning.epochs, 0)
    # As in the original, each of the three objectives has its own optimizer.
    forget_optimizer = make_optimizer(model, request)
    contrast_optimizer = make_optimizer(model, request)
    strengthen_optimizer = make_optimizer(model, request)

    def uniform(model: "nn.Module", images: "Tensor", _: "Tensor") -> "Outcome":
        return uniformity_outcome(model(images))

    def contrast(model: "nn.Module", images: "Tensor", _: "Tensor") -> "Outcome":
        forget_logits = model(images)
        with torch.no_grad():
            retain_logits = model(next(retain_batches).images)
        # A forget image should be equally similar to all retain images in a batch.
        return uniformity_outcome(forget_logits @ retain_logits.T / settings.temperature)

    uniform_step = make_training_step(model, request, uniform)
    contrast_step = make_training_step(model, request, contrast)
    strengthen_step = make_training_step(model, request)
    fit(forget, uniform_step, forget_optimizer, request, lambda _: settings.first * rate, epochs=1)
    for _ in range(tuning.epochs):
        retain_batches = endless_batches(retain, tuning.batch_size, request)
        fit(
            forget,
            contrast_step,
            contrast_optimizer,
            request,
            lambda done: contrast_rate(len(history) + done),
            epochs=1,
        )
        (record,) = fit(
            retain,
            strengthen_step,
            strengthen_optimizer,
            request,
            lambda _: rate,
            epochs=1,
        )
        history.append(record | {"epoch": len(history) + 1})
    return finish(system, model)
