"""SalUn (Fan et al. 2024; beyond the paper): wrong labels on the forget set, moving only weights salient to it."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Share
from munkey.unlearn.contract import Request, Tuned, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class SalunSettings(Tuned):
    """share: of all weights, those with the largest forget gradient, which may move."""

    share: Share


@method(
    "salun",
    title="SalUn",
    description="as Amnesiac, but only the weights most salient to the forget set move",
    citation=(
        "C. Fan, J. Liu, Y. Zhang, E. Wong, D. Wei, S. Liu. *SalUn: Empowering Machine "
        "Unlearning via Gradient-based Weight Saliency in Both Image Classification and "
        "Generation*. ICLR 2024"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=SalunSettings,
    passes=lambda images, _: 3 * (images.forget + images.epochs * (images.retain + images.forget)),
)
def salun(system: System, request: Request, settings: SalunSettings) -> System:
    from munkey.data.image_set import Joined
    from munkey.unlearn.finetune import cross_entropy, finetune, mislabeled
    from munkey.unlearn.saliency import summed_gradients, top_share, trainable

    model = system.copy_of_model().eval()
    gradients = summed_gradients(model, request.forget, request)
    movable = top_share({name: gradient.abs() for name, gradient in gradients.items()}, settings.share)
    original = model.state_dict()

    def hold(trained: "nn.Module") -> None:
        # Weight decay moves what has no gradient too, so the others are put back rather than their gradients zeroed.
        for name, parameter in trainable(trained).items():
            parameter.data.copy_(parameter.data.where(movable[name], original[name]))

    def objective(trained: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        hold(trained)
        return cross_entropy(trained, images, labels)

    wrong = mislabeled(request.forget, system.architecture.classes, request.generator)
    unlearned = finetune(system, request, settings.lr_factor, Joined((request.retain, wrong)), objective)
    assert unlearned.model is not None
    hold(unlearned.model)
    return unlearned
