"""SSD, selective synaptic dampening (Foster et al. 2024; app. B.2): shrink the weights that matter most to D_f."""

from munkey.models.family import System
from munkey.settings import Positive, Section
from munkey.unlearn.contract import Request, method


class SSDSettings(Section):
    """alpha: how many times more a weight must matter to D_f than to D. lam: smaller dampens more. per_sample: square
    the gradient of each sample, instead of that of each batch.
    """

    alpha: Positive
    lam: Positive
    per_sample: bool


@method(
    "ssd",
    title="SSD",
    description="dampen the weights that matter more to the forget set than to all data; no training",
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
    from munkey.data.image_set import Joined
    from munkey.unlearn.finetune import finished
    from munkey.unlearn.saliency import dampened, importances

    model, everything = system.copy_of_model().eval(), Joined((request.retain, request.forget))
    forgotten, of_all = (
        importances(model, samples, request, settings.per_sample) for samples in (request.forget, everything)
    )
    return finished(system, dampened(model, request, forgotten, of_all, settings.alpha, settings.lam))
