"""MSG on the linear layers of transformer blocks [ours]: a plain ViT has a single convolution."""

from munkey.models.family import System
from munkey.unlearn.contract import Request, method
from munkey.unlearn.methods.msg import MSGSettings, count_msg_passes, renew


@method(
    "msg-linear",
    title="MSG-linear",
    description="as MSG, with the weights of the linear layers of the transformer blocks [ours]",
    citation=(
        "after X. F. Cadet, A. Borovykh, M. Malekzadeh, S. Ahmadi-Abhari, H. Haddadi. *Deep "
        "Unlearn: Benchmarking Machine Unlearning for Image Classification*"
    ),
    family="vit",
    networks={"vit", "pretrained"},
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=MSGSettings,
    passes=count_msg_passes,
)
def msg_linear(system: System, request: Request, settings: MSGSettings) -> System:
    from torch import nn

    return renew(system, request, settings, nn.Linear, ".blocks.")
