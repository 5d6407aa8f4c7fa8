"""Closed-form linear heads. They are functions of exact sums over rows: deletion leaves no trace.

Centering, scaling and shrinkage are also computed from these sums; the settings are constants.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from munkey.core.device import to_host
from munkey.memory.sums import BLOCK, UNIT, RandomFeatures, Sums

NO_ROWS = -1e4  # logit of a class without rows; finite, as losses and audits require
SPREAD = 1e-10  # scatter within classes, relative to squared norms, below which it is rounding


class Head(nn.Module):
    """A linear head in float64. weight: (C, d); bias: (C,).

    features: random features of keys, which replace the keys. sums: the sums that it was computed
    from. temperature: the divisor of its logits. constant: its shrinkage or penalty. The last three
    are None if it was read from a file.
    """

    weight: Tensor
    bias: Tensor
    sums: Sums | None = None
    temperature: float | None = None
    constant: float | None = None

    def __init__(
        self, weight: np.ndarray, bias: np.ndarray, features: RandomFeatures | None = None
    ) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("weight", torch.from_numpy(weight))
        self.register_buffer("bias", torch.from_numpy(bias))
        self.eval()

    def forward(self, keys: Tensor) -> Tensor:
        """Compute logits (B, C) of keys (B, d), both float32."""
        if self.features is not None:
            vectors = self.features.transform(to_host(keys).numpy())
            keys = torch.from_numpy(vectors).to(self.weight.device)
        return (keys.double() @ self.weight.T + self.bias).float()


def fit_discriminant(sums: Sums, alpha: float, temperature: float) -> Head:
    """Fit linear discriminant analysis with a shrunk covariance (Friedman 1989).

    Logits are log posteriors / temperature, up to a constant, of normal classes with means mu_c and
    a shared covariance Sigma = (1 - alpha) S + alpha tr(S) / d I, where S is pooled within classes:
    w_c = Sigma^-1 mu_c and b_c = log(n_c / n) - mu_c^T Sigma^-1 mu_c / 2. If S is 0, Sigma is I, so
    the nearest mean is predicted.
    """
    normal = _estimate_normal(sums, alpha)
    means = normal.pooled.means
    weight = normal.solve(means)
    bias = normal.pooled.log_priors - 0.5 * (means * weight).sum(axis=1)
    return _build_head(sums, weight, bias, temperature)


def predict_leave_one_out(
    keys: np.ndarray, labels: np.ndarray, classes: int, alpha: float
) -> np.ndarray:
    """Predict each row's logits (N, C) with `fit_discriminant` on all other rows, at temperature 1.

    Computed in closed form. Priors, tr(S) and the divisor N - C of the covariance are those of all
    rows.

    keys: (N, d); labels: (N,). Raises ValueError for a class with a single row, which would be
    empty without it.
    """
    sums = Sums.empty(classes, keys.shape[1], seconds=True)
    sums.add(keys, labels)
    if (sums.counts == 1).any():
        single = np.flatnonzero(sums.counts == 1).tolist()
        raise ValueError(
            f"leaving a row out needs two rows of each class; number {single} has one: add another"
        )
    return predict_left_out(sums, keys, labels, alpha)


def predict_left_out(sums: Sums, keys: np.ndarray, labels: np.ndarray, alpha: float) -> np.ndarray:
    """Do `predict_leave_one_out` for some rows of the sums, keys (N, d) and labels (N,).

    Their classes must have two or more rows.
    """
    normal = _estimate_normal(sums, alpha)
    return _predict_left_out(normal, sums, sums.compute_vectors(keys), labels)


def predict_left_out_by_alpha(
    sums: Sums, keys: np.ndarray, labels: np.ndarray, alphas: Sequence[float]
) -> Iterator[np.ndarray]:
    """Yield the logits of `predict_left_out` for each alpha, after a single eigendecomposition.

    All Sigma have the same eigenvectors. With keys and means in that basis, Sigma is diagonal, so
    the inverse that each alpha needs is a division.
    """
    pooled = _pool(sums)
    vectors = sums.compute_vectors(keys)
    width = vectors.shape[1]
    if sums.counts.sum() == len(vectors) < width:
        # Fewer rows than dimensions. In an orthonormal basis of their span, all products stay the
        # same, and the matrices are only (N, N).
        basis, coordinates = map(np.asarray, torch.linalg.qr(torch.from_numpy(vectors.T.copy())))
        vectors = coordinates.T
        within = basis.T @ pooled.within @ basis
        pooled = pooled._replace(means=pooled.means @ basis, within=within)
    variances, axes = map(np.asarray, torch.linalg.eigh(torch.from_numpy(pooled.within)))
    pooled = pooled._replace(means=pooled.means @ axes)
    vectors = vectors @ axes
    for alpha in alphas:
        shrunk = (1 - alpha) * variances + alpha * pooled.total_variance / width
        yield _predict_left_out(_Normal(pooled, alpha, shrunk), sums, vectors, labels)


def _predict_left_out(
    normal: "_Normal", sums: Sums, vectors: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Predict logits (N, C) of some rows of the sums. vectors: (N, d), in the basis of `normal`."""
    means = normal.pooled.means
    weight = normal.solve(means)
    squared_lengths = (means * weight).sum(axis=1)  # mu_c^T Sigma^-1 mu_c
    counts = sums.counts[normal.pooled.present]
    position = np.cumsum(normal.pooled.present) - 1  # index of a class among those with rows
    logits = np.full((len(labels), len(sums.counts)), NO_ROWS)
    for start in range(0, len(labels), BLOCK):
        # Without row z of class y, of which n rows exist, with e = z - mu_y:
        #   mu_y' = mu_y - e / (n - 1)   and   Sigma' = Sigma - s e e^T,
        #   s = (1 - alpha) / (N - C) * n / (n - 1).
        # With a = Sigma^-1 e and q = e^T a, the Sherman-Morrison formula gives
        #   Sigma'^-1 = Sigma^-1 + u a a^T,   u = s / (1 - s q).
        z = vectors[start : start + BLOCK]
        y = position[labels[start : start + BLOCK]]
        n = counts[y]
        e = z - means[y]
        a = normal.solve(e)
        q = (e * a).sum(axis=1)
        s = normal.row_share * n / (n - 1)
        u = (s / (1 - s * q))[:, None]
        # Products with mu_c of all classes c, then corrected to mu_y' for the row's own class.
        z_a = (z * a).sum(axis=1)  # z^T a
        a_mu = a @ means.T  # a^T mu_c
        z_mu = z @ weight.T  # z^T Sigma^-1 mu_c
        mu_mu = np.tile(squared_lengths, (len(z), 1))  # mu_c^T Sigma^-1 mu_c
        own_class = (np.arange(len(z)), y)
        mu_mu[own_class] += q / (n - 1) ** 2 - 2 * a_mu[own_class] / (n - 1)
        z_mu[own_class] -= z_a / (n - 1)
        a_mu[own_class] -= q / (n - 1)
        # z^T Sigma'^-1 mu_c' - mu_c'^T Sigma'^-1 mu_c' / 2 + log(n_c / n)
        scores = z_mu + u * z_a[:, None] * a_mu - 0.5 * (mu_mu + u * a_mu**2)
        logits[start : start + BLOCK, normal.pooled.present] = scores + normal.pooled.log_priors
    return logits


