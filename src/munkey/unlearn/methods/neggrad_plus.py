"""NegGrad+ (Kurmanji et al. 2023; app. B.2): descend on D_r while ascending on D_f."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Share
from munkey.unlearn.contract import Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class NegGradPlusSettings(TuningSettings):
    """The section `unlearn.neggrad-plus` of params.yaml."""

    alpha: Share


@method(
    "neggrad-plus",
    title="NegGrad+",
    description="gradient descent on the retain set and ascent on the forget set",
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
    """In each step, descend on the loss of D_r and ascend on the loss of D_f."""
    from munkey.training.loop import Outcome
    from munkey.unlearn.finetune import cross_entropy, endless_batches, finetune

    forget_batches = endless_batches(request.forget, request.tuning.settings.batch_size, request)

    def objective(model: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        retain_loss, correct = cross_entropy(model, images, labels)
        forget_loss, _ = cross_entropy(model, *next(forget_batches))
        # L = alpha L_r - (1 - alpha) L_f
        loss = settings.alpha * retain_loss - (1 - settings.alpha) * forget_loss
        return Outcome(loss, correct)

    return finetune(system, request, settings.lr_factor, request.retain, objective=objective)
