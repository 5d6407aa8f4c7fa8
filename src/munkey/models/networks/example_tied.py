"""Example-tied dropout's network: a ViT some of whose channels are held by samples (Maini et al. 2023)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from munkey.core.randomness import Stage
from munkey.models.networks.vit import ViT, ViTArchitecture


@dataclass(frozen=True)
class ExampleTiedArchitecture(ViTArchitecture):
    """p_fixed: share of channels, the first ones, for every sample; p_mem: probability that a sample holds another."""

    p_fixed: float
    p_mem: float

    @property
    def fixed(self) -> int:
        """How many channels are for every sample."""
        return int(self.p_fixed * self.width)

    def held(self, ids: np.ndarray) -> np.ndarray:
        """Which of the other channels samples hold, (N, n) bool: each row drawn from nothing but the sample's id."""
        n = self.width - self.fixed
        rows = [Stage("example-tied-dropout", id).numpy_generator().random(n) < self.p_mem for id in ids.tolist()]
        return np.array(rows, dtype=bool).reshape(-1, n)


class ExampleTied(ViT):
    """Behind the blocks at half and three quarters of the depth, channels are dropped, the same for all tokens.

    on: (n,) bool, of the channels that samples hold, those that no deleted one does.
    """

    on: Tensor

    def __init__(self, architecture: ExampleTiedArchitecture) -> None:
        super().__init__(architecture)
        self.architecture = architecture
        self.gated = {-(-architecture.depth // 2), -(-3 * architecture.depth // 4)}
        self.register_buffer("on", torch.empty(architecture.width - architecture.fixed, dtype=torch.bool))

    def forward(self, images: Tensor, held: Tensor | None = None) -> Tensor:
        """(B, 3, S, S) -> (B, classes) logits. held: (B, n) bool, in training; None: as deployed."""
        sequence, gates = self.sequence(self.patch_embed(images)), self.gates(held)[:, None]
        for number, (block, kept) in enumerate(zip(self.blocks, self.kept(), strict=True), start=1):
            sequence = block(sequence, kept)
            if number in self.gated:
                sequence = sequence * gates
        return self.answer(sequence)

    def gates(self, held: Tensor | None) -> Tensor:
        """What each channel is multiplied by, (B, width), or (1, width) as deployed.

        With all channels on and with none: the original's modes `test` and `drop`; between them, in proportion.
        """
        a = self.architecture
        if held is None:
            own, fixed = a.p_mem * self.on[None], 1 + (~self.on).float().mean() * a.p_mem / a.p_fixed
        else:
            own, fixed = (held & self.on).float(), torch.ones((), device=held.device)
        return torch.cat([fixed.expand(len(own), a.fixed), own], dim=1)

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        nn.init.ones_(self.on)
