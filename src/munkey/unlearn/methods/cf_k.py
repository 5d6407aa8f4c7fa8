"""CF-k (Goel et al. 2022; app. B.2): CF on only the head. The final norm is also frozen."""

from munkey.models.family import System
from munkey.unlearn.contract import Request, TuningSettings, method


@method(
    "cf-k",
    title="CF-k",
    description="fine-tune the head on the retain set",
    citation=(
        "S. Goel et al. *Towards Adversarial Evaluations for Inexact Machine Unlearning*. 2022"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels"},
    settings=TuningSettings,
)
def cf_k(system: System, request: Request, settings: TuningSettings) -> System:
    from munkey.unlearn.finetune import finetune

    return finetune(system, request, settings.lr_factor, request.retain, only="head.")
