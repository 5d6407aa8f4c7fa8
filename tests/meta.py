"""Torch's meta device in place of a GPU: tensors with shapes but without data, and a mode that is stricter than a GPU.

Where a GPU would be slow, because the host waits for it or an index is copied to it in passing, this raises.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import munkey

META = "meta"
PACKAGE = Path(str(munkey.__file__)).parent
COPIES = {"_to_copy", "copy_", "to"}  # the last one whole in inference mode
HANG_ON_DATA = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
READER = "munkey.core.device.to_host"


class HostNeededError(AssertionError):
    """The package needs the host for what lies on the device, or has left on the host what the device needs."""


class LikeAGpu(TorchDispatchMode):
    """Raises HostNeededError for a tensor left on the host, a value read back, and a shape that hangs on data.

    A scalar of the host may join tensors of the device: a kernel takes it as an argument. What `to_host` reads back, by
    name, is zeros. reads: the functions that called it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not any(tensor.is_meta for tensor in tensors):
            return function(*args, **kwargs)
        if function.overloadpacket.__name__ in COPIES:
            target = next(
                (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.device)),
                args[0].device,
            )
            if target.type == META:
                return function(*args, **kwargs)
            if (at_work := functions_at_work())[0] == READER:
                self.reads.append(at_work[1])
                return torch.zeros_like(args[0], device="cpu")
        if fault := fault_of(function, args, tensors):
            raise HostNeededError(f"{functions_at_work()[0]} {fault} ({function})")
        return function(*args, **kwargs)


def fault_of(function: torch._ops.OpOverload, args: tuple, tensors: list[Tensor]) -> str:
    """What keeps an operation from running on a GPU without the host; empty where nothing does."""
    if function.overloadpacket.__name__ in COPIES:
        return "copies to the host"
    if any(tensor.ndim and not tensor.is_meta for tensor in tensors):
        return "reads a tensor that was left on the host"
    if "index" in function.overloadpacket.__name__:  # tagged, although only masks hang on data
        masks = [
            leaf
            for leaf in tree_leaves(args[1])
            if isinstance(leaf, Tensor) and not leaf.dtype.is_signed
        ]
        return "has a shape that hangs on a mask" if masks else ""
    return (
        "reads a value back, or has a shape that hangs on one"
        if HANG_ON_DATA & set(function.tags)
        else ""
    )


def functions_at_work() -> list[str]:
    """The functions of the package on the stack, innermost first, as module.function; and who called them."""
    frame, names = sys._getframe(1), []
    while frame:
        if PACKAGE in Path(frame.f_code.co_filename).parents:
            names.append(f"{frame.f_globals['__name__']}.{frame.f_code.co_name}")
        frame = frame.f_back
    return [*names, "a test", "a test"]


@contextmanager
def like_a_gpu() -> Iterator[LikeAGpu]:
    """The meta device stands in for a GPU, for which AdamW is fused too."""
    allowed = patch(
        "torch.optim.optimizer._get_fused_kernels_supported_devices", lambda: ["cpu", "cuda", META]
    )
    with allowed, LikeAGpu() as mode:
        yield mode
