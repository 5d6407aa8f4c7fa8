"""SSD, selective synaptic dampening (Foster et al. 2024; app. B.2): shrink weights of D_f."""

from munkey.models.family import System
from munkey.settings import Positive, Section
from munkey.unlearn.contract import Request, method


class SSDSettings(Section):
    """The method's section of params.yaml.

    Attributes
    ----------
    alpha
        How many times more important a weight must be to D_f than to D.
    lam
        The strength; smaller values dampen more.
    per_sample
        Whether to square the gradients of single samples instead of batches.
    """

    alpha: Positive
    lam: Positive
    per_sample: bool


@method(
    "ssd",
    title="SSD",
    description=(
        "dampen the weights that matter more to the forget set than to all data; no training"
    ),
    citation=(
        "J. Foster, S. Schoepf, A. Brintrup. *Fast Machine Unlearning Without Retraining "
        "Through Selective Synaptic Dampening*. AAAI 2024"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=SSDSettings,
    passes=lambda images, _: 3 * (images.retain + 2 * images.forget),
)
def ssd(system: System, request: Request, settings: SSDSettings) -> System:
    from munkey.data.image_set import JoinedSet
    from munkey.unlearn.finetune import finish
    from munkey.unlearn.saliency import compute_importances, dampen

    model = system.copy_model().eval()
    everything = JoinedSet((request.retain, request.forget))
    to_forget = compute_importances(model, request.forget, request, settings.per_sample)
    to_everything = compute_importances(model, everything, request, settings.per_sample)
    dampen(model, request, to_forget, to_everything, settings.alpha, settings.lam)
    return finish(system, model)
