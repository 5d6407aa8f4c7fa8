"""SISA's network: an ensemble of ViTs, each with its checkpoints (Bourtoule et al. 2021)."""

import math
from dataclasses import dataclass, fields
from typing import cast

import torch
from torch import Tensor, nn

from munkey.models.networks.vit import ViT, ViTArchitecture


@dataclass(frozen=True)
class SisaArchitecture(ViTArchitecture):
    """shards: models of the ensemble; slices: checkpoints of each."""

    shards: int
    slices: int

    def of_one(self) -> ViTArchitecture:
        """The architecture of each model."""
        return ViTArchitecture(**{field.name: getattr(self, field.name) for field in fields(ViTArchitecture)})


class Sisa(nn.Module):
    """`shards` ViTs that answer together; each is kept as it was after each of its slices."""

    def __init__(self, architecture: SisaArchitecture) -> None:
        super().__init__()
        self.shards, self.slices = architecture.shards, architecture.slices
        self.states = nn.ModuleList(ViT(architecture.of_one()) for _ in range(self.shards * self.slices))

    def state(self, shard: int, part: int) -> ViT:
        """The model of a shard as it was after its slice `part`."""
        return cast(ViT, self.states[shard * self.slices + part])

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) -> (B, classes): the log of the shards' mean probability after their last slice."""
        answers = [self.state(shard, self.slices - 1)(images).log_softmax(dim=1) for shard in range(self.shards)]
        return torch.stack(answers).logsumexp(dim=0) - math.log(self.shards)
