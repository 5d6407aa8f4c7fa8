"""Closed-form linear heads.

They are functions of exact sums over rows, so a deleted row leaves no trace. Centering, scaling,
and shrinkage are computed from the same sums.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from munkey.core.device import to_host
from munkey.memory.sums import BLOCK, UNIT, RandomFeatures, Sums

# The logit of a class without rows. It is finite because losses and audits need finite logits.
EMPTY_CLASS_LOGIT = -1e4
# The smallest meaningful ratio of scatter to the squared length of the rows. Any smaller ratio is
# rounding error, and the scatter is treated as 0.
MIN_SPREAD = 1e-10
# Prior probabilities of all classes, up to a factor; the same for each; or None for their shares of
# the rows.
Priors: TypeAlias = Sequence[float] | Literal["balanced"] | None


class Head(nn.Module):
    """A linear head in float64.

    Attributes
    ----------
    weight, bias
        (C, d) and (C,).
    features
        The features of keys that it reads. None if it reads the keys themselves.
    sums, temperature, constant, priors
        What it was computed from: sums, the divisor of the logits, the shrinkage or penalty, the
        prior probabilities (C',) of LDA's classes with rows. None if it was read from a file.
    """

    weight: Tensor
    bias: Tensor
    sums: Sums | None = None
    temperature: float | None = None
    constant: float | None = None
    priors: np.ndarray | None = None

    def __init__(
        self, weight: np.ndarray, bias: np.ndarray, features: RandomFeatures | None = None
    ) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("weight", torch.from_numpy(weight))
        self.register_buffer("bias", torch.from_numpy(bias))
        self.eval()

    def forward(self, keys: Tensor) -> Tensor:
        """Return the logits (B, C) of keys (B, d), both float32."""
        if self.features is not None:
            vectors = self.features.transform(to_host(keys).numpy())
            keys = torch.from_numpy(vectors).to(self.weight.device)
        logits = keys.double() @ self.weight.T + self.bias
        return put_last(logits, self.bias == EMPTY_CLASS_LOGIT).float()


def put_last(logits: Tensor, is_empty: Tensor) -> Tensor:
    """Return logits (B, C) in which classes without rows, (C,) bool, have the lowest ones.

    EMPTY_CLASS_LOGIT is low enough unless a small shrinkage or temperature makes logits large.
    """
    if not len(is_empty):
        return logits
    # Without a branch on the values of `is_empty`, which would read them back from a GPU. If all are
    # empty, `below` is infinite and nothing changes.
    below = logits.masked_fill(is_empty, torch.inf).amin(dim=1, keepdim=True) - 1
    return torch.where(is_empty, torch.minimum(logits, below), logits)


def fit_discriminant(sums: Sums, alpha: float, temperature: float, priors: Priors = None) -> Head:
    """Fit linear discriminant analysis with a shrunk covariance (Friedman 1989).

    Classes are normal with means mu_c and the covariance Sigma = (1 - alpha) S + alpha tr(S) / d I,
    where S is the pooled covariance within classes. w_c = Sigma^-1 mu_c and b_c = log(p_c) -
    mu_c^T Sigma^-1 mu_c / 2, both divided by the temperature, where p_c is the prior of the class,
    by default n_c / n. If S is 0, Sigma is I.
    """
    normal = _estimate_normal(sums, alpha, priors)
    means = normal.pooled.means
    weight = normal.solve(means)
    bias = np.log(normal.pooled.priors) - 0.5 * (means * weight).sum(axis=1)
    head = _build_head(sums, weight, bias, temperature)
    head.priors = normal.pooled.priors
    return head


def compute_priors(counts: np.ndarray, priors: Priors) -> np.ndarray:
    """Return the prior probabilities (C',) of the classes with rows, which sum to 1.

    counts: (C,), the number of rows of each class. Raises ValueError if there is not one prior for
    each class.
    """
    present = counts > 0
    if priors is None:
        return counts[present] / counts.sum()
    if priors == "balanced":
        factors = np.ones(len(counts))
    else:
        factors = np.array(priors)
    if len(factors) != len(counts):
        raise ValueError(
            f"priors has {len(factors)} numbers for {len(counts)} classes: pass one for each class,"
            " in ascending order of the classes"
        )
    return factors[present] / factors[present].sum()


def predict_leave_one_out(
    keys: np.ndarray, labels: np.ndarray, classes: int, alpha: float
) -> np.ndarray:
    """Return the logits (N, C) at temperature 1 of each row from a fit to all other rows.

    They are those of `fit_discriminant` in closed form. The class priors, tr(S), and the
    covariance's divisor N - C' are those of all rows; C' classes have rows. Raises ValueError if a
    class has a single row.
    """
    sums = Sums.empty(classes, keys.shape[1], with_outer_products=True)
    sums.add(keys, labels)
    if (sums.counts == 1).any():
        single_row_classes = np.flatnonzero(sums.counts == 1).tolist()
        raise ValueError(
            "leaving a row out requires at least two rows in each class, but the classes with these"
            f" numbers have one: {single_row_classes}. Add another row to each"
        )
    return predict_left_out(sums, keys, labels, alpha)


def predict_left_out(
    sums: Sums, keys: np.ndarray, labels: np.ndarray, alpha: float, priors: Priors = None
) -> np.ndarray:
    """Return logits as `predict_leave_one_out` does, of some of the rows in the sums.

    Their classes must have at least two rows.
    """
    normal = _estimate_normal(sums, alpha, priors)
    return _predict_left_out(normal, sums, sums.compute_vectors(keys), labels)


def predict_left_out_by_alpha(
    sums: Sums,
    keys: np.ndarray,
    labels: np.ndarray,
    alphas: Sequence[float],
    priors: Priors = None,
) -> Iterator[np.ndarray]:
    """Yield the logits of `predict_left_out` for each alpha, using a single eigendecomposition.

    Sigma has the same eigenvectors for all alphas; in their basis, its inverse is a division.
    """
    pooled = _pool(sums, priors)
    vectors = sums.compute_vectors(keys)
    width = vectors.shape[1]
    if sums.counts.sum() == len(vectors) < width:
        # There are fewer rows than dimensions. Expressing all vectors in an orthonormal basis of
        # the rows keeps their inner products and reduces the matrices to (N, N).
        q, r = torch.linalg.qr(torch.from_numpy(vectors.T.copy()))
        basis = q.numpy()
        vectors = r.numpy().T
        within = basis.T @ pooled.within @ basis
        pooled = pooled._replace(means=pooled.means @ basis, within=within)
    eigenvalues, eigenvectors = torch.linalg.eigh(torch.from_numpy(pooled.within))
    variances = eigenvalues.numpy()
    axes = eigenvectors.numpy()
    pooled = pooled._replace(means=pooled.means @ axes)
    vectors = vectors @ axes
    for alpha in alphas:
        covariance = (1 - alpha) * variances + alpha * pooled.total_variance / width
        normal = _Normal(pooled, alpha, covariance)
        yield _predict_left_out(normal, sums, vectors, labels)


def _predict_left_out(
    normal: "_Normal", sums: Sums, vectors: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Return leave-one-out logits (N, C) of vectors in the basis of `normal`."""
    means = normal.pooled.means
    weight = normal.solve(means)
    squared_lengths = (means * weight).sum(axis=1)  # mu_c^T Sigma^-1 mu_c
    counts = sums.counts[normal.pooled.present]
    log_priors = np.log(normal.pooled.priors)
    column_of_class = np.cumsum(normal.pooled.present) - 1  # among the classes with rows
    logits = np.full((len(labels), len(sums.counts)), EMPTY_CLASS_LOGIT)
    for start in range(0, len(labels), BLOCK):
        # Let z be a row of class y, which has n rows, and e = z - mu_y. Without this row,
        #   mu_y' = mu_y - e / (n - 1)   and   Sigma' = Sigma - s e e^T,
        #   where s = (1 - alpha) / (N - C') * n / (n - 1).
        # With a = Sigma^-1 e and q = e^T a, the Sherman-Morrison formula gives
        #   Sigma'^-1 = Sigma^-1 + u a a^T,   where u = s / (1 - s q).
        z = vectors[start : start + BLOCK]
        y = column_of_class[labels[start : start + BLOCK]]
        n = counts[y]
        e = z - means[y]
        a = normal.solve(e)
        q = (e * a).sum(axis=1)
        s = normal.row_share * n / (n - 1)
        u = (s / (1 - s * q))[:, None]
        # Compute the products with mu_c for all classes c, then correct those with the row's own
        # class, whose mean is mu_y' without the row.
        z_a = (z * a).sum(axis=1)  # z^T a
        a_mu = a @ means.T  # a^T mu_c
        z_mu = z @ weight.T  # z^T Sigma^-1 mu_c
        mu_mu = np.tile(squared_lengths, (len(z), 1))  # mu_c^T Sigma^-1 mu_c
        own_class = (np.arange(len(z)), y)
        mu_mu[own_class] += q / (n - 1) ** 2 - 2 * a_mu[own_class] / (n - 1)
        z_mu[own_class] -= z_a / (n - 1)
        a_mu[own_class] -= q / (n - 1)
        # z^T Sigma'^-1 mu_c' - mu_c'^T Sigma'^-1 mu_c' / 2 + log(p_c)
        scores = z_mu + u * z_a[:, None] * a_mu - 0.5 * (mu_mu + u * a_mu**2)
        logits[start : start + BLOCK, normal.pooled.present] = scores + log_priors
    return logits


def find_best_temperature(
    logits: np.ndarray,
    labels: np.ndarray,
    bounds: tuple[float, float] = (0.1, 1000),
    weights: np.ndarray | None = None,
) -> float:
    """Return the temperature within bounds that minimizes the cross-entropy of logits (N, C).

    weights: (N,), those of the rows; by default, all are equal.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    rows = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        log_probabilities = log_softmax(logits / np.exp(log_temperature), axis=1)
        return -float(np.average(log_probabilities[rows, labels], weights=weights))

    minimum = minimize_scalar(loss, bounds=np.log(bounds), method="bounded")
    return float(np.exp(minimum.x))


def fit_nearest_mean(sums: Sums, temperature: float) -> Head:
    """Fit a head with the logits -|z - mu_c|^2 / (2 temperature), up to a constant."""
    _, means = compute_class_means(sums)
    return _build_head(sums, means, -0.5 * (means**2).sum(axis=1), temperature)


def fit_ridge(sums: Sums, penalty: float, temperature: float) -> Head:
    """Fit ridge regression on one-hot classes, with an intercept that is not penalized.

    With z and y centered, S = sum z z^T, and Q = sum z y^T: W = (S + penalty tr(S) / w I)^-1 Q. The
    logits are the predicted class shares divided by the temperature; if S is 0, the classes' shares
    in the rows.
    """
    centered = _center(sums)
    weight = _solve_ridge(centered, penalty)
    bias = centered.shares - weight @ centered.mean
    return _build_head(sums, weight, bias, temperature)


def predict_left_out_ridge(
    sums: Sums, keys: np.ndarray, labels: np.ndarray, penalty: float
) -> np.ndarray:
    """Return the predicted shares (N, C) of some rows, each from `fit_ridge` on all other rows.

    They are computed in closed form, with tr(S) over all rows. A class whose only row is left out
    still gets a share.
    """
    centered = _center(sums)
    weight = _solve_ridge(centered, penalty)
    row_count = sums.counts.sum()
    factor = _factor_ridge(centered, penalty)
    shares = np.full((len(labels), len(sums.counts)), EMPTY_CLASS_LOGIT)
    column_of_class = np.cumsum(centered.present) - 1
    for start in range(0, len(labels), BLOCK):
        z = sums.compute_vectors(keys[start : start + BLOCK]) - centered.mean
        y = column_of_class[labels[start : start + BLOCK]]
        own_class = (np.arange(len(z)), y)
        # A row's leverage is h = 1 / n + z^T (S + penalty)^-1 z. If a fit to all rows predicts f
        # for its target y, a fit without the row predicts (f - h y) / (1 - h) (PRESS; Allen 1974).
        solutions = torch.cholesky_solve(torch.from_numpy(z.T.copy()), factor).T.numpy()
        leverage = 1 / row_count + (z * solutions).sum(axis=1)
        predictions = z @ weight.T + centered.shares
        predictions[own_class] -= leverage
        shares[start : start + BLOCK, centered.present] = predictions / (1 - leverage)[:, None]
    return shares


def find_best_penalty(sums: Sums, penalties: Sequence[float]) -> float:
    """Return the penalty of `fit_ridge` with the smallest generalized cross-validation error.

    The error is n |Y - Z W|^2 / (n - tr H)^2, where H maps targets to predictions (Golub 1979),
    from the eigenvectors of S. Ties go to the first penalty; if all rows are equal, the last is
    returned.
    """
    centered = _center(sums)
    row_count = float(sums.counts.sum())
    if not centered.scatter.any():
        return penalties[-1]
    eigenvalues, eigenvectors = torch.linalg.eigh(torch.from_numpy(centered.scatter))
    spectrum = np.maximum(eigenvalues.numpy(), 0)
    # |Q^T v|^2 for each eigenvector v of S
    energy = ((centered.cross @ eigenvectors.numpy()) ** 2).sum(axis=0)
    squared_targets = row_count - float((centered.shares**2).sum()) * row_count  # |Y|^2
    errors = []
    for penalty in penalties:
        penalized_spectrum = spectrum + penalty * centered.scale
        # |Y - Z W|^2 = |Y|^2 - 2 tr(W^T Q) + tr(W^T S W)
        explained = energy * (2 / penalized_spectrum - spectrum / penalized_spectrum**2)
        residual = squared_targets - float(explained.sum())
        degrees_of_freedom = row_count - 1 - float((spectrum / penalized_spectrum).sum())
        errors.append(row_count * residual / degrees_of_freedom**2)
    return penalties[int(np.argmin(errors))]


class _Centered(NamedTuple):
    """Sums centered by the mean of all rows, with S and Q as in `fit_ridge`; C' classes have rows.

    present (C,) bool, shares (C',), mean (w,), scatter S (w, w), cross Q^T (C', w), scale tr(S) / w
    or 1.
    """

    present: np.ndarray
    shares: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    cross: np.ndarray
    scale: float


def _center(sums: Sums) -> _Centered:
    """Center sums by the mean of all rows."""
    assert sums.outer_products is not None, "these sums have no outer products"
    present = sums.counts > 0
    counts = sums.counts[present]
    row_count = counts.sum()
    class_sums = UNIT * sums.class_sums[present]
    mean = class_sums.sum(axis=0) / max(row_count, 1)
    outer_products = UNIT**2 * sums.outer_products
    scatter = outer_products - row_count * np.outer(mean, mean)  # S = sum z z^T - n m m^T
    scale = float(np.trace(scatter)) / len(mean)
    if not scale * len(mean) > MIN_SPREAD * np.trace(outer_products):
        scatter = np.zeros_like(scatter)
        scale = 1.0
    return _Centered(
        present=present,
        shares=counts / max(row_count, 1),
        mean=mean,
        scatter=scatter,
        cross=class_sums - counts[:, None] * mean,
        scale=scale,
    )


def _factor_ridge(centered: _Centered, penalty: float) -> Tensor:
    """Return the Cholesky factor of S + penalty tr(S) / w I."""
    matrix = centered.scatter + penalty * centered.scale * np.eye(len(centered.mean))
    return torch.linalg.cholesky(torch.from_numpy(matrix))


def _solve_ridge(centered: _Centered, penalty: float) -> np.ndarray:
    """Return the weights W^T (C', w) of the classes that have rows."""
    factor = _factor_ridge(centered, penalty)
    return torch.cholesky_solve(torch.from_numpy(centered.cross.T.copy()), factor).T.numpy()


class _Pooled(NamedTuple):
    """Estimates for normally distributed classes, of which C' have rows.

    present (C,) bool, means (C', d), priors (C',), within S (d, d), or I if S is 0; then
    total_variance is d instead of tr(S), and degrees_of_freedom is infinity instead of N - C'.
    """

    present: np.ndarray
    means: np.ndarray
    priors: np.ndarray
    within: np.ndarray
    total_variance: float
    degrees_of_freedom: float


def _pool(sums: Sums, priors: Priors) -> _Pooled:
    """Estimate class means, the pooled covariance and, unless they are given, priors from sums."""
    assert sums.outer_products is not None, "these sums have no outer products"
    present, means = compute_class_means(sums)
    counts = sums.counts[present]
    width = means.shape[1]
    degrees_of_freedom = counts.sum() - len(counts)
    outer_products = UNIT**2 * sums.outer_products
    # (N - C') S = sum z z^T - sum_c n_c mu_c mu_c^T, the scatter within classes
    scatter = outer_products - means.T @ (counts[:, None] * means)
    has_spread = float(np.trace(scatter)) > MIN_SPREAD * np.trace(outer_products)
    if degrees_of_freedom > 0 and has_spread:
        within = scatter / degrees_of_freedom
        total_variance = float(np.trace(within))
    else:
        within = np.eye(width)
        total_variance = float(width)
        degrees_of_freedom = np.inf
    return _Pooled(
        present=present,
        means=means,
        priors=compute_priors(sums.counts, priors),
        within=within,
        total_variance=total_variance,
        degrees_of_freedom=degrees_of_freedom,
    )


class _Normal:
    """Normal classes with the covariance Sigma = (1 - alpha) S + alpha tr(S) / d I.

    Sigma is (d, d), or its diagonal (d,) in a basis in which it is diagonal. `row_share` is the
    weight in Sigma of a single row's e e^T.
    """

    def __init__(self, pooled: _Pooled, alpha: float, covariance: np.ndarray) -> None:
        self.pooled = pooled
        self.row_share = (1 - alpha) / pooled.degrees_of_freedom
        self._variances: np.ndarray | None = None
        if covariance.ndim == 1:
            self._variances = covariance
        else:
            self._factor = torch.linalg.cholesky(torch.from_numpy(covariance))

    def solve(self, rows: np.ndarray) -> np.ndarray:
        """Return rows (N, d) times Sigma^-1."""
        if self._variances is not None:
            return rows / self._variances
        return torch.cholesky_solve(torch.from_numpy(rows.T.copy()), self._factor).T.numpy()


def _estimate_normal(sums: Sums, alpha: float, priors: Priors = None) -> _Normal:
    """Estimate normally distributed classes with a shrunk covariance from sums."""
    pooled = _pool(sums, priors)
    width = len(pooled.within)
    shrinkage = alpha * pooled.total_variance / width * np.eye(width)
    return _Normal(pooled, alpha, (1 - alpha) * pooled.within + shrinkage)


def compute_class_means(sums: Sums) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each class has rows (C,), and the means (C', d) of those that do."""
    present = sums.counts > 0
    means = UNIT * sums.class_sums[present] / sums.counts[present, None]
    return present, np.asarray(means)


def _build_head(sums: Sums, weight: np.ndarray, bias: np.ndarray, temperature: float) -> Head:
    """Return a head for all classes, from the weights and biases of the classes that have rows."""
    present = sums.counts > 0
    all_weights = np.zeros((len(present), weight.shape[1]))
    all_weights[present] = weight / temperature
    all_biases = np.full(len(present), EMPTY_CLASS_LOGIT)
    all_biases[present] = bias / temperature
    head = Head(all_weights, all_biases, sums.features)
    head.temperature = temperature
    return head
