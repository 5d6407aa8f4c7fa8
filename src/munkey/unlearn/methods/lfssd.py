"""LFSSD (Foster et al. 2024, arXiv 2402.19308; beyond the paper): SSD without labels, from the size of the answers."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.unlearn.contract import Request, method
from munkey.unlearn.methods.ssd import SSDSettings

if TYPE_CHECKING:
    from torch import Tensor


@method(
    "lfssd",
    title="LFSSD",
    description="as SSD, by how much each weight changes the size of the answers; no labels, no training",
    citation=(
        "J. Foster, S. Schoepf, A. Brintrup. *Loss-Free Machine Unlearning*. ICLR 2024, tiny paper. arXiv 2402.19308"
    ),
    family="vit",
    needs={"retain images", "forget images"},
    settings=SSDSettings,
    passes=lambda images, _: 3 * (images.retain + 2 * images.forget),
)
def lfssd(system: System, request: Request, settings: SSDSettings) -> System:
    import torch

    from munkey.data.image_set import Joined
    from munkey.unlearn.finetune import finished, marked
    from munkey.unlearn.saliency import dampened, importances

    def size(logits: "Tensor", _: "Tensor") -> "Tensor":
        return logits.square().sum(dim=1).mean()

    model = system.copy_of_model().eval()
    retain, forget = (marked(part, torch.arange(len(part)), True) for part in (request.retain, request.forget))
    forgotten, of_all = (
        importances(model, samples, request, settings.per_sample, size, torch.abs)
        for samples in (forget, Joined((retain, forget)))
    )
    return finished(system, dampened(model, request, forgotten, of_all, settings.alpha, settings.lam))
