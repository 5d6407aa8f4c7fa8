"""SSD, selective synaptic dampening (Foster et al. 2024; app. B.2)."""

from munkey.models.family import System
from munkey.settings import Positive, Section
from munkey.unlearn.contract import Request, method


class SSDSettings(Section):
    """The section `unlearn.ssd` of params.yaml."""

    alpha: Positive
    lam: Positive
    per_sample: bool


@method(
    "ssd",
    title="SSD",
    description=(
        "dampen the weights that are more important to the forget set than to all data; needs no"
        " training"
    ),
    citation=(
        "J. Foster, S. Schoepf, A. Brintrup. *Fast Machine Unlearning Without Retraining "
        "Through Selective Synaptic Dampening*. AAAI 2024"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=SSDSettings,
    # The importances to D_f, and to D, which includes D_f.
    passes=lambda images, _: 3 * (images.retain + 2 * images.forget),
)
def ssd(system: System, request: Request, settings: SSDSettings) -> System:
    from munkey.data.image_set import JoinedSet
    from munkey.unlearn.finetune import finish
    from munkey.unlearn.saliency import compute_importances, dampen

    model = system.copy_model().eval()
    everything = JoinedSet((request.retain, request.forget))
    forget_importances = compute_importances(model, request.forget, request, settings.per_sample)
    all_importances = compute_importances(model, everything, request, settings.per_sample)
    dampen(model, request, forget_importances, all_importances, settings.alpha, settings.lam)
    return finish(system, model)
