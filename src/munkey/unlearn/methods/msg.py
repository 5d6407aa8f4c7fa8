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
        Share of a layer's weights to re-initialize.
    held
        Step factor of its others.
    """

    init_rate: Share
    held: Share


def msg_passes(images: Images, _: MSGSettings) -> int:
    """Gradients of retain and forget loss on |D_f| images each, then fine-tuning."""
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
    passes=msg_passes,
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
    """MSG on all layers of one kind.

    Parameters
    ----------
    part
        Only layers whose dotted name contains it.
    """
    from munkey.unlearn.finetune import cross_entropy, finetune, scaled_steps, triangular_schedule
    from munkey.unlearn.saliency import renew_smallest

    model = system.copy_model().eval()
    names = []
    for name, layer in model.named_modules():
        if isinstance(layer, kind) and part in f".{name}":
            names.append(f"{name}.weight")
    if not names:
        place = f", in a part {part!r} of it" if part else ""
        raise ValueError(f"MSG finds no {kind.__name__} in this network{place}")
    renewed = renew_smallest(model, names, settings.init_rate, request)
    # New weights make whole steps, the layers' other weights steps of a `held` share.
    factors = {}
    for name, mask in renewed.items():
        factors[name] = settings.held + (1 - settings.held) * mask.float()
    scale_step = scaled_steps(factors)

    def objective(trained: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        scale_step(trained)  # the step before this one
        return cross_entropy(trained, images, labels)

    unlearned = finetune(
        replace(system, model=model),
        request,
        settings.lr_factor,
        request.retain,
        objective,
        schedule=triangular_schedule(request.tuning.settings.epochs),
    )
    assert unlearned.model is not None
    scale_step(unlearned.model)  # the last step
    return unlearned
