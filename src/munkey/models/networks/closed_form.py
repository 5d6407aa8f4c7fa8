"""Heads that follow from sums over the rows that are left, and from nothing else: no training, no trace of a deletion.

Everything that is centered, scaled or shrunk is a function of these sums; the knobs are constants.
"""

from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from munkey.memory.sums import BLOCK, UNIT, Sums, rounded

NEVER = -1e4  # logit of a class without rows: finite, since losses and audits want it so
SPREAD = 1e-10  # a share of the rows' squared length that is rounding and no spread


class Head(nn.Module):
    """A linear head in float64. weight: (C, d); bias: (C,); sums: that it was solved from, and temperature: that
    its logits were divided by; None: read from a file.
    """

    weight: Tensor
    bias: Tensor
    sums: Sums | None = None
    temperature: float | None = None

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
    normal = _normal(sums, alpha)
    weight = _solved(normal, normal.means)
    bias = normal.priors - 0.5 * (normal.means * weight).sum(axis=1)
    return _head(normal.present, weight, bias, temperature)


def leave_one_out(keys: np.ndarray, labels: np.ndarray, classes: int, alpha: float) -> np.ndarray:
    """Logits (N, C) of `discriminant` at temperature 1 for each of its own rows, from all others: in closed form, by
    the formula of Sherman and Morrison, with the priors, the average eigenvalue and N - C of all rows.

    keys: (N, d); labels: (N,). Raises ValueError where a class has one row alone: nothing is left of it without.
    """
    sums = Sums.empty(classes, keys.shape[1], seconds=True)
    sums.add(keys, labels)
    if (sums.counts == 1).any():
        lone = np.flatnonzero(sums.counts == 1).tolist()
        raise ValueError(f"leaving a row out needs two rows of each class; number {lone} has one: add another")
    return left_out(sums, keys, labels, alpha)


def left_out(sums: Sums, keys: np.ndarray, labels: np.ndarray, alpha: float) -> np.ndarray:
    """As `leave_one_out`, for some of the rows in the sums: keys (N, d) and labels (N,) of classes with two or more."""
    classes = len(sums.counts)
    normal, logits = _normal(sums, alpha), np.full((len(labels), classes), NEVER)
    weight, place = _solved(normal, normal.means), np.cumsum(normal.present) - 1
    lengths = (normal.means * weight).sum(axis=1)
    for start in range(0, len(labels), BLOCK):
        z, own = rounded(keys[start : start + BLOCK]).astype(np.float64), place[labels[start : start + BLOCK]]
        each, n = np.arange(len(z)), sums.counts[normal.present][own]
        apart = z - normal.means[own]
        a = _solved(normal, apart)
        q, along, across = (apart * a).sum(axis=1), (z * a).sum(axis=1), a @ normal.means.T
        share = normal.share * n / (n - 1)  # of the covariance that is this row's own
        near, far = z @ weight.T, np.tile(lengths, (len(z), 1))
        far[each, own] += q / (n - 1) ** 2 - 2 * across[each, own] / (n - 1)
        near[each, own] -= along / (n - 1)
        across[each, own] -= q / (n - 1)
        u = (share / (1 - share * q))[:, None]
        known = near + u * along[:, None] * across - 0.5 * (far + u * across**2) + normal.priors
        logits[start : start + BLOCK, normal.present] = known
    return logits


def best_temperature(logits: np.ndarray, labels: np.ndarray, bounds: tuple[float, float] = (0.1, 1000)) -> float:
    """By which logits (N, C) are divided so that the cross-entropy of the labels is smallest, within bounds."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    def loss(log_temperature: float) -> float:
        return -float(log_softmax(logits / np.exp(log_temperature), axis=1)[np.arange(len(labels)), labels].mean())

    return float(np.exp(minimize_scalar(loss, bounds=np.log(bounds), method="bounded").x))


def nearest_mean(sums: Sums, temperature: float) -> Head:
    """Half the squared distance to each class's mean, negative and / temperature, up to a constant."""
    present, means = class_means(sums)
    return _head(present, means, -0.5 * (means**2).sum(axis=1), temperature)


class _Normal(NamedTuple):
    """Classes that share a covariance. present: (C,) which have rows; means: (C', d); priors: (C',), their logarithms;
    factor: (d, d) of Cholesky; share: of the outer product of what a row is off in the covariance.
    """

    present: np.ndarray
    means: np.ndarray
    priors: np.ndarray
    factor: Tensor
    share: float


def _normal(sums: Sums, alpha: float) -> _Normal:
    assert sums.seconds is not None
    present, means = class_means(sums)
    counts, width = sums.counts[present], means.shape[1]
    rows, total = counts.sum(), UNIT**2 * sums.seconds
    scatter = total - means.T @ (counts[:, None] * means)
    covariance, share, trace = np.eye(width), 0.0, float(np.trace(scatter))
    if rows > len(counts) and trace > SPREAD * np.trace(total):
        within, share = scatter / (rows - len(counts)), (1 - alpha) / (rows - len(counts))
        covariance = (1 - alpha) * within + alpha * np.trace(within) / width * covariance
    factor = torch.linalg.cholesky(torch.from_numpy(covariance))
    return _Normal(present, means, np.log(counts / rows), factor, share)


def _solved(normal: _Normal, rows: np.ndarray) -> np.ndarray:
    """Rows (N, d) times the inverse of the covariance."""
    return torch.cholesky_solve(torch.from_numpy(rows.T.copy()), normal.factor).T.numpy()


def class_means(sums: Sums) -> tuple[np.ndarray, np.ndarray]:
    """Which classes have rows (C,), and their means (C', d)."""
    present = sums.counts > 0
    return present, cast(np.ndarray, UNIT * sums.firsts[present] / sums.counts[present, None])


def _head(present: np.ndarray, weight: np.ndarray, bias: np.ndarray, temperature: float) -> Head:
    """A head for all classes, from that of those which have rows."""
    weights, biases = np.zeros((len(present), weight.shape[1])), np.full(len(present), NEVER)
    weights[present], biases[present] = weight / temperature, bias / temperature
    head = Head(weights, biases)
    head.temperature = temperature
    return head
