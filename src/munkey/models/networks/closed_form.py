"""Heads that follow from sums over the rows that are left, and from nothing else: no training, no trace of a deletion.

Everything that is centered, scaled or shrunk is a function of these sums; the knobs are constants.
"""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from munkey.memory.sums import UNIT, Sums

NEVER = -1e4  # logit of a class without rows: finite, since losses and audits want it so
SPREAD = 1e-10  # a share of the rows' squared length that is rounding and no spread


class Head(nn.Module):
    """A linear head in float64. weight: (C, d); bias: (C,); sums: that it was solved from; None: read from a file."""

    weight: Tensor
    bias: Tensor
    sums: Sums | None = None

    def __init__(self, weight: np.ndarray, bias: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("weight", torch.from_numpy(weight))
        self.register_buffer("bias", torch.from_numpy(bias))
        self.eval()

    def forward(self, keys: Tensor) -> Tensor:
        """Keys (B, d) to logits (B, C), both float32."""
        return (keys.double() @ self.weight.T + self.bias).float()


def discriminant(sums: Sums, alpha: float, temperature: float) -> Head:
    """Linear discriminant analysis: log posteriors / temperature, up to a constant, of normal classes that share one
    covariance: (1 - alpha) times the pooled one within classes, plus alpha times its average eigenvalue.

    Where no class has rows that differ, that covariance is taken to be 1, so that the nearest mean wins.
    """
    assert sums.seconds is not None
    present, means = _means(sums)
    counts, width = sums.counts[present], means.shape[1]
    rows, total = counts.sum(), UNIT**2 * sums.seconds
    scatter = total - means.T @ (counts[:, None] * means)
    covariance, trace = np.eye(width), float(np.trace(scatter))
    if rows > len(counts) and trace > SPREAD * np.trace(total):
        within = scatter / (rows - len(counts))
        covariance = (1 - alpha) * within + alpha * np.trace(within) / width * covariance
    factor = torch.linalg.cholesky(torch.from_numpy(covariance))
    weight = torch.cholesky_solve(torch.from_numpy(means.T.copy()), factor).T.numpy()
    return _head(present, weight, np.log(counts / rows) - 0.5 * (means * weight).sum(axis=1), temperature)


def nearest_mean(sums: Sums, temperature: float) -> Head:
    """Half the squared distance to each class's mean, negative and / temperature, up to a constant."""
    present, means = _means(sums)
    return _head(present, means, -0.5 * (means**2).sum(axis=1), temperature)


def _means(sums: Sums) -> tuple[np.ndarray, np.ndarray]:
    """Which classes have rows (C,), and their means (C', d)."""
    present = sums.counts > 0
    return present, cast(np.ndarray, UNIT * sums.firsts[present] / sums.counts[present, None])


def _head(present: np.ndarray, weight: np.ndarray, bias: np.ndarray, temperature: float) -> Head:
    """A head for all classes, from that of those which have rows."""
    weights, biases = np.zeros((len(present), weight.shape[1])), np.full(len(present), NEVER)
    weights[present], biases[present] = weight / temperature, bias / temperature
    return Head(weights, biases)
