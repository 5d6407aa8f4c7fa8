"""Explicit randomness: each stage has its own generator. Global generators are not used."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, init=False)
class Stage:
    """A named source of randomness, such as Stage(0, "digits", "full", "vit").

    Equal stages draw the same numbers, others independent ones.
    """

    parts: tuple[str, ...]

    def __init__(self, *parts: object) -> None:
        object.__setattr__(self, "parts", tuple(str(part) for part in parts))

    def __truediv__(self, part: object) -> "Stage":
        """Return a stage within this one: Stage("a") / "b" is Stage("a", "b")."""
        return Stage(*self.parts, part)

    def seed(self) -> int:
        """Return a 63-bit seed that depends on every part."""
        digest = hashlib.sha256("/".join(self.parts).encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def numpy_generator(self) -> np.random.Generator:
        return np.random.default_rng(self.seed())

    def torch_generator(self) -> "torch.Generator":
        """Return a generator on the CPU, so that its draws do not depend on the device."""
        import torch

        return torch.Generator().manual_seed(self.seed())
