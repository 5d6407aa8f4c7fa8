"""The cost of one image for a network, counted by torch on its meta device: shapes alone, no numbers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

BATCH = 2  # images: a batch norm needs more than one


@dataclass(frozen=True)
class NetworkCost:
    """The cost of a network.

    Attributes
    ----------
    weights
        The number of parameters.
    forward
        The floating-point operations of a forward pass of one image, two for each multiply-add of a
        matrix product.
    step
        Those of a forward and a backward pass.
    """

    weights: int
    forward: int
    step: int


def count(network: "nn.Module", image_size: int, token_dim: int | None = None) -> NetworkCost:
    """Count the operations and weights of a network that is on the meta device.

    Parameters
    ----------
    token_dim
        Length of the exemplar token that it reads beside an image, if it reads one.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    inputs = [torch.empty(BATCH, 3, image_size, image_size, device="meta")]
    if token_dim is not None:
        inputs.append(torch.empty(BATCH, token_dim, device="meta", requires_grad=True))
    with FlopCounterMode(display=False) as counter:
        logits = network.train()(*inputs)
        forward = counter.get_total_flops()
        logits.sum().backward()
        step = counter.get_total_flops()
    weights = sum(parameter.numel() for parameter in network.parameters())
    return NetworkCost(weights, forward // BATCH, step // BATCH)
