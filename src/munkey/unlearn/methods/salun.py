"""SalUn (Fan et al. 2024; beyond the paper): Amnesiac on only the weights salient to D_f."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Share
from munkey.unlearn.contract import Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class SalunSettings(TuningSettings):
    """The section `unlearn.salun` of params.yaml."""

    share: Share


@method(
    "salun",
    title="SalUn",
    description="like Amnesiac, but change only the weights most salient to the forget set",
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
    """Train only the weights that are salient to D_f, on D_r and on D_f with wrong labels."""
    from munkey.data.image_set import JoinedSet
    from munkey.unlearn.finetune import cross_entropy, finetune, mislabel
    from munkey.unlearn.saliency import mask_top_share, sum_gradients, trainable_parameters

    model = system.copy_model().eval()
    gradients = sum_gradients(model, request.forget, request)
    saliency = {name: gradient.abs() for name, gradient in gradients.items()}
    is_salient = mask_top_share(saliency, settings.share)
    original_weights = model.state_dict()

    def restore_others(trained: "nn.Module") -> None:
        # Setting the gradients of these weights to 0 would not be enough, since weight decay would
        # still change them.
        for name, parameter in trainable_parameters(trained).items():
            parameter.data.copy_(parameter.data.where(is_salient[name], original_weights[name]))

    def objective(trained: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        restore_others(trained)
        return cross_entropy(trained, images, labels)

    relabeled = mislabel(request.forget, system.architecture.classes, request.generator)
    samples = JoinedSet((request.retain, relabeled))
    unlearned = finetune(system, request, settings.lr_factor, samples, objective=objective)
    restore_others(unlearned.require_model())
    return unlearned
