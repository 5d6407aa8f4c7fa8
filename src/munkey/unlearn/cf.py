"""CF, catastrophic forgetting (Goel et al. 2022; app. B.2): fine-tune on the retain set and let the rest fade."""

from typing import TYPE_CHECKING

from munkey.unlearn import Request, Tuned, method

if TYPE_CHECKING:
    from munkey.system import System


@method(
    "cf",
    title="CF",
    description="fine-tune on the retain set",
    citation="Goel et al. 2022",
    base="vit",
    oracle="retrain-t",
    needs={"retain images", "retain labels"},
    settings=Tuned,
)
def cf(system: "System", request: Request, settings: Tuned) -> "System":
    from munkey.finetune import finetune

    return finetune(system, request, settings.lr_factor, request.retain)
