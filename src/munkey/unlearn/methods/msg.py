"""MSG, masked small gradients (Cadet et al. 2024; beyond the paper): renew shared weights."""

from dataclasses import replace
from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Share
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class MSGSettings(TuningSettings):
    """The method's section of params.yaml.

    Attributes
    ----------
    init_rate
        The share of a layer's weights to re-initialize.
    held
        The factor for steps of the layer's other weights.
    """

    init_rate: Share
    held: Share


def count_msg_passes(images: Images, _: MSGSettings) -> int:
    """Count the gradients of retain and forget loss, on |D_f| images each, and fine-tuning."""
    return 6 * images.forget + 3 * images.epochs * images.retain


@method(
    "msg",
    title="MSG",
    description=(
        "renew convolution weights with the smallest gradients of retain less forget loss;"
        " fine-tune them most"
    ),
    citation=(
        "X. F. Cadet, A. Borovykh, M. Malekzadeh, S. Ahmadi-Abhari, H. Haddadi. *Deep Unlearn: "
        "Benchmarking Machine Unlearning for Image Classification*"
    ),
    family="vit",
    networks={"resnet18", "pretrained"},
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=MSGSettings,
    passes=count_msg_passes,
)
def msg(system: System, request: Request, settings: MSGSettings) -> System:
    from torch import nn

    return renew(system, request, settings, nn.Conv2d)


def renew(
    system: System,
    request: Request,
    settings: MSGSettings,
    kind: "type[nn.Module]",
    part: str = "",
) -> System:
    """Apply MSG to all layers of one kind.

    Parameters
    ----------
    part
        A substring of the dotted names of these layers.
    """
    from munkey.unlearn.finetune import (
        cross_entropy,
        finetune,
        make_step_scaler,
        make_triangular_schedule,
    )
    from munkey.unlearn.saliency import renew_smallest

    model = system.copy_model().eval()
    names = []
    for name, layer in model.named_modules():
        if isinstance(layer, kind) and part in f".{name}":
            names.append(f"{name}.weight")
    if not names:
        place = f" below {part!r}" if part else ""
        raise ValueError(f"MSG finds no {kind.__name__} in this network{place}")
    is_new = renew_smallest(model, names, settings.init_rate, request)
    # New weights take full steps; the other weights of these layers take steps scaled by `held`.
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
        objective,
        schedule=make_triangular_schedule(request.tuning.settings.epochs),
    )
    assert unlearned.model is not None
    scale_step(unlearned.model)  # scales the last step
    return unlearned
