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
        "SSD with gradients of the logits' squared norm instead of the loss; no labels, no training"
    ),
    citation=(
        "J. Foster, S. Schoepf, A. Brintrup. *Loss-Free Machine Unlearning*. ICLR 2024, tiny"
        " paper. arXiv 2402.19308"
    ),
    family="vit",
    needs={"retain images", "forget images"},
    settings=SSDSettings,
    passes=lambda images, _: 3 * (images.retain + 2 * images.forget),
)
def lfssd(system: System, request: Request, settings: SSDSettings) -> System:
    """Dampen the weights that matter more to D_f than to D, by the norm of the logits."""
    import torch

    from munkey.data.image_set import JoinedSet
    from munkey.unlearn.finetune import finish, mark_samples
    from munkey.unlearn.saliency import compute_importances, dampen

    def compute_squared_norm(logits: "Tensor", _: "Tensor") -> "Tensor":
        return logits.square().sum(dim=1).mean()

    def estimate_importances(samples: "LabeledSet") -> "dict[str, Tensor]":
        # The absolute value of the gradient, instead of its square as in SSD.
        return compute_importances(
            model, samples, request, settings.per_sample, compute_squared_norm, torch.abs
        )

    model = system.copy_model().eval()
    # Labels are not needed.
    retain = mark_samples(request.retain, torch.arange(len(request.retain)), True)
    forget = mark_samples(request.forget, torch.arange(len(request.forget)), True)
    to_forget = estimate_importances(forget)
    to_everything = estimate_importances(JoinedSet((retain, forget)))
    dampen(model, request, to_forget, to_everything, settings.alpha, settings.lam)
    return finish(system, model)
