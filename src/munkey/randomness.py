"""Explicit randomness: every stage draws from a generator of its own, nothing from the global ones."""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive_seed(*parts: object) -> int:
    """A 63-bit seed that depends on every part, e.g. (seed, data set, stage)."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def numpy_generator(*parts: object) -> np.random.Generator:
    return np.random.default_rng(derive_seed(*parts))


def torch_generator(*parts: object) -> "torch.Generator":
    """A CPU generator: the same draws whatever device computes."""
    import torch

    return torch.Generator().manual_seed(derive_seed(*parts))
