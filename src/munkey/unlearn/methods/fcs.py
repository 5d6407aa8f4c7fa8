"""FCS: forget, then alternately contrast and strengthen (Cadet et al. 2024; beyond the paper)."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Positive
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class FCSSettings(TuningSettings):
    """The section `unlearn.fcs` of params.yaml."""

    first: Positive
    contrast: Positive
    temperature: Positive


def fcs_passes(images: Images, _: FCSSettings) -> int:
    """Count an epoch on D_f, and the contrast epoch and the retain epoch of each round."""
    return 3 * images.forget + images.epochs * (4 * images.forget + 3 * images.retain)


@method(
    "fcs",
    title="FCS",
    description=(
        "make predictions on the forget set uniform; then alternate between making each forget"
        " image equally similar to all retain images and fine-tuning on the retain set"
    ),
    citation=(
        "X. F. Cadet, A. Borovykh, M. Malekzadeh, S. Ahmadi-Abhari, H. Haddadi. *Deep Unlearn: "
        "Benchmarking Machine Unlearning for Image Classification*"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images"},
    settings=FCSSettings,
    passes=fcs_passes,
)
def fcs(system: System, request: Request, settings: FCSSettings) -> System:
    """Make predictions on D_f uniform, then alternately contrast D_f with D_r and train on D_r."""
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
    # The labels are not needed, so replace them.
    forget = mark_samples(request.forget, torch.arange(len(request.forget)), mark=True)
    tuning = request.tuning.settings
    history = request.history
    lr = settings.lr_factor * request.tuning.base_lr
    contrast_schedule = cosine_schedule(settings.contrast * lr, tuning.epochs, warmup_epochs=0)
    # As in the original, each of the three objectives has its own optimizer.
    forget_optimizer = make_optimizer(model, request)
    contrast_optimizer = make_optimizer(model, request)
    strengthen_optimizer = make_optimizer(model, request)

    def forget_objective(network: "nn.Module", images: "Tensor", _: "Tensor") -> "Outcome":
        return uniformity_outcome(network(images))

    def contrast_objective(network: "nn.Module", images: "Tensor", _: "Tensor") -> "Outcome":
        forget_logits = network(images)
        with torch.no_grad():
            retain_logits = network(next(retain_batches).images)
        # Make each forget image equally similar to all retain images of the batch.
        return uniformity_outcome(forget_logits @ retain_logits.T / settings.temperature)

    forget_step = make_training_step(model, request, forget_objective)
    contrast_step = make_training_step(model, request, contrast_objective)
    strengthen_step = make_training_step(model, request)
    fit(
        forget,
        forget_step,
        forget_optimizer,
        request,
        learning_rate=lambda _: settings.first * lr,
        epochs=1,
    )
    for _ in range(tuning.epochs):
        # `contrast_objective` reads these batches.
        retain_batches = endless_batches(retain, tuning.batch_size, request)
        fit(
            forget,
            contrast_step,
            contrast_optimizer,
            request,
            # One schedule spans all rounds; `history` has a record for each completed round.
            learning_rate=lambda progress: contrast_schedule(len(history) + progress),
            epochs=1,
        )
        (record,) = fit(
            retain,
            strengthen_step,
            strengthen_optimizer,
            request,
            learning_rate=lambda _: lr,
            epochs=1,
        )
        history.append(record | {"epoch": len(history) + 1})
    return finish(system, model)
