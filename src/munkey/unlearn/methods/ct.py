"""CT, convolution transpose (Cadet et al. 2024; beyond the paper): swap the sides of each kernel, then fine-tune."""

from dataclasses import replace

from munkey.models.family import System
from munkey.unlearn.contract import Request, Tuned, method


@method(
    "ct",
    title="CT",
    description="transpose the kernels of all convolutions, fine-tune on the retain set",
    citation=(
        "X. F. Cadet, A. Borovykh, M. Malekzadeh, S. Ahmadi-Abhari, H. Haddadi. *Deep Unlearn: "
        "Benchmarking Machine Unlearning for Image Classification*"
    ),
    family="vit",
    networks={"resnet18", "pretrained"},
    needs={"retain images", "retain labels"},
    settings=Tuned,
)
def ct(system: System, request: Request, settings: Tuned) -> System:
    from torch import nn

    from munkey.training.loop import cosine
    from munkey.unlearn.finetune import finetune

    model, falling = system.copy_of_model(), cosine(1.0, request.tuning.settings.epochs, 0)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d) and layer.weight.requires_grad:
            layer.weight.data = layer.weight.data.mT.contiguous()
    transposed = replace(system, model=model)
    return finetune(transposed, request, settings.lr_factor, request.retain, schedule=lambda done: falling(int(done)))
