"""CF, catastrophic forgetting (Goel et al. 2022; app. B.2): fine-tune on the retain set."""

from munkey.models.family import System
from munkey.unlearn.contract import Request, TuningSettings, method


@method(
    "cf",
    title="CF",
    description="fine-tune on the retain set",
    citation=(
        "S. Goel, A. Prabhu, A. Sanyal, S.-N. Lim, P. Torr, P. Kumaraguru. *Towards "
        "Adversarial Evaluations for Inexact Machine Unlearning*. 2022"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels"},
    settings=TuningSettings,
)
def cf(system: System, request: Request, settings: TuningSettings) -> System:
    from munkey.unlearn.finetune import finetune

    return finetune(system, request, settings.lr_factor, request.retain)
