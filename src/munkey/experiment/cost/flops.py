"""The cost of a network per image, counted on torch's meta device, which computes only shapes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

BATCH = 2  # images; batch norm needs more than one


@dataclass(frozen=True)
class NetworkCost:
    """The cost of a network.

    Attributes
    ----------
    weights
        The number of parameters.
    forward
        The floating-point operations of a forward pass on one image; a multiply-add counts as two.
    step
        The floating-point operations of a forward and a backward pass on one image.
    """

    weights: int
    forward: int
    step: int


def count_operations(
    network: "nn.Module", image_size: int, token_dim: int | None = None
) -> NetworkCost:
    """Count the operations per image and the weights of a network, on the meta device.

    A step is a forward and a backward pass; the optimizer's operations are not counted.

    Parameters
    ----------
    network
        A network whose parameters are on the meta device. It is left in training mode, with gradients.
    image_size
        The height and width of an image in pixels.
    token_dim
        The length of the exemplar token; None for a network that reads only images.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    inputs = [torch.empty(BATCH, 3, image_size, image_size, device="meta")]
    if token_dim is not None:
        inputs.append(torch.empty(BATCH, token_dim, device="meta", requires_grad=True))
    network.train()
    # The counter adds up: after the backward pass, it has the operations of both passes.
    with FlopCounterMode(display=False) as counter:
        logits = network(*inputs)
        forward_operations = counter.get_total_flops()
        logits.sum().backward()
        step_operations = counter.get_total_flops()
    weights = sum(parameter.numel() for parameter in network.parameters())
    return NetworkCost(
        weights=weights,
        forward=forward_operations // BATCH,
        step=step_operations // BATCH,
    )
