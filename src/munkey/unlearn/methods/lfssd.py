"""LFSSD (Foster et al. 2024, arXiv 2402.19308; beyond the paper): SSD without labels."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.unlearn.contract import Request, method
from munkey.unlearn.methods.ssd import SSDSettings

if TYPE_CHECKING:
    from torch import Tensor

    from munkey.data.image_set import LabeledSet


@method(
    "lfssd",
    title="LFSSD",
    description=(
        "like SSD, with importances from the norm of the logits; needs no labels and no training"
    ),
    citation=(
        "J. Foster, S. Schoepf, A. Brintrup. *Loss-Free Machine Unlearning*. ICLR 2024, tiny"
        " paper. arXiv 2402.19308"
    ),
    family="vit",
    needs={"retain images", "forget images"},
    settings=SSDSettings,
    # The importances to D_f, and to D, which includes D_f.
    passes=lambda images, _: 3 * (images.retain + 2 * images.forget),
)
def lfssd(system: System, request: Request, settings: SSDSettings) -> System:
    """Dampen the weights that affect the norm of the logits more on D_f than on D."""
    import torch

    from munkey.data.image_set import JoinedSet
    from munkey.unlearn.finetune import finish, mark_samples
    from munkey.unlearn.saliency import compute_importances, dampen

    model = system.copy_model().eval()

    def squared_norm(logits: "Tensor", _: "Tensor") -> "Tensor":
        return logits.square().sum(dim=1).mean()

    def estimate_importances(samples: "LabeledSet") -> "dict[str, Tensor]":
        # Average the absolute values of gradients, not their squares as in SSD.
        return compute_importances(
            model,
            samples,
            request,
            settings.per_sample,
            criterion=squared_norm,
            magnitude=torch.abs,
        )

    # The labels are not needed, so replace them.
    retain = mark_samples(request.retain, torch.arange(len(request.retain)), mark=True)
    forget = mark_samples(request.forget, torch.arange(len(request.forget)), mark=True)
    forget_importances = estimate_importances(forget)
    all_importances = estimate_importances(JoinedSet((retain, forget)))
    dampen(model, request, forget_importances, all_importances, settings.alpha, settings.lam)
    return finish(system, model)
