"""MSG, masked small gradients (Cadet et al. 2024; beyond the paper): renew what serves retain and forget set alike."""

from dataclasses import replace
from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Share
from munkey.unlearn.contract import Images, Request, Tuned, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class MSGSettings(Tuned):
    """init_rate: share of a layer's weights that are drawn anew. held: factor of each step of its other weights."""

    init_rate: Share
    held: Share


def msg_passes(images: Images, _: MSGSettings) -> int:
    """Gradients of retain and forget loss on as many images as are forgotten, then fine-tuning."""
    return 6 * images.forget + 3 * images.epochs * images.retain


@method(
    "msg",
    title="MSG",
    description="renew convolution weights with the smallest gradients of retain less forget loss; fine-tune them most",
    citation=(
        "X. F. Cadet, A. Borovykh, M. Malekzadeh, S. Ahmadi-Abhari, H. Haddadi. *Deep Unlearn: "
        "Benchmarking Machine Unlearning for Image Classification*"
    ),
    family="vit",
    networks={"resnet18", "pretrained"},
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=MSGSettings,
    passes=msg_passes,
)
def msg(system: System, request: Request, settings: MSGSettings) -> System:
    from torch import nn

    return renew(system, request, settings, nn.Conv2d)


def renew(system: System, request: Request, settings: MSGSettings, kind: "type[nn.Module]", part: str = "") -> System:
    """MSG on the weights of all layers of one kind that lie in a `part` of the network, e.g. its blocks."""
    from munkey.unlearn.finetune import cross_entropy, finetune, rising_and_falling, scaled_steps
    from munkey.unlearn.saliency import renew_smallest

    model = system.copy_of_model().eval()
    layers = [name for name, layer in model.named_modules() if isinstance(layer, kind) and part in f".{name}"]
    if not layers:
        raise ValueError(f"MSG finds no {kind.__name__} in this network{part and f', in a part {part!r} of it'}")
    new = renew_smallest(model, [f"{name}.weight" for name in layers], settings.init_rate, request)
    hold = scaled_steps({name: settings.held + (1 - settings.held) * mask.float() for name, mask in new.items()})

    def objective(trained: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        hold(trained)
        return cross_entropy(trained, images, labels)

    renewed, schedule = replace(system, model=model), rising_and_falling(request.tuning.settings.epochs)
    unlearned = finetune(renewed, request, settings.lr_factor, request.retain, objective, schedule=schedule)
    assert unlearned.model is not None
    hold(unlearned.model)
    return unlearned
