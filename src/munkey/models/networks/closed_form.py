"""Linear heads in closed form: functions of exact sums over rows, so deletion leaves no trace.

Centering, scaling and shrinkage are computed from these sums, too; the settings are constants.
"""

from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from munkey.memory.sums import BLOCK, UNIT, Sums, rounded

NO_ROWS = -1e4  # logit of a class without rows: finite, since losses and audits need that
SPREAD = 1e-10  # scatter within classes / squared length of the rows, below which it is rounding


class Head(nn.Module):
    """A linear head in float64. weight: (C, d); bias: (C,).

    sums: those that it was solved from; temperature: the divisor of its logits. Both are None if it
    was read from a file.
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
    """Linear discriminant analysis with a shrunk covariance (Friedman 1989).

    Logits are log posteriors / temperature, up to a constant, of normal classes with means mu_c and
    a shared covariance Sigma = (1 - alpha) S + alpha tr(S) / d I, where S is pooled within classes:
    w_c = Sigma^-1 mu_c and b_c = log(n_c / n) - mu_c^T Sigma^-1 mu_c / 2. If S is 0, Sigma is I, so
    that the nearest mean wins.
    """
    normal = _normal(sums, alpha)
    weight = _solved(normal, normal.means)
    bias = normal.log_priors - 0.5 * (normal.means * weight).sum(axis=1)
    return _head(normal.present, weight, bias, temperature)


def leave_one_out(keys: np.ndarray, labels: np.ndarray, classes: int, alpha: float) -> np.ndarray:
    """Logits (N, C) of each row from a `discriminant` of all other rows, at temperature 1.

    In closed form. Priors, tr(S) and the divisor N - C of the covariance are those of all rows.

    keys: (N, d); labels: (N,). Raises ValueError for a class with a single row, since it would be
    empty without it.
    """
    sums = Sums.empty(classes, keys.shape[1], seconds=True)
    sums.add(keys, labels)
    if (sums.counts == 1).any():
        single = np.flatnonzero(sums.counts == 1).tolist()
        raise ValueError(
            f"leaving a row out needs two rows of each class; number {single} has one: add another"
        )
    return left_out(sums, keys, labels, alpha)


def left_out(sums: Sums, keys: np.ndarray, labels: np.ndarray, alpha: float) -> np.ndarray:
    """As `leave_one_out`, for some of the rows in the sums: keys (N, d) and labels (N,).

    Their classes must have two rows or more.
    """
    normal = _normal(sums, alpha)
    weight = _solved(normal, normal.means)
    squared_lengths = (normal.means * weight).sum(axis=1)  # mu_c^T Sigma^-1 mu_c
    counts = sums.counts[normal.present]
    position = np.cumsum(normal.present) - 1  # of a class among those with rows
    logits = np.full((len(labels), len(sums.counts)), NO_ROWS)
    for start in range(0, len(labels), BLOCK):
        # Without row z of class y, of which n rows exist, with e = z - mu_y:
        #   mu_y' = mu_y - e / (n - 1)   and   Sigma' = Sigma - s e e^T,
        #   s = (1 - alpha) / (N - C) * n / (n - 1).
        # With a = Sigma^-1 e and q = e^T a, the formula of Sherman and Morrison gives
        #   Sigma'^-1 = Sigma^-1 + u a a^T,   u = s / (1 - s q).
        z = rounded(keys[start : start + BLOCK]).astype(np.float64)
        y = position[labels[start : start + BLOCK]]
        n = counts[y]
        e = z - normal.means[y]
        a = _solved(normal, e)
        q = (e * a).sum(axis=1)
        s = normal.row_share * n / (n - 1)
        u = (s / (1 - s * q))[:, None]
        # Products with mu_c of all classes c, then corrected to mu_y' for the row's own class.
        z_a = (z * a).sum(axis=1)  # z^T a
        a_mu = a @ normal.means.T  # a^T mu_c
        z_mu = z @ weight.T  # z^T Sigma^-1 mu_c
        mu_mu = np.tile(squared_lengths, (len(z), 1))  # mu_c^T Sigma^-1 mu_c
        own_class = (np.arange(len(z)), y)
        mu_mu[own_class] += q / (n - 1) ** 2 - 2 * a_mu[own_class] / (n - 1)
        z_mu[own_class] -= z_a / (n - 1)
        a_mu[own_class] -= q / (n - 1)
        # z^T Sigma'^-1 mu_c' - mu_c'^T Sigma'^-1 mu_c' / 2 + log(n_c / n)
        scores = z_mu + u * z_a[:, None] * a_mu - 0.5 * (mu_mu + u * a_mu**2) + normal.log_priors
        logits[start : start + BLOCK, normal.present] = scores
    return logits


def best_temperature(
    logits: np.ndarray,
    labels: np.ndarray,
    bounds: tuple[float, float] = (0.1, 1000),
) -> float:
    """The temperature within bounds at which logits (N, C) have the smallest cross-entropy."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    rows = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        log_probabilities = log_softmax(logits / np.exp(log_temperature), axis=1)
        return -float(log_probabilities[rows, labels].mean())

    minimum = minimize_scalar(loss, bounds=np.log(bounds), method="bounded")
    return float(np.exp(minimum.x))


