"""The exemplar memory M = {(k_i, v_i)} (sec. 3.2), with one row per training sample.

Deleting a sample's row forgets the sample.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from munkey.core.device import to_device
from munkey.core.ids import NO_NEIGHBOR, require_known
from munkey.memory.memory import Columns, Memory, make_columns
from munkey.settings import Fusion, InferenceSettings


@dataclass(frozen=True)
class ExemplarMemory:
    """Ids, keys, and tokens of the training samples.

    Parameters
    ----------
    ids : Tensor of int64, shape (N,)
        Sample ids in strictly ascending order, on the host.
    keys : Tensor of float32, shape (N, d)
        The keys k_i, of unit norm, on the device. They never change.
    tokens : Tensor of float32, shape (N, m)
        The exemplar tokens v_i, on the device. They are learned in training.
    labels : Tensor of int64, shape (N,), optional
        Class of each row, on the host. None if the model has no head that needs it.

    Raises
    ------
    ValueError
        If the tensors differ in length, or if the ids are not strictly ascending.
    """

    ids: Tensor
    keys: Tensor
    tokens: Tensor
    labels: Tensor | None = None

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.keys) == len(self.tokens):
            raise ValueError(
                f"the memory has {len(self.ids)} ids, {len(self.keys)} keys and"
                f" {len(self.tokens)} tokens, but needs one of each per row"
            )
        if self.labels is not None and len(self.labels) != len(self.ids):
            raise ValueError(
                f"the memory has {len(self.ids)} ids and {len(self.labels)} labels, but needs one"
                " of each per row"
            )
        if (self.ids[1:] <= self.ids[:-1]).any():
            raise ValueError("the memory's ids must be in strictly ascending order")

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _rows(self) -> Memory:
        """The ids and labels of the rows, which are numbered by position, from 1."""
        return Memory.create(_make_columns(self.ids.numpy(), self.labels, first_number=1))

    def forget(self, ids: np.ndarray) -> "ExemplarMemory":
        """Return M_u, a copy of M without these samples (sec. 3.2, Unlearning).

        Raises KeyError if an id is not in the memory.
        """
        rows = self._rows.find_rows(ids)
        require_known(ids, rows != NO_NEIGHBOR)
        remaining = self._rows.drop(rows)
        return _gather(remaining, self.keys, self.tokens.detach(), self.labels is not None)

    def add(
        self, ids: np.ndarray, keys: Tensor, tokens: Tensor, labels: Tensor | None = None
    ) -> "ExemplarMemory":
        """Return a copy of this memory with additional rows, sorted by id.

        The copy has labels only if both this memory and the new rows have them. Raises ValueError
        if an id is already in the memory.
        """
        device = self.tokens.device.type
        extended = self._rows.add(_make_columns(ids, labels, first_number=len(self) + 1))
        all_keys = torch.cat([self.keys, to_device(keys, device)])
        all_tokens = torch.cat([self.tokens.detach(), to_device(tokens, device)])
        has_labels = self.labels is not None and labels is not None
        return _gather(extended, all_keys, all_tokens, has_labels)

    def find_rows(self, ids: np.ndarray) -> Tensor:
        """Return the row of each id (any shape). For the id NO_NEIGHBOR, the row is NO_NEIGHBOR.

        Raises KeyError if any other id is not in the memory.
        """
        rows = self._rows.find_rows(ids)
        require_known(ids, (rows != NO_NEIGHBOR) | (ids == NO_NEIGHBOR))
        return to_device(torch.from_numpy(rows), self.tokens.device.type)

    def find_tokens(self, ids: np.ndarray) -> Tensor:
        """Return the tokens (B, m) of samples. Raises KeyError if an id is not in the memory."""
        return self.tokens[self.find_rows(ids)]


def _make_columns(ids: np.ndarray, labels: Tensor | None, first_number: int) -> Columns:
    """Return rows with consecutive numbers and without keys and tokens."""
    no_vectors = np.empty((len(ids), 0), dtype=np.float32)  # they are on the device
    return make_columns(
        ids,
        keys=no_vectors,
        tokens=no_vectors,
        labels=None if labels is None else labels.numpy(),
        numbers=first_number + np.arange(len(ids)),
    )


def _gather(rows: Memory, keys: Tensor, tokens: Tensor, has_labels: bool) -> ExemplarMemory:
    """Return an exemplar memory of rows. Row number n has the n-th of the keys and tokens."""
    live_rows = rows.live_rows
    positions = torch.from_numpy(rows.columns.numbers[live_rows] - 1)
    device_positions = to_device(positions, tokens.device.type)
    return ExemplarMemory(
        ids=torch.from_numpy(rows.ids[live_rows]),
        keys=keys[device_positions],
        tokens=tokens[device_positions],
        labels=torch.from_numpy(rows.labels[live_rows]) if has_labels else None,
    )


class FusedTokens(NamedTuple):
    """The tokens that a model reads for a batch of B queries.

    Attributes
    ----------
    tokens
        (B, P, m): one token for each of P forward passes.
    weights
        (B, P): the weight of each forward pass's logits.
    """

    tokens: Tensor
    weights: Tensor


def compute_similarity_weights(cosines: Tensor, present: Tensor, temperature: float) -> Tensor:
    """Return the weights of neighbors (..., K), softmax(cosines / temperature) (sec. 3.2).

    The weight of an absent neighbor is 0.
    """
    scores = (cosines / temperature).masked_fill(~present, -torch.inf)
    # Without any present neighbor, the softmax is NaN.
    return torch.nan_to_num(scores.softmax(dim=-1))


def compute_rank_weights(present: Tensor) -> Tensor:
    """Return weights (..., K) proportional to 1 / (2 + rank), with ranks from 0 (app. D.1).

    The paper gives no formula for these weights; this one is ours.
    """
    ranks = torch.arange(present.shape[-1], device=present.device)
    weights = present / (2.0 + ranks)
    total = weights.sum(dim=-1, keepdim=True)
    return weights / total.clamp(min=1e-12)  # the total is 0 without any present neighbor


def draw_weights(weights: Tensor, quantile: Tensor) -> Tensor:
    """Draw one neighbor per query with probabilities `weights`. Returns one-hot weights (B, K).

    If all weights of a query are 0, so are the returned weights.

    Parameters
    ----------
    quantile
        (B,) uniform random numbers in [0, 1).
    """
    # Inverse transform sampling: choose the first neighbor whose cumulative weight exceeds the
    # quantile. The quantile is scaled by the total weight, which rounding can move away from 1.
    cumulative = weights.cumsum(dim=1)
    exceeds = cumulative > quantile[:, None] * cumulative[:, -1:]
    drawn = exceeds.int().argmax(dim=1, keepdim=True)  # argmax returns the first True
    one_hot = torch.zeros_like(weights).scatter(1, drawn, 1.0)
    return one_hot * (weights > 0)  # without neighbors, argmax still returns 0


def compute_fusion_weights(
    cosines: Tensor, present: Tensor, fusion: Fusion, temperature: float
) -> Tensor:
    """Return the weight of each neighbor (..., K). The fusion `rank` ignores the temperature."""
    if fusion == "rank":
        return compute_rank_weights(present)
    return compute_similarity_weights(cosines, present, temperature)


def average_tokens(
    tokens: Tensor, cosines: Tensor, present: Tensor, settings: InferenceSettings
) -> Tensor:
    """Average the tokens (..., K, m) of neighbors with their fusion weights: (..., m).

    Rows that were added after training borrow this average as their token.
    """
    weights = compute_fusion_weights(cosines, present, settings.fusion, settings.temperature)
    return (weights[..., None] * tokens).sum(dim=-2)


def fuse(
    tokens: Tensor, cosines: Tensor, present: Tensor, settings: InferenceSettings
) -> FusedTokens:
    """Combine the neighbors' tokens for the forward passes of a query.

    With the fusion `ensemble`, the model reads each token in its own forward pass, and the logits
    of the K passes are averaged by weight (sec. 3.2, Inference). With `softmax` and `rank`, it
    reads the weighted average of the tokens in a single pass (app. D.1).

    Parameters
    ----------
    tokens
        (B, K, m): tokens of the K nearest neighbors of each query.
    cosines
        (B, K): their cosine similarities to the query.
    present
        (B, K): false where the memory has too few rows.
    """
    if settings.fusion == "ensemble":
        weights = compute_fusion_weights(cosines, present, settings.fusion, settings.temperature)
        return FusedTokens(tokens, weights)
    average_token = average_tokens(tokens, cosines, present, settings)[:, None]  # (B, 1, m)
    return FusedTokens(average_token, torch.ones_like(cosines[:, :1]))


def count_passes(settings: InferenceSettings) -> int:
    """Return the number of forward passes per query."""
    if settings.fusion == "ensemble":
        return settings.k
    return 1
