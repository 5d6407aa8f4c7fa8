"""The number format of matrix products. Weights, optimizer states, and losses stay in float32."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from munkey.core.gpu import autocast, make_loss_scaler

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Precision:
    """Automatic mixed precision.

    Parameters
    ----------
    name
        "float32", "bfloat16", "float16", or "auto": bfloat16 on a GPU and float32 on a CPU.
    device
        "cpu" or "cuda".

    Notes
    -----
    With float16, the loss is scaled so that small gradients do not underflow (Micikevicius et al.
    2018).
    """

    def __init__(self, name: str = "float32", device: str = "cpu") -> None:
        if name == "auto":
            name = "float32" if device == "cpu" else "bfloat16"  # not all CPUs support bfloat16
        self.name = name
        self.device = device
        self.scaler = make_loss_scaler(device, enabled=self.name == "float16")

    def forward(self) -> AbstractContextManager[object]:
        """Return a context manager for the forward pass."""
        return autocast(DTYPES[self.name], self.device)

    def descend(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Make a backward pass and an optimizer step, without waiting for the GPU.

        With float16, a step whose gradients overflow is skipped, and the loss scale is lowered.
        """
        optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()
