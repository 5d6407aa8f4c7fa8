"""CF-k (Goel et al. 2022; app. B.2): as CF, but only the classifier head trains; the final norm is frozen too."""

from typing import TYPE_CHECKING

from munkey.unlearn import Request, Tuned, method

if TYPE_CHECKING:
    from munkey.system import System


@method(
    "cf-k",
    title="CF-k",
    description="fine-tune the head on the retain set",
    citation="Goel et al. 2022",
    base="vit",
    oracle="retrain-t",
    needs={"retain images", "retain labels"},
    settings=Tuned,
)
def cf_k(system: "System", request: Request, settings: Tuned) -> "System":
    from munkey.finetune import finetune

    return finetune(system, request, settings.lr_factor, request.retain, only="head.")
