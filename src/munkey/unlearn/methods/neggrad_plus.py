"""NegGrad+ (Kurmanji et al. 2023; app. B.2): descend on the retain set while ascending on the forget set."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Share
from munkey.unlearn.contract import Request, Tuned, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class NegGradPlusSettings(Tuned):
    """alpha: weight of the retain loss; the forget loss has 1 - alpha."""

    alpha: Share


@method(
    "neggrad-plus",
    title="NegGrad+",
    description="gradient descent on the retain set, ascent on the forget set",
    citation=(
        "M. Kurmanji, P. Triantafillou, J. Hayes, E. Triantafillou. *Towards Unbounded Machine "
        "Unlearning*. NeurIPS 2023"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=NegGradPlusSettings,
    passes=lambda images, _: 6 * images.epochs * images.retain,
)
def neggrad_plus(system: System, request: Request, settings: NegGradPlusSettings) -> System:
    from munkey.training.loop import Outcome
    from munkey.unlearn.finetune import cross_entropy, endless, finetune

    forget = endless(request.forget, request.tuning.settings.batch_size, request)

    def objective(model: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        kept, correct = cross_entropy(model, images, labels)
        dropped, _ = cross_entropy(model, *next(forget))
        return Outcome(settings.alpha * kept - (1 - settings.alpha) * dropped, correct)

    return finetune(system, request, settings.lr_factor, request.retain, objective)
