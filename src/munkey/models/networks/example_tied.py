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

    Attributes
    ----------
    p_fixed
        The share of channels that all samples use. These are the first channels.
    p_mem
        The probability with which each other channel belongs to a given sample.
    """

    p_fixed: float
    p_mem: float

    @property
    def fixed_channels(self) -> int:
        """The number of channels that all samples use."""
        return int(self.p_fixed * self.width)

    def draw_channels(self, ids: np.ndarray) -> np.ndarray:
        """Draw which of the n other channels belong to each sample.

        Returns an (N, n) bool array. A row depends only on the sample's id.
        """
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
        (n,) bool: false for channels that belong to a deleted sample.
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

        Parameters
        ----------
        sample_channels
            (B, n) bool: the channels that belong to each sample, for training. None for
            prediction.
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

        For prediction, the factors are those of the released code's mode `test` if all channels are
        on, and those of its mode `drop` if all are off. If only some are on, the factor of the
        fixed channels is interpolated between these two cases.
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
