"""ASSD (Schoepf et al. 2024; beyond the paper): SSD with alpha computed from |D_f| / |D|."""

import math

from munkey.models.family import System
from munkey.settings import Positive, Section
from munkey.unlearn.contract import Request, method


class ASSDSettings(Section):
    """The method's section of params.yaml.

    Attributes
    ----------
    lam
        The strength; smaller values dampen more.
    per_sample
        Whether to square the gradients of single samples instead of batches.
    """

    lam: Positive
    per_sample: bool


@method(
    "assd",
    title="ASSD",
    description=(
        "as SSD, with a computed threshold: a percentile of how much more weights matter to D_f"
    ),
    citation=(
        "S. Schoepf, J. Foster, A. Brintrup. *Parameter-Tuning-Free Data Entry Error "
        "Unlearning with Adaptive Selective Synaptic Dampening*. arXiv 2402.10098"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=ASSDSettings,
    passes=lambda images, _: 3 * (images.retain + 2 * images.forget),
)
def assd(system: System, request: Request, settings: ASSDSettings) -> System:
    """Dampen weights that matter more to D_f than to D; the share of D_f determines how many."""
    import numpy as np
    import torch

    from munkey.core.device import to_host
    from munkey.data.image_set import JoinedSet
    from munkey.unlearn.finetune import finish
    from munkey.unlearn.saliency import compute_importances, dampen

    model = system.copy_model().eval()
    everything = JoinedSet((request.retain, request.forget))
    to_forget = compute_importances(model, request.forget, request, settings.per_sample)
    to_everything = compute_importances(model, everything, request, settings.per_sample)

    flat_ratios = [(to_forget[name] / to_everything[name]).flatten() for name in to_forget]
    ratios = to_host(torch.cat(flat_ratios)).numpy()
    # alpha is this percentile of I_f / I_D over all weights; a larger D_f dampens more weights.
    percentile = 100 - math.log(1 + 100 * len(request.forget) / len(everything))
    alpha = float(np.percentile(ratios[np.isfinite(ratios)], percentile))
    dampen(model, request, to_forget, to_everything, alpha, settings.lam)
    request.facts["alpha"] = alpha
    return finish(system, model)
