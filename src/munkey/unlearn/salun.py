"""SalUn (Fan et al. 2024; beyond the paper): wrong labels on the forget set, moving only weights salient to it."""

from typing import TYPE_CHECKING

from munkey.unlearn import Request, Share, Tuned, method

if TYPE_CHECKING:
    from torch import nn

    from munkey.system import System


class SalunSettings(Tuned):
    """share: of all weights, those with the largest forget gradient, which may move."""

    share: Share


@method(
    "salun",
    title="SalUn",
    description="as Amnesiac, but only the weights most salient to the forget set move",
    citation="Fan et al. 2024",
    base="vit",
    oracle="retrain-t",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=SalunSettings,
    in_paper=False,
)
def salun(system: "System", request: Request, settings: SalunSettings) -> "System":
    from munkey.finetune import finetune, mislabelled
    from munkey.images import Joined
    from munkey.saliency import summed_gradients, top_share, trainable

    model = system.copy_of_model().eval()
    gradients = summed_gradients(model, request.forget, request)
    movable = top_share({name: gradient.abs() for name, gradient in gradients.items()}, settings.share)
    original = model.state_dict()

    def hold(trained: "nn.Module") -> None:
        # Weight decay moves what has no gradient too, so the others are put back rather than their gradients zeroed.
        for name, parameter in trainable(trained).items():
            parameter.data.copy_(parameter.data.where(movable[name], original[name]))

    wrong = mislabelled(request.forget, system.architecture["classes"], request.generator)
    samples = Joined((request.retain, wrong))
    return finetune(system, request, settings.lr_factor, samples, after_step=hold)
