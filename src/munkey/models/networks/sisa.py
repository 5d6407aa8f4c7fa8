"""SISA's network: an ensemble of ViTs, each with its checkpoints (Bourtoule et al. 2021)."""

import math
from dataclasses import dataclass, fields
from typing import cast

import torch
from torch import Tensor, nn

from munkey.models.networks.vit import ViT, ViTArchitecture


@dataclass(frozen=True)
class SisaArchitecture(ViTArchitecture):
    """The architecture of SISA's ensemble.

    Attributes
    ----------
    shards
        The number of ViTs.
    slices
        The number of checkpoints of each ViT.
    """

    shards: int
    slices: int

    def make_shard_architecture(self) -> ViTArchitecture:
        """Return the architecture of each ViT."""
        sizes = {field.name: getattr(self, field.name) for field in fields(ViTArchitecture)}
        return ViTArchitecture(**sizes)


class Sisa(nn.Module):
    """An ensemble of `shards` ViTs, each with a checkpoint after each of its slices."""

    def __init__(self, architecture: SisaArchitecture) -> None:
        super().__init__()
        self.shards = architecture.shards
        self.slices = architecture.slices
        count = self.shards * self.slices
        self.states = nn.ModuleList(
            ViT(architecture.make_shard_architecture()) for _ in range(count)
        )

    def get_checkpoint(self, shard: int, slice_index: int) -> ViT:
        """Return a shard's ViT after training on its slices up to and including `slice_index`."""
        return cast(ViT, self.states[shard * self.slices + slice_index])

    def forward(self, images: Tensor) -> Tensor:
        """Return the log of the shards' mean probabilities (B, classes) for images (B, 3, S, S)."""
        log_probabilities = []
        for shard in range(self.shards):
            model = self.get_checkpoint(shard, slice_index=self.slices - 1)
            log_probabilities.append(model(images).log_softmax(dim=1))
        return torch.stack(log_probabilities).logsumexp(dim=0) - math.log(self.shards)