def find_best_temperature(
    logits: np.ndarray,
    labels: np.ndarray,
    bounds: tuple[float, float] = (0.1, 1000),
) -> float:
    """Find the temperature within bounds at which logits (N, C) have the smallest cross-entropy."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    rows = np.arange(len(labels))

    def compute_loss(log_temperature: float) -> float:
        log_probabilities = log_softmax(logits / np.exp(log_temperature), axis=1)
        return -float(log_probabilities[rows, labels].mean())

    minimum = minimize_scalar(compute_loss, bounds=np.log(bounds), method="bounded")
    return float(np.exp(minimum.x))


def fit_nearest_mean(sums: Sums, temperature: float) -> Head:
    """Fit the nearest class mean: logits -|z - mu_c|^2 / (2 temperature), up to a constant."""
    _, means = compute_class_means(sums)
    return _build_head(sums, means, -0.5 * (means**2).sum(axis=1), temperature)


def fit_ridge(sums: Sums, penalty: float, temperature: float) -> Head:
    """Fit ridge regression to one-hot labels, with an unpenalized intercept.

    With vectors z and targets y centered over all rows, S = sum z z^T and Q = sum z y^T, the
    weights are W = (S + penalty tr(S) / w I)^-1 Q. Logits are predicted shares / temperature. If S
    is 0, the predicted shares are the class frequencies.
    """
    centered = _center(sums)
    weight = _solve_ridge(centered, penalty)
    bias = centered.shares - weight @ centered.mean
    return _build_head(sums, weight, bias, temperature)


def predict_left_out_ridge(
    sums: Sums, keys: np.ndarray, labels: np.ndarray, penalty: float
) -> np.ndarray:
    """Predict shares (N, C) for some rows of the sums, each with `fit_ridge` on all others.

    Computed in closed form; tr(S) is that of all rows. A class without other rows keeps its column.
    """
    centered = _center(sums)
    weight = _solve_ridge(centered, penalty)
    rows = sums.counts.sum()
    factor = _factor_ridge(centered, penalty)
    shares = np.full((len(labels), len(sums.counts)), NO_ROWS)
    place = np.cumsum(centered.present) - 1
    for start in range(0, len(labels), BLOCK):
        z = sums.compute_vectors(keys[start : start + BLOCK]) - centered.mean
        y = place[labels[start : start + BLOCK]]
        own_class = (np.arange(len(z)), y)
        # The leverage h = 1 / n + z^T (S + penalty)^-1 z of a row; without it, the prediction f of
        # its target y is (f - h y) / (1 - h) (PRESS; Allen 1974).
        solutions = torch.cholesky_solve(torch.from_numpy(z.T.copy()), factor).T.numpy()
        leverage = 1 / rows + (z * solutions).sum(axis=1)
        predictions = z @ weight.T + centered.shares
        predictions[own_class] -= leverage
        shares[start : start + BLOCK, centered.present] = predictions / (1 - leverage)[:, None]
    return shares


def find_best_penalty(sums: Sums, penalties: Sequence[float]) -> float:
    """Find the penalty of `fit_ridge` by generalized cross-validation (Golub 1979).

    The error is n |Y - Z W|^2 / (n - tr H)^2, where H maps targets to predictions. It is computed
    only from sums, with the eigenvectors of S. Ties go to the first penalty; if all rows are equal,
    the last is returned.
    """
    centered = _center(sums)
    rows = float(sums.counts.sum())
    if not centered.scatter.any():
        return penalties[-1]
    values, vectors = torch.linalg.eigh(torch.from_numpy(centered.scatter))
    spectrum = np.maximum(values.numpy(), 0)
    # Squared norm of the targets' correlations with each eigenvector, over all classes.
    energy = ((centered.cross @ vectors.numpy()) ** 2).sum(axis=0)
    squared_targets = rows - float((centered.shares**2).sum()) * rows
    errors = []
    for penalty in penalties:
        ridge_value = spectrum + penalty * centered.scale
        # |Y - Z W|^2 = |Y|^2 - 2 tr(W^T Q) + tr(W^T S W)
        fitted = energy * (2 / ridge_value - spectrum / ridge_value**2)
        residual = squared_targets - float(fitted.sum())
        freedom = rows - 1 - float((spectrum / ridge_value).sum())
        errors.append(rows * residual / freedom**2)
    return penalties[int(np.argmin(errors))]


class _Centered(NamedTuple):
    """Sums about the mean of all rows.

    present: (C,) bool, whether a class has rows. shares: (C',), its share of the rows. mean: (w,).
    scatter: S, (w, w). cross: Q^T, (C', w). scale: tr(S) / w, or 1 if that is 0.
    """

    present: np.ndarray
    shares: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    cross: np.ndarray
    scale: float


def _center(sums: Sums) -> _Centered:
    assert sums.seconds is not None
    present = sums.counts > 0
    counts = sums.counts[present]
    rows = counts.sum()
    firsts = UNIT * sums.firsts[present]
    mean = firsts.sum(axis=0) / max(rows, 1)
    second_moment = UNIT**2 * sums.seconds
    scatter = second_moment - rows * np.outer(mean, mean)  # S = sum z z^T - n m m^T
    scale = float(np.trace(scatter)) / len(mean)
    if not scale * len(mean) > SPREAD * np.trace(second_moment):
        scatter = np.zeros_like(scatter)
        scale = 1.0
    return _Centered(
        present,
        counts / max(rows, 1),
        mean,
        scatter,
        firsts - counts[:, None] * mean,
        scale,
    )


def _factor_ridge(centered: _Centered, penalty: float) -> Tensor:
    matrix = centered.scatter + penalty * centered.scale * np.eye(len(centered.mean))
    return torch.linalg.cholesky(torch.from_numpy(matrix))


def _solve_ridge(centered: _Centered, penalty: float) -> np.ndarray:
    """Compute the weights (C', w)."""
    factor = _factor_ridge(centered, penalty)
    return torch.cholesky_solve(torch.from_numpy(centered.cross.T.copy()), factor).T.numpy()


class _Pooled(NamedTuple):
    """Estimates for normal classes with a shared covariance.

    present: (C,) bool, whether a class has rows. means, log_priors: (C', d) and (C',), for the
    classes with rows. within: S, (d, d), the covariance within classes, or I if it is 0.
    total_variance: tr(S). degrees_of_freedom: N - C', the divisor of S; infinite if S is 0.
    """

    present: np.ndarray
    means: np.ndarray
    log_priors: np.ndarray
    within: np.ndarray
    total_variance: float
    degrees_of_freedom: float


def _pool(sums: Sums) -> _Pooled:
    """Compute the class means and the pooled covariance within classes.

    Without scatter within classes, the covariance is the identity.
    """
    assert sums.seconds is not None
    present, means = compute_class_means(sums)
    counts = sums.counts[present]
    width = means.shape[1]
    rows = counts.sum()
    degrees_of_freedom = rows - len(counts)
    second_moment = UNIT**2 * sums.seconds
    # (N - C) S = sum z z^T - sum_c n_c mu_c mu_c^T, the scatter within classes
    scatter = second_moment - means.T @ (counts[:, None] * means)
    has_spread = float(np.trace(scatter)) > SPREAD * np.trace(second_moment)
    log_priors = np.log(counts / rows)
    if degrees_of_freedom > 0 and has_spread:
        within = scatter / degrees_of_freedom
        total_variance = float(np.trace(within))
        return _Pooled(present, means, log_priors, within, total_variance, degrees_of_freedom)
    return _Pooled(present, means, log_priors, np.eye(width), float(width), np.inf)


class _Normal:
    """Normal classes with the shared covariance Sigma = (1 - alpha) S + alpha tr(S) / d I.

    covariance: Sigma (d, d), or its diagonal (d,) in a basis that diagonalizes it. row_share: the
    weight of one row's e e^T in Sigma.
    """

    def __init__(self, pooled: _Pooled, alpha: float, covariance: np.ndarray) -> None:
        self.pooled = pooled
        self.row_share = (1 - alpha) / pooled.degrees_of_freedom
        self._variances = covariance if covariance.ndim == 1 else None
        if self._variances is None:
            self._factor = torch.linalg.cholesky(torch.from_numpy(covariance))

    def solve(self, rows: np.ndarray) -> np.ndarray:
        """Multiply rows (N, d) by Sigma^-1."""
        if self._variances is not None:
            return rows / self._variances
        return torch.cholesky_solve(torch.from_numpy(rows.T.copy()), self._factor).T.numpy()


def _estimate_normal(sums: Sums, alpha: float) -> _Normal:
    pooled = _pool(sums)
    width = len(pooled.within)
    shrinkage = alpha * pooled.total_variance / width * np.eye(width)
    return _Normal(pooled, alpha, (1 - alpha) * pooled.within + shrinkage)


def compute_class_means(sums: Sums) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each class has rows (C,), and the means (C', d) of the classes with rows."""
    present = sums.counts > 0
    means = UNIT * sums.firsts[present] / sums.counts[present, None]
    return present, np.asarray(means)


def _build_head(sums: Sums, weight: np.ndarray, bias: np.ndarray, temperature: float) -> Head:
    """Build a head for all classes, from the weights and biases of the classes with rows."""
    present = sums.counts > 0
    weights = np.zeros((len(present), weight.shape[1]))
    weights[present] = weight / temperature
    biases = np.full(len(present), NO_ROWS)
    biases[present] = bias / temperature
    head = Head(weights, biases, sums.features)
    head.temperature = temperature
    return head
