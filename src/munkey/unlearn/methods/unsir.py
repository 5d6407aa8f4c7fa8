"""UNSIR (Tarun et al. 2023; beyond the paper): learn noise as the forgotten classes, then repair. For whole classes."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Count, Positive
from munkey.unlearn.contract import Request, Tuned, method

if TYPE_CHECKING:
    from munkey.data.image_set import Labeled


class UnsirSettings(Tuned):
    """noise_steps: that make the noise of a class; copies: of its batch of noise; retain_per_class: samples that take
    part; repair: learning rate of the last epoch / that of the first.
    """

    noise_steps: Count
    copies: Count
    retain_per_class: Count
    repair: Positive


@method(
    "unsir",
    title="UNSIR",
    description="for whole classes: learn noise unlike them under their names, then fine-tune on the retain set",
    citation=(
        "A. K. Tarun, V. S. Chundawat, M. Mandal, M. Kankanhalli. *Fast Yet Effective Machine Unlearning*. TNNLS 2023"
    ),
    family="vit",
    needs={"forget labels", "retain images", "retain labels"},
    settings=UnsirSettings,
    whole_classes=True,
    # For one class.
    passes=lambda images, s: 3 * ((s.noise_steps + s.copies) * images.batch + 2 * images.retain),
)
def unsir(system: System, request: Request, settings: UnsirSettings) -> System:
    import numpy as np

    from munkey.data.image_set import Joined
    from munkey.unlearn.finetune import finished, fitted, optimizer_of, repelling_noise, subset, training_step

    model, retain, rate = system.copy_of_model().eval(), request.retain, settings.lr_factor * request.tuning.base_lr
    of_class = (np.flatnonzero(retain.labels == label) for label in np.unique(retain.labels))
    kept = subset(retain, np.sort(np.concatenate([rows[: settings.retain_per_class] for rows in of_class])))
    gone, side = np.unique(request.forget.labels).tolist(), retain.images[0].shape[:2]
    noise = [repelling_noise(model, label, side, settings.noise_steps, request) for label in gone]
    model.train()

    def epoch(samples: "Labeled", rate: float) -> None:
        step, optimizer = training_step(model, request), optimizer_of(model, request)
        (entry,) = fitted(samples, step, optimizer, request, lambda _: rate, epochs=1)
        request.history.append(entry | {"epoch": len(request.history) + 1})

    epoch(Joined((kept, *noise * settings.copies)), rate)
    epoch(kept, settings.repair * rate)
    return finished(system, model)
