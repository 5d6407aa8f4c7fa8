"""NegGrad+ (Kurmanji et al. 2023; app. B.2): descend on the retain set while ascending on the forget set."""

from typing import TYPE_CHECKING

from munkey.unlearn import Request, Share, Tuned, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.system import System


class NegGradPlusSettings(Tuned):
    """alpha: weight of the retain loss; the forget loss has 1 - alpha."""

    alpha: Share


@method(
    "neggrad-plus",
    title="NegGrad+",
    description="gradient descent on the retain set, ascent on the forget set",
    citation="Kurmanji et al. 2023",
    base="vit",
    oracle="retrain-t",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=NegGradPlusSettings,
)
def neggrad_plus(system: "System", request: Request, settings: NegGradPlusSettings) -> "System":
    from munkey.finetune import cross_entropy, endless, finetune

    forget = endless(request.forget, request.tuning.settings.batch_size, request)

    def objective(model: "nn.Module", images: "Tensor", labels: "Tensor") -> "tuple[Tensor, Tensor]":
        kept, correct = cross_entropy(model, images, labels)
        dropped, _ = cross_entropy(model, *next(forget))
        return settings.alpha * kept - (1 - settings.alpha) * dropped, correct

    return finetune(system, request, settings.lr_factor, request.retain, objective)
