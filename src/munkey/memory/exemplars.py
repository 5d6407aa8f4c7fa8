"""The exemplar memory M = {(k_i, v_i)} (sec. 3.2), with one row per training sample.

To forget a sample, delete its row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from munkey.core.device import to_device
from munkey.core.ids import NOBODY, find_rows
from munkey.settings import Fusion, InferenceSettings


@dataclass(frozen=True)
class ExemplarMemory:
    """Ids, keys and tokens of the training samples.

    Parameters
    ----------
    ids : Tensor of int64, shape (N,)
        Sample ids in ascending order, on the host.
    keys : Tensor of float32, shape (N, d)
        The keys k_i, of unit norm, on the device. They never change.
    tokens : Tensor of float32, shape (N, m)
        The learned exemplar tokens v_i, on the device.
    labels : Tensor of int64, shape (N,), optional
        Class of each row, on the host, if the model has a head that needs them.

    Raises
    ------
    ValueError
        If the lengths differ, or if the ids are not in ascending order.
    """

    ids: Tensor
    keys: Tensor
    tokens: Tensor
    labels: Tensor | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.ids), len(self.keys), len(self.tokens)}
        if self.labels is not None:
            lengths.add(len(self.labels))
        if len(lengths) > 1:
            raise ValueError(
                f"memory of {len(self.ids)} ids, {len(self.keys)} keys and {len(self.tokens)}"
                " tokens"
            )
        if (self.ids[1:] <= self.ids[:-1]).any():
            raise ValueError("the memory's ids must be unique and in ascending order")

    def __len__(self) -> int:
        return len(self.ids)

    def forget(self, ids: np.ndarray) -> "ExemplarMemory":
        """Return M_u, a copy of M without the rows with these ids (sec. 3.2, Unlearning).

        Raises KeyError for an id that is not in the memory.
        """
        is_remaining = np.ones(len(self), dtype=bool)
        is_remaining[find_rows(self.ids.numpy(), ids)] = False
        rows = torch.from_numpy(np.flatnonzero(is_remaining))
        labels = None
        if self.labels is not None:
            labels = self.labels[rows]
        # Ids and labels are on the host, keys and tokens on the device.
        device_rows = to_device(rows, self.tokens.device.type)
        return ExemplarMemory(
            self.ids[rows],
            self.keys[device_rows],
            self.tokens.detach()[device_rows],
            labels,
        )

    def add(
        self, ids: np.ndarray, keys: Tensor, tokens: Tensor, labels: Tensor | None = None
    ) -> "ExemplarMemory":
        """Return a copy of this memory with new rows, sorted by id.

        Raises ValueError for an id that is already in the memory.
        """
        device = self.tokens.device.type
        all_ids = torch.cat([self.ids, torch.from_numpy(ids)])
        order = all_ids.argsort()
        device_order = to_device(order, device)
        all_keys = torch.cat([self.keys, to_device(keys, device)])
        all_tokens = torch.cat([self.tokens.detach(), to_device(tokens, device)])
        all_labels = None
        if self.labels is not None and labels is not None:
            all_labels = torch.cat([self.labels, labels])[order]
        return ExemplarMemory(
            all_ids[order],
            all_keys[device_order],
            all_tokens[device_order],
            all_labels,
        )

    def find_rows(self, ids: np.ndarray) -> Tensor:
        """Return the row numbers of neighbor ids (any shape); NOBODY where the id is NOBODY.

        Raises KeyError for an id that is not in the memory.
        """
        is_present = ids != NOBODY
        rows = np.full(ids.shape, NOBODY, dtype=np.int64)
        rows[is_present] = find_rows(self.ids.numpy(), ids[is_present])
        return to_device(torch.from_numpy(rows), self.tokens.device.type)

    def find_tokens(self, ids: np.ndarray) -> Tensor:
        """Return the tokens (B, m) of samples. Raises KeyError for an id that is not in the memory."""
        return self.tokens[self.find_rows(ids)]


class FusedTokens(NamedTuple):
    """The tokens (B, P, m) that a model reads, one per forward pass, and their weights (B, P)."""

    tokens: Tensor
    weights: Tensor


def compute_similarity_weights(cosines: Tensor, present: Tensor, temperature: float) -> Tensor:
    """Compute w_j = softmax(cos / tau) over present neighbors (..., K), 0 if absent (sec. 3.2)."""
    scores = (cosines / temperature).masked_fill(~present, -torch.inf)
    return torch.nan_to_num(scores.softmax(dim=-1))  # NaN for a query without neighbors


def compute_rank_weights(present: Tensor) -> Tensor:
    """Compute weights (..., K) in proportion to 1 / (2 + rank), with ranks from 0 (app. D.1).

    The paper gives no formula; this one is ours.
    """
    weights = present / (2.0 + torch.arange(present.shape[-1], device=present.device))
    total = weights.sum(dim=-1, keepdim=True)
    return weights / total.clamp(min=1e-12)  # avoids 0 / 0 for a query without neighbors


def draw_weights(weights: Tensor, quantile: Tensor) -> Tensor:
    """Draw one neighbor per query with probabilities `weights`. Returns one-hot weights (B, K).

    quantile: (B,), uniform in [0, 1). A query whose weights are all 0 gets weights of 0.
    """
    # Inverse transform sampling: the first neighbor whose cumulative weight exceeds the quantile.
    # The last cumulative weight is the total, which may differ slightly from 1.
    cumulative = weights.cumsum(dim=1)
    exceeds = cumulative > quantile[:, None] * cumulative[:, -1:]
    first = exceeds.int().argmax(dim=1, keepdim=True)  # argmax returns the first True
    one_hot = torch.zeros_like(weights).scatter(1, first, 1.0)
    return one_hot * (weights > 0)  # without neighbors, argmax still returns 0


def compute_fusion_weights(
    cosines: Tensor, present: Tensor, fusion: Fusion, temperature: float
) -> Tensor:
    """Compute the weight of each neighbor (..., K). `rank` does not use the temperature."""
    if fusion == "rank":
        return compute_rank_weights(present)
    return compute_similarity_weights(cosines, present, temperature)


def fuse(
    tokens: Tensor, cosines: Tensor, present: Tensor, settings: InferenceSettings
) -> FusedTokens:
    """Fuse the tokens (B, K, m) of the nearest neighbors. cosines, present: (B, K).

    `ensemble` takes K passes, one for each token, and averages their logits by weight (sec. 3.2,
    Inference). `softmax` and `rank` take one pass with the weighted average token (app. D.1).
    """
    weights = compute_fusion_weights(cosines, present, settings.fusion, settings.temperature)
    if settings.fusion == "ensemble":
        return FusedTokens(tokens, weights)
    average_token = (weights[:, :, None] * tokens).sum(dim=1, keepdim=True)  # (B, 1, m)
    return FusedTokens(average_token, torch.ones_like(weights[:, :1]))


def count_passes(settings: InferenceSettings) -> int:
    """Return the number of forward passes per query."""
    return settings.k if settings.fusion == "ensemble" else 1
