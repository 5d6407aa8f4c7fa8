"""CT, convolution transpose (Cadet et al. 2024; beyond the paper): transpose, then fine-tune."""

from dataclasses import replace

from munkey.models.family import System
from munkey.unlearn.contract import Request, TuningSettings, method


@method(
    "ct",
    title="CT",
    description="transpose the kernels of all convolutions, then fine-tune on the retain set",
    citation=(
        "X. F. Cadet, A. Borovykh, M. Malekzadeh, S. Ahmadi-Abhari, H. Haddadi. *Deep Unlearn: "
        "Benchmarking Machine Unlearning for Image Classification*"
    ),
    family="vit",
    networks={"resnet18", "pretrained"},
    needs={"retain images", "retain labels"},
    settings=TuningSettings,
)
def ct(system: System, request: Request, settings: TuningSettings) -> System:
    """Transpose the kernels of convolutions, then fine-tune on D_r."""
    from torch import nn

    from munkey.training.loop import cosine_schedule
    from munkey.unlearn.finetune import finetune

    model = system.copy_model()
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d) and layer.weight.requires_grad:
            layer.weight.data = layer.weight.data.mT.contiguous()  # swaps height and width
    cosine_factor = cosine_schedule(1.0, request.tuning.settings.epochs, warmup_epochs=0)
    return finetune(
        replace(system, model=model),
        request,
        settings.lr_factor,
        request.retain,
        # As in the original code, the factor is constant within an epoch.
        schedule=lambda progress: cosine_factor(int(progress)),
    )
