"""The exemplar memory M = {(k_i, v_i)} (sec. 3.2): one row per training sample. To forget a sample, drop its row."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from munkey.core.device import to_device
from munkey.core.ids import NOBODY, rows_of
from munkey.settings import Fusion, InferenceSettings


@dataclass(frozen=True)
class ExemplarMemory:
    """ids: (N,) int64 ascending sample ids, on the host; keys: (N, d) float32, unit norm, fixed; tokens: (N, m)
    float32, learnable. Keys and tokens lie on the device. labels: (N,) int64 on the host, for a head.

    Raises ValueError where they disagree in length or ids do not ascend.
    """

    ids: Tensor
    keys: Tensor
    tokens: Tensor
    labels: Tensor | None = None

    def __post_init__(self) -> None:
        labels = self.ids if self.labels is None else self.labels
        if not len(self.ids) == len(self.keys) == len(self.tokens) == len(labels):
            raise ValueError(f"memory of {len(self.ids)} ids, {len(self.keys)} keys and {len(self.tokens)} tokens")
        if (self.ids[1:] <= self.ids[:-1]).any():
            raise ValueError("the memory's ids must ascend, each once")

    def __len__(self) -> int:
        return len(self.ids)

    def forget(self, ids: np.ndarray) -> "ExemplarMemory":
        """M_u = M without the rows of `ids` (sec. 3.2, Unlearning). This memory stays as it is.

        Raises KeyError for an id that the memory does not hold.
        """
        keep = np.ones(len(self), dtype=bool)
        keep[rows_of(self.ids.numpy(), ids)] = False
        rows = torch.from_numpy(np.flatnonzero(keep))
        left = to_device(rows, self.tokens.device.type)
        labels = None if self.labels is None else self.labels[rows]
        return ExemplarMemory(self.ids[rows], self.keys[left], self.tokens.detach()[left], labels)

    def extended(self, ids: np.ndarray, keys: Tensor, tokens: Tensor, labels: Tensor | None = None) -> "ExemplarMemory":
        """This memory and new rows, which stay sorted by id. Raises ValueError for an id that it holds."""
        device = self.tokens.device.type
        every = torch.cat([self.ids, torch.from_numpy(ids)])
        order = every.argsort()
        parts = [(self.keys, keys), (self.tokens.detach(), tokens)]
        keys, tokens = (torch.cat([held, to_device(new, device)])[to_device(order, device)] for held, new in parts)
        both = None if self.labels is None or labels is None else torch.cat([self.labels, labels])[order]
        return ExemplarMemory(every[order], keys, tokens, both)

    def rows(self, ids: np.ndarray) -> Tensor:
        """Row numbers of neighbor ids (any shape); NOBODY stays NOBODY. Raises KeyError for an id that is not held."""
        rows = np.full(ids.shape, NOBODY, dtype=np.int64)
        rows[ids != NOBODY] = rows_of(self.ids.numpy(), ids[ids != NOBODY])
        return to_device(torch.from_numpy(rows), self.tokens.device.type)

    def tokens_of(self, ids: np.ndarray) -> Tensor:
        """The tokens (B, m) of samples in the memory. Raises KeyError for an id that is not held."""
        return self.tokens[self.rows(ids)]


class Fused(NamedTuple):
    """What the model reads for a query. tokens: (B, P, m), one for each of P passes; weights: (B, P) of the passes."""

    tokens: Tensor
    weights: Tensor


def similarity_weights(cosines: Tensor, present: Tensor, temperature: float) -> Tensor:
    """softmax(cos / tau) over the present neighbors: (..., K) -> (..., K); zero where absent (sec. 3.2, w_j)."""
    scores = (cosines / temperature).masked_fill(~present, -torch.inf)
    return torch.nan_to_num(scores.softmax(dim=-1))


def rank_weights(present: Tensor) -> Tensor:
    """Weights proportional to 1 / (2 + rank), rank from 0, over the present neighbors (app. D.1; formula ours)."""
    weights = present / (2.0 + torch.arange(present.shape[-1], device=present.device))
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-12)


def drawn_weights(weights: Tensor, quantile: Tensor) -> Tensor:
    """All weight on one neighbor, drawn with a probability of its weight: (B, K) -> (B, K).

    quantile: (B,) uniform in [0, 1), which decides. Zero where all weights are zero.
    """
    cumulative = weights.cumsum(dim=1)
    reached = cumulative > quantile[:, None] * cumulative[:, -1:]
    first = reached.int().argmax(dim=1, keepdim=True)
    return torch.zeros_like(weights).scatter(1, first, 1.0) * (weights > 0)


def fusion_weights(cosines: Tensor, present: Tensor, fusion: Fusion, temperature: float) -> Tensor:
    """The weight of each neighbor (..., K). temperature: not read by the fusion `rank`."""
    return rank_weights(present) if fusion == "rank" else similarity_weights(cosines, present, temperature)


def fuse(tokens: Tensor, cosines: Tensor, present: Tensor, settings: InferenceSettings) -> Fused:
    """Tokens (B, K, m) of the nearest neighbors as the model reads them. cosines, present: (B, K).

    `ensemble`: K passes, a token each, whose logits are averaged by weight. `softmax` and `rank`: one pass with the
    weighted average token.
    """
    weights = fusion_weights(cosines, present, settings.fusion, settings.temperature)
    if settings.fusion == "ensemble":
        return Fused(tokens, weights)
    return Fused((weights[:, :, None] * tokens).sum(dim=1, keepdim=True), torch.ones_like(weights[:, :1]))


def passes(settings: InferenceSettings) -> int:
    """How many passes of the model one query takes."""
    return settings.k if settings.fusion == "ensemble" else 1
