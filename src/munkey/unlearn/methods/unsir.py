"""UNSIR (Tarun et al. 2023; beyond the paper): train forgotten classes on noise, then repair."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Count, Positive
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from munkey.data.image_set import LabeledSet


class UnsirSettings(TuningSettings):
    """The method's section of params.yaml.

    Attributes
    ----------
    noise_steps
        The number of optimization steps for a class's noise.
    copies
        How often its batch of noise is repeated.
    retain_per_class
        The number of retain samples to use per class.
    repair
        The learning rate of the repair epoch, as a multiple of the first epoch's.
    """

    noise_steps: Count
    copies: Count
    retain_per_class: Count
    repair: Positive


def count_unsir_passes(images: Images, settings: UnsirSettings) -> int:
    """Count noise optimization for one class, an epoch with this noise, and the repair epoch."""
    noise = (settings.noise_steps + settings.copies) * images.batch
    return 3 * (noise + 2 * images.retain)


@method(
    "unsir",
    title="UNSIR",
    description=(
        "for whole classes: learn noise unlike them under their names, then fine-tune on the"
        " retain set"
    ),
    citation=(
        "A. K. Tarun, V. S. Chundawat, M. Mandal, M. Kankanhalli. *Fast Yet Effective Machine"
        " Unlearning*. TNNLS 2023"
    ),
    family="vit",
    needs={"forget labels", "retain images", "retain labels"},
    settings=UnsirSettings,
    whole_classes=True,
    passes=count_unsir_passes,
)
def unsir(system: System, request: Request, settings: UnsirSettings) -> System:
    """Train on D_r and on noise labeled as the forgotten classes, then repair on D_r."""
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
    rate = settings.lr_factor * request.tuning.base_lr

    rows_by_class = []
    for label in np.unique(retain.labels):
        rows_of_class = np.flatnonzero(retain.labels == label)
        rows_by_class.append(rows_of_class[: settings.retain_per_class])
    retain_sample = select(retain, np.sort(np.concatenate(rows_by_class)))

    side = retain.images[0].shape[:2]
    noise = []
    for label in np.unique(request.forget.labels).tolist():
        noise.append(make_repelling_noise(model, label, side, settings.noise_steps, request))
    model.train()

    def train_one_epoch(samples: "LabeledSet", rate: float) -> None:
        step = make_training_step(model, request)
        optimizer = make_optimizer(model, request)
        (record,) = fit(samples, step, optimizer, request, lambda _: rate, epochs=1)
        request.history.append(record | {"epoch": len(request.history) + 1})

    train_one_epoch(JoinedSet((retain_sample, *noise * settings.copies)), rate)
    train_one_epoch(retain_sample, settings.repair * rate)
    return finish(system, model)
