"""The network of example-tied dropout, whose channels belong to samples (Maini et al. 2023)."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from munkey.core.randomness import Stage
from munkey.models.networks.vit import ViT, ViTArchitecture


@dataclass(frozen=True)
class ExampleTiedArchitecture(ViTArchitecture):
    """The shape of the network.

    Attributes
    ----------
    p_fixed
        The share of channels, the first ones, that all samples use.
    p_mem
        The probability that each of the other channels belongs to a sample.
    """

    p_fixed: float
    p_mem: float

    @property
    def fixed_channels(self) -> int:
        """Number of channels that all samples use."""
        return int(self.p_fixed * self.width)

    def draw_channels(self, ids: np.ndarray) -> np.ndarray:
        """Draw which of the n other channels each sample has: (N, n) bool, seeded by its id."""
        n = self.width - self.fixed_channels
        belongs = np.empty((len(ids), n), dtype=bool)
        for row, sample_id in enumerate(ids.tolist()):
            generator = Stage("example-tied-dropout", sample_id).numpy_generator()
            belongs[row] = generator.random(n) < self.p_mem
        return belongs


class ExampleTied(ViT):
    """A ViT that drops channels after the blocks at half and three quarters of its depth.

    Attributes
    ----------
    on
        (n,) bool, false for channels that belong to deleted samples.
    """

    on: Tensor

    def __init__(self, architecture: ExampleTiedArchitecture) -> None:
        super().__init__(architecture)
        self.architecture = architecture
        depth = architecture.depth
        self.gated_blocks = {math.ceil(depth / 2), math.ceil(3 * depth / 4)}  # numbered from 1
        n = architecture.width - architecture.fixed_channels
        self.register_buffer("on", torch.empty(n, dtype=torch.bool))

    def forward(self, images: Tensor, sample_channels: Tensor | None = None) -> Tensor:
        """Compute logits (B, classes) of images (B, 3, S, S).

        Parameters
        ----------
        sample_channels
            The channels that belong to each sample, (B, n) bool, during training; else None.
        """
        gates = self.compute_gates(sample_channels)[:, None]  # the same for all tokens
        sequence = self.embed_positions(self.patch_embed(images))
        lengths = self.get_output_lengths()
        for number, (block, length) in enumerate(zip(self.blocks, lengths, strict=True), start=1):
            sequence = block(sequence, length)
            if number in self.gated_blocks:
                sequence = sequence * gates
        return self.forward_head(sequence)

    def compute_gates(self, sample_channels: Tensor | None) -> Tensor:
        """Compute each channel's factor: (B, width) in training, (1, width) in deployment.

        In deployment, all channels on and all channels off are the modes `test` and `drop` of the
        released code; in between, the factors are interpolated.
        """
        a = self.architecture
        if sample_channels is None:
            sample_factors = a.p_mem * self.on[None]
            fixed_factor = 1 + (~self.on).float().mean() * a.p_mem / a.p_fixed
        else:
            sample_factors = (sample_channels & self.on).float()
            fixed_factor = torch.ones((), device=sample_channels.device)
        fixed_factors = fixed_factor.expand(len(sample_factors), a.fixed_channels)
        return torch.cat([fixed_factors, sample_factors], dim=1)

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        nn.init.ones_(self.on)