def nearest_mean(sums: Sums, temperature: float) -> Head:
    """Logits -|z - mu_c|^2 / (2 temperature), up to a constant: the nearest class mean wins."""
    present, means = class_means(sums)
    return _head(present, means, -0.5 * (means**2).sum(axis=1), temperature)


class _Normal(NamedTuple):
    """Normal classes with a shared covariance Sigma.

    present: (C,) bool, whether a class has rows; means, log_priors: (C', d) and (C',), of those
    that do; factor: (d, d), the Cholesky factor of Sigma; row_share: weight in Sigma of one row's
    e e^T.
    """

    present: np.ndarray
    means: np.ndarray
    log_priors: np.ndarray
    factor: Tensor
    row_share: float


def _normal(sums: Sums, alpha: float) -> _Normal:
    assert sums.seconds is not None
    present, means = class_means(sums)
    counts = sums.counts[present]
    width = means.shape[1]
    rows = counts.sum()
    degrees_of_freedom = rows - len(counts)  # N - C
    second_moment = UNIT**2 * sums.seconds
    scatter = second_moment - means.T @ (counts[:, None] * means)
    covariance = np.eye(width)
    row_share = 0.0
    has_spread = float(np.trace(scatter)) > SPREAD * np.trace(second_moment)
    if degrees_of_freedom > 0 and has_spread:
        within = scatter / degrees_of_freedom
        row_share = (1 - alpha) / degrees_of_freedom
        covariance = (1 - alpha) * within + alpha * np.trace(within) / width * covariance
    factor = torch.linalg.cholesky(torch.from_numpy(covariance))
    return _Normal(present, means, np.log(counts / rows), factor, row_share)


def _solved(normal: _Normal, rows: np.ndarray) -> np.ndarray:
    """Rows (N, d) times Sigma^-1."""
    return torch.cholesky_solve(torch.from_numpy(rows.T.copy()), normal.factor).T.numpy()


def class_means(sums: Sums) -> tuple[np.ndarray, np.ndarray]:
    """Whether each class has rows (C,), and the means (C', d) of those that do."""
    present = sums.counts > 0
    means = UNIT * sums.firsts[present] / sums.counts[present, None]
    return present, cast(np.ndarray, means)


def _head(present: np.ndarray, weight: np.ndarray, bias: np.ndarray, temperature: float) -> Head:
    """A head for all classes, from the weights and biases of those with rows."""
    weights = np.zeros((len(present), weight.shape[1]))
    weights[present] = weight / temperature
    biases = np.full(len(present), NO_ROWS)
    biases[present] = bias / temperature
    head = Head(weights, biases)
    head.temperature = temperature
    return head
