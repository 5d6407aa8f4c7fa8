"""UNSIR (Tarun et al. 2023; beyond the paper): train on noise for forgotten classes; repair."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Count, Positive
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from munkey.data.image_set import LabeledSet


class UnsirSettings(TuningSettings):
    """The section `unlearn.unsir` of params.yaml."""

    noise_steps: Count
    copies: Count
    retain_per_class: Count
    repair: Positive


def unsir_passes(images: Images, settings: UnsirSettings) -> int:
    """Count the passes for one class's noise, for an epoch with it, and for the repair epoch."""
    noise_images = (settings.noise_steps + settings.copies) * images.batch
    return 3 * (noise_images + 2 * images.retain)


@method(
    "unsir",
    title="UNSIR",
    description=(
        "for whole classes: train on noise that the model does not recognize, labeled with these"
        " classes, then fine-tune on the retain set"
    ),
    citation=(
        "A. K. Tarun, V. S. Chundawat, M. Mandal, M. Kankanhalli. *Fast Yet Effective Machine"
        " Unlearning*. TNNLS 2023"
    ),
    family="vit",
    needs={"forget labels", "retain images", "retain labels"},
    settings=UnsirSettings,
    whole_classes=True,
    passes=unsir_passes,
)
def unsir(system: System, request: Request, settings: UnsirSettings) -> System:
    """Train on D_r and on noise labeled with the forgotten classes, then repair on D_r."""
    import numpy as np

    from munkey.data.image_set import JoinedSet
    from munkey.unlearn.finetune import (
        finish,
        fit,
        make_optimizer,
        make_repelling_noise,
        make_training_step,
        select,
    )

    model = system.copy_model().eval()
    retain = request.retain
    lr = settings.lr_factor * request.tuning.base_lr

    positions_by_class = []
    for label in np.unique(retain.labels):
        class_positions = np.flatnonzero(retain.labels == label)
        positions_by_class.append(class_positions[: settings.retain_per_class])
    retain_subset = select(retain, np.sort(np.concatenate(positions_by_class)))

    size = retain.images[0].shape[:2]
    noise_batches = []
    for label in np.unique(request.forget.labels).tolist():
        noise = make_repelling_noise(model, label, size, settings.noise_steps, request)
        noise_batches.append(noise)
    model.train()

    def train_one_epoch(samples: "LabeledSet", epoch_lr: float) -> None:
        step = make_training_step(model, request)
        optimizer = make_optimizer(model, request)
        (record,) = fit(
            samples, step, optimizer, request, learning_rate=lambda _: epoch_lr, epochs=1
        )
        request.history.append(record | {"epoch": len(request.history) + 1})

    copied_noise = noise_batches * settings.copies
    train_one_epoch(JoinedSet((retain_subset, *copied_noise)), lr)
    train_one_epoch(retain_subset, settings.repair * lr)
    return finish(system, model)
