"""The network for example-tied dropout, whose channels belong to samples (Maini et al. 2023)."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from munkey.core.randomness import Stage
from munkey.models.networks.vit import ViT, ViTArchitecture


@dataclass(frozen=True)
class ExampleTiedArchitecture(ViTArchitecture):
    """The architecture of a ViT with example-tied dropout.

    All samples use the first `p_fixed` of the channels; each other channel belongs to a sample with
    probability `p_mem`.
    """

    p_fixed: float
    p_mem: float

    @property
    def fixed_channels(self) -> int:
        """The number of channels that all samples use."""
        return int(self.p_fixed * self.width)

    def draw_channels(self, ids: np.ndarray) -> np.ndarray:
        """Draw which of the n other channels belong to each sample: (N, n) bool, from its id alone."""
        n = self.width - self.fixed_channels
        belongs = np.empty((len(ids), n), dtype=bool)
        for row, sample_id in enumerate(ids.tolist()):
            generator = Stage("example-tied-dropout", sample_id).numpy_generator()
            belongs[row] = generator.random(n) < self.p_mem
        return belongs


class ExampleTied(ViT):
    """A ViT that drops channels after the blocks at half and three quarters of its depth.

    `on` (n,) bool is false for channels that belong to a deleted sample.
    """

    on: Tensor

    def __init__(self, architecture: ExampleTiedArchitecture) -> None:
        super().__init__(architecture)
        self.architecture = architecture
        depth = architecture.depth
        self.gated_blocks = {math.ceil(depth / 2), math.ceil(3 * depth / 4)}  # counted from 1
        n = architecture.width - architecture.fixed_channels
        self.register_buffer("on", torch.empty(n, dtype=torch.bool))

    def forward(self, images: Tensor, sample_channels: Tensor | None = None) -> Tensor:
        """Return logits (B, classes) of images (B, 3, S, S).

        `sample_channels` (B, n) bool are those of each sample, for training; None for prediction.
        """
        gates = self.compute_gates(sample_channels)[:, None]  # (B or 1, 1, width)
        sequence = self.embed_positions(self.patch_embed(images))
        lengths = self.output_lengths()
        for number, (block, length) in enumerate(zip(self.blocks, lengths, strict=True), start=1):
            sequence = block(sequence, length)
            if number in self.gated_blocks:
                sequence = sequence * gates
        return self.forward_head(sequence)

    def compute_gates(self, sample_channels: Tensor | None) -> Tensor:
        """Return the factor of each channel: (B, width) for training, (1, width) for prediction.

        For prediction, these are the factors of the released code's mode `test` if all channels are
        on, those of its mode `drop` if all are off, and interpolated in between.
        """
        architecture = self.architecture
        if sample_channels is None:
            p_mem = architecture.p_mem
            sample_factors = p_mem * self.on[None]
            fixed_factor = 1 + (~self.on).float().mean() * p_mem / architecture.p_fixed
        else:
            sample_factors = (sample_channels & self.on).float()
            fixed_factor = torch.ones((), device=sample_channels.device)
        fixed_factors = fixed_factor.expand(len(sample_factors), architecture.fixed_channels)
        return torch.cat([fixed_factors, sample_factors], dim=1)

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        nn.init.ones_(self.on)
