"""Explicit randomness: every stage draws from a generator of its own, nothing from the global ones."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, init=False)
class Stage:
    """What is being done, by name, e.g. Stage(0, "digits", "full", "vit"): the root of its randomness.

    Stages that differ in any part draw independently; the same stage always draws the same.
    """

    parts: tuple[str, ...]

    def __init__(self, *parts: object) -> None:
        object.__setattr__(self, "parts", tuple(str(part) for part in parts))

    def __truediv__(self, part: object) -> "Stage":
        """A stage within this one: Stage("a") / "b" is Stage("a", "b")."""
        return Stage(*self.parts, part)

    def seed(self) -> int:
        """A 63-bit seed that depends on every part."""
        return int.from_bytes(hashlib.sha256("/".join(self.parts).encode()).digest()[:8], "big") >> 1

    def numpy_generator(self) -> np.random.Generator:
        return np.random.default_rng(self.seed())

    def torch_generator(self) -> "torch.Generator":
        """A CPU generator: the same draws whatever device computes."""
        import torch

        return torch.Generator().manual_seed(self.seed())
