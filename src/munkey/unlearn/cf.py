"""CF, catastrophic forgetting (Goel et al. 2022; app. B.2): fine-tune on the retain set and let the rest fade."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from munkey.unlearn import Request, Settings, method

if TYPE_CHECKING:
    from torch import Tensor

    from munkey.system import System


class CFSettings(Settings):
    lr_factor: Annotated[float, Field(gt=0)]


@method(
    "cf",
    title="CF",
    description="fine-tune on the retain set",
    base="vit",
    oracle="retrain-t",
    needs={"retain images", "retain labels"},
    settings=CFSettings,
)
def cf(system: "System", request: Request, settings: CFSettings) -> "System":
    from dataclasses import replace

    from munkey.train import adamw, classified, fit, shuffled

    model, retain, tuning = system.copy_of_model().train(), request.retain, request.tuning

    def step(index: "Tensor") -> "tuple[Tensor, Tensor]":
        images, labels = retain.batch(index, request.device)
        return classified(model(tuning.augment(images, request.generator)), labels)

    request.history = fit(
        tuning.settings.epochs,
        lambda _: shuffled(len(retain), tuning.settings.batch_size, request.generator),
        step,
        adamw(model.parameters(), tuning.settings.betas, tuning.settings.weight_decay),
        lambda _: settings.lr_factor * tuning.base_lr,
        request.report,
    )
    return replace(system, model=model.eval())
