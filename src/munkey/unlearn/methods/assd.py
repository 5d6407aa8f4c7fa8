"""ASSD (Schoepf et al. 2024; beyond the paper): SSD with alpha computed from |D_f| / |D|."""

import math

from munkey.models.family import System
from munkey.settings import Positive, Section
from munkey.unlearn.contract import Request, method


class ASSDSettings(Section):
    """The section `unlearn.assd` of params.yaml."""

    lam: Positive
    per_sample: bool


@method(
    "assd",
    title="ASSD",
    description=("like SSD, with a threshold that is computed from the size of the forget set"),
    citation=(
        "S. Schoepf, J. Foster, A. Brintrup. *Parameter-Tuning-Free Data Entry Error "
        "Unlearning with Adaptive Selective Synaptic Dampening*. arXiv 2402.10098"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=ASSDSettings,
    # The importances to D_f, and to D, which includes D_f.
    passes=lambda images, _: 3 * (images.retain + 2 * images.forget),
)
def assd(system: System, request: Request, settings: ASSDSettings) -> System:
    """Dampen the weights that are most important to D_f relative to D."""
    import numpy as np
    import torch

    from munkey.core.device import to_host
    from munkey.data.image_set import JoinedSet
    from munkey.unlearn.finetune import finish
    from munkey.unlearn.saliency import compute_importances, dampen

    model = system.copy_model().eval()
    everything = JoinedSet((request.retain, request.forget))
    forget_importances = compute_importances(model, request.forget, request, settings.per_sample)
    all_importances = compute_importances(model, everything, request, settings.per_sample)

    flat_ratios = [
        (forget_importances[name] / all_importances[name]).flatten() for name in forget_importances
    ]
    ratios = to_host(torch.cat(flat_ratios)).numpy()
    # alpha is a percentile of I_f / I_D over all weights. The larger D_f is, the more weights are
    # dampened.
    percentile = 100 - math.log(1 + 100 * len(request.forget) / len(everything))
    alpha = float(np.percentile(ratios[np.isfinite(ratios)], percentile))
    dampen(model, request, forget_importances, all_importances, alpha, settings.lam)
    request.facts["alpha"] = alpha
    return finish(system, model)
