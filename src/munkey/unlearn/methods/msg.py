"""MSG, masked small gradients (Cadet et al. 2024; beyond the paper)."""

from dataclasses import replace
from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Share
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class MSGSettings(TuningSettings):
    """The section `unlearn.msg` of params.yaml."""

    init_rate: Share
    held: Share


def msg_passes(images: Images, _: MSGSettings) -> int:
    """Count the passes for two gradients, each of as many images as D_f has, and fine-tuning."""
    return 6 * images.forget + 3 * images.epochs * images.retain


@method(
    "msg",
    title="MSG",
    description=(
        "re-initialize the convolution weights with the smallest gradients of the retain loss"
        " minus the forget loss, then fine-tune mainly these"
    ),
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

    return apply_msg(system, request, settings, nn.Conv2d)


def apply_msg(
    system: System,
    request: Request,
    settings: MSGSettings,
    layer_type: "type[nn.Module]",
    name_part: str = "",
) -> System:
    """Apply MSG to all layers of one type whose dotted names contain `name_part`."""
    from munkey.unlearn.finetune import (
        cross_entropy,
        finetune,
        make_step_scaler,
        make_triangular_schedule,
    )
    from munkey.unlearn.saliency import reinitialize_smallest

    model = system.copy_model().eval()
    names = []
    for name, layer in model.named_modules():
        if isinstance(layer, layer_type) and name_part in f".{name}":
            names.append(f"{name}.weight")
    if not names:
        condition = f" with {name_part!r} in its name" if name_part else ""
        raise ValueError(f"MSG: this network has no {layer_type.__name__}{condition}")
    is_new = reinitialize_smallest(model, names, settings.init_rate, request)
    # Re-initialized weights make full steps. The steps of the layers' other weights are scaled.
    factors = {}
    for name, mask in is_new.items():
        factors[name] = settings.held + (1 - settings.held) * mask.float()
    scale_step = make_step_scaler(factors)

    def objective(trained: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        scale_step(trained)  # scales the optimizer's previous step
        return cross_entropy(trained, images, labels)

    unlearned = finetune(
        replace(system, model=model),
        request,
        settings.lr_factor,
        request.retain,
        objective=objective,
        schedule=make_triangular_schedule(request.tuning.settings.epochs),
    )
    scale_step(unlearned.require_model())  # scales the last step of training
    return unlearned
