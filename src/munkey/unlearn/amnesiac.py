"""Amnesiac (Graves et al. 2021, as in Foster et al. 2024; app. B.2): fine-tune with wrong labels on the forget set."""

from typing import TYPE_CHECKING

from munkey.unlearn import Request, Tuned, method

if TYPE_CHECKING:
    from munkey.system import System


@method(
    "amnesiac",
    title="Amnesiac",
    description="fine-tune on everything, the forget set with random wrong labels",
    citation="Graves et al. 2021, as in Foster et al. 2024",
    base="vit",
    oracle="retrain-t",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=Tuned,
)
def amnesiac(system: "System", request: Request, settings: Tuned) -> "System":
    from munkey.finetune import finetune, mislabelled
    from munkey.images import Joined

    wrong = mislabelled(request.forget, system.architecture["classes"], request.generator)
    return finetune(system, request, settings.lr_factor, Joined((request.retain, wrong)))
