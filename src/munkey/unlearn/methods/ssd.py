"""SSD, selective synaptic dampening (Foster et al. 2024; app. B.2): shrink the weights that matter most to D_f."""

from typing import TYPE_CHECKING

from munkey.core.device import to_host
from munkey.models.family import System
from munkey.settings import Positive, Section
from munkey.unlearn.contract import Cost, Request, method

if TYPE_CHECKING:
    from torch import Tensor


class SSDSettings(Section):
    """alpha: how many times more a weight must matter to D_f than to D. lam: smaller dampens more."""

    alpha: Positive
    lam: Positive


@method(
    "ssd",
    title="SSD",
    description="dampen the weights that matter more to the forget set than to all data; no training",
    citation="Foster et al. 2024",
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=SSDSettings,
    cost=Cost(lambda images, _: 3 * (images.retain + 2 * images.forget), models=3),
)
def ssd(system: System, request: Request, settings: SSDSettings) -> System:
    import torch

    from munkey.data.image_set import Joined
    from munkey.unlearn.finetune import finished
    from munkey.unlearn.saliency import importances, trainable

    model = system.copy_of_model().eval()
    forgotten = importances(model, request.forget, request)
    everything = importances(model, Joined((request.retain, request.forget)), request)
    moved = []
    for name, parameter in trainable(model).items():
        factor = dampening(forgotten[name], everything[name], settings)
        parameter.data.mul_(factor)
        moved.append((factor != 1).flatten())
    of_all = torch.cat(moved)
    dampened, total = int(to_host(of_all.sum())), len(of_all)
    request.facts = {"dampened": dampened, "weights": total}
    request.report(f"{dampened} of {total} weights dampened")
    if not dampened:
        rate = len(request.forget) / (len(request.retain) + len(request.forget))
        request.report(
            f"warning: SSD changed nothing. D holds the forget set, so hardly any weight can matter alpha ="
            f" {settings.alpha:g} times more to it unless alpha < 1 / rate = {1 / rate:.1f}: lower unlearn.ssd.alpha"
        )
    return finished(system, model)


def dampening(forgotten: "Tensor", everything: "Tensor", settings: SSDSettings) -> "Tensor":
    """Factor of each weight: min(lam I_D / I_f, 1) where I_f > alpha I_D, else 1."""
    factor = (settings.lam * everything / forgotten).clamp(max=1)
    return factor.where(forgotten > settings.alpha * everything, 1)
