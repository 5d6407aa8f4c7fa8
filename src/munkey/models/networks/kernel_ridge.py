"""Kernel ridge regression in its dual form. Deletion is exact.

A kernel entry depends on two rows only. Keys are multiples of UNIT, so float64 sums their products
exactly in any order, and equal matrices have equal Cholesky factors on one machine. A fit to the
remaining rows, by ascending id, is therefore bit-for-bit that of a fit without the deleted rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from munkey.core.device import to_host
from munkey.memory.sums import UNIT, Sums, round_keys
from munkey.models.family import FittedRows
from munkey.models.networks.calibration import DEFAULT_TEMPERATURE, MeasuredLoss, measure_loss
from munkey.models.networks.closed_form import EMPTY_CLASS_LOGIT, put_last

BLOCK = 512  # rows of the kernel matrix per block; limits the memory for copies
MAX_LEFT_OUT = 512  # maximum number of rows to leave out; each costs as much as a prediction


@dataclass(frozen=True)
class Kernel:
    """The kernel a k(t) + (1 - a) exp(-|p - p'|^2 / (2 sigma^2)) on keys and pixels.

    t is the angle between two keys, and k(t) = (sin t + (pi - t) cos t) / pi the arc-cosine kernel
    of order 1 (Cho & Saul 2009), that of an infinitely wide layer of random ReLU features. p and p'
    are the pixels, scaled to unit length: the last `pixels` entries of a vector. a is `share`.
    """

    share: float
    pixels: int
    sigma: float

    def compute(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the kernel matrix (N, M) of vectors (N, d) and (M, d), in units of UNIT.

        If the vectors have no pixels, or nothing else, `share` is ignored.
        """
        if not self.pixels:
            return _arc_cosine(queries, rows)
        key_dim = rows.shape[1] - self.pixels
        pixel_kernel = _gaussian(queries[:, key_dim:], rows[:, key_dim:], self.sigma)
        if not key_dim:
            return pixel_kernel
        key_kernel = _arc_cosine(queries[:, :key_dim], rows[:, :key_dim])
        return self.share * key_kernel + (1 - self.share) * pixel_kernel


def _arc_cosine(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the arc-cosine kernel (N, M) of order 1."""
    cosines = _compute_cosines(queries, rows)
    sines = np.sqrt(1 - cosines**2)
    return (sines + (np.pi - np.arccos(cosines)) * cosines) / np.pi


def _gaussian(queries: np.ndarray, rows: np.ndarray, sigma: float) -> np.ndarray:
    """Return the Gaussian kernel (N, M) of vectors scaled to unit length."""
    # exp(-|p - p'|^2 / (2 sigma^2)), where |p - p'|^2 = 2 - 2 cos t for vectors of unit length
    return np.exp((_compute_cosines(queries, rows) - 1) / sigma**2)


def _compute_cosines(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return cosines (N, M) of integer vectors, whose products and lengths are exact."""
    # Unlike (rows**2).sum(axis=1), einsum makes no temporary copy of all rows.
    squared_query_lengths = np.einsum("ij,ij->i", queries, queries)
    squared_row_lengths = np.einsum("ij,ij->i", rows, rows)
    lengths = np.sqrt(squared_query_lengths)[:, None] * np.sqrt(squared_row_lengths)
    # The cosine of a zero vector, which has no direction, is set to 0.
    return np.clip(queries @ rows.T / np.where(lengths > 0, lengths, 1), -1, 1)


class KernelHead(nn.Module):
    """The head of kernel ridge regression, in float64: (K(x, .) A + shares) / temperature.

    Attributes
    ----------
    rows
        (n, d) float32: the keys by ascending id.
    dual, shares
        (n, C) and (C,): A, and the share of each class in the rows, both divided by the
        temperature.
    sums, temperature, constant
        As in `Head`; the constant is the penalty.
    """

    rows: Tensor
    dual: Tensor
    shares: Tensor
    sums: Sums | None = None
    temperature: float | None = None
    constant: float | None = None

    def __init__(
        self, kernel: Kernel, rows: np.ndarray, dual: np.ndarray, shares: np.ndarray
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.register_buffer("rows", torch.from_numpy(rows))
        self.register_buffer("dual", torch.from_numpy(dual))
        self.register_buffer("shares", torch.from_numpy(shares))
        self.eval()

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Load weights with any number of rows, which replace the current rows."""
        for name in ("rows", "dual"):
            if name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[name]))
        return super().load_state_dict(state_dict, *args, **kwargs)

    def forward(self, keys: Tensor) -> Tensor:
        """Return the logits (B, C) of keys (B, d), both float32."""
        rows = _to_multiples(to_host(self.rows).numpy())
        queries = _to_multiples(round_keys(to_host(keys).numpy()))
        logits = np.empty((len(queries), len(self.shares)))
        dual = to_host(self.dual).numpy()
        for start in range(0, len(queries), BLOCK):
            kernel = self.kernel.compute(queries[start : start + BLOCK], rows)
            logits[start : start + BLOCK] = kernel @ dual
        shares = to_host(self.shares)
        all_logits = put_last(torch.from_numpy(logits) + shares, shares == EMPTY_CLASS_LOGIT)
        return all_logits.float().to(keys.device)


def fit_kernel_ridge(
    kernel: Kernel,
    rows: FittedRows,
    sums: Sums,
    penalties: Sequence[float],
    temperature: float | None,
) -> KernelHead:
    """Fit kernel ridge regression to one-hot labels, centered by the class shares.

    Solves (K + penalty I) A = onehot(y) - n_c / n for A, where K is the kernel matrix of all n
    rows, and n_c is the number of rows of class c. The penalty, and the temperature unless it is
    given, minimize the leave-one-out log loss.
    """
    keys = round_keys(rows.keys)
    targets = _make_targets(sums, rows.labels)
    gram = _compute_gram(kernel, keys)
    duals = []
    measured_losses = []
    for penalty in penalties:
        factor = _factor_gram(gram, penalty)
        dual = _solve_dual(factor, targets)
        if temperature is None or len(penalties) > 1:
            measured = _measure_left_out_loss(factor, dual, targets, temperature)
        else:  # there is nothing to choose, so the loss is not needed
            measured = MeasuredLoss(0.0, temperature)
        duals.append(dual)
        measured_losses.append(measured)
    best = int(np.argmin([measured.loss for measured in measured_losses]))
    best_temperature = measured_losses[best].temperature
    present = sums.counts > 0
    all_dual = np.zeros((len(keys), len(present)))
    all_dual[:, present] = duals[best] / best_temperature
    all_shares = np.full(len(present), EMPTY_CLASS_LOGIT)
    all_shares[present] = targets.shares / best_temperature
    head = KernelHead(kernel, keys, all_dual, all_shares)
    head.temperature = best_temperature
    head.constant = penalties[best]
    return head


def predict_leave_one_out(
    kernel: Kernel, keys: np.ndarray, labels: np.ndarray, classes: int, penalty: float
) -> np.ndarray:
    """Return the logits (N, C) of each row from a fit to all other rows, at temperature 1.

    They are computed in closed form (`_predict_left_out`).
    """
    sums = Sums.empty(classes, keys.shape[1], with_outer_products=False)
    sums.add(keys, labels)
    targets = _make_targets(sums, labels)
    factor = _factor_gram(_compute_gram(kernel, round_keys(keys)), penalty)
    dual = _solve_dual(factor, targets)
    logits = np.full((len(labels), classes), EMPTY_CLASS_LOGIT)
    for start in range(0, len(labels), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(labels)))
        shares = _predict_left_out(factor, dual, targets, rows)
        logits[start : start + BLOCK, sums.counts > 0] = shares
    return logits


class _Targets(NamedTuple):
    """Classes (N,), as positions among those with rows, shares (C',), and onehot(y) - n_c / n."""

    classes: np.ndarray
    shares: np.ndarray
    centered: np.ndarray


def _make_targets(sums: Sums, labels: np.ndarray) -> _Targets:
    """Return the targets of rows with these labels."""
    present = sums.counts > 0
    column_of_class = np.cumsum(present) - 1
    classes = column_of_class[labels]
    shares = sums.counts[present] / max(len(labels), 1)
    one_hot = np.eye(len(shares))[classes]
    return _Targets(classes, shares, centered=one_hot - shares)


def _solve_dual(factor: Tensor, targets: _Targets) -> np.ndarray:
    """Return the dual coefficients A (N, C')."""
    return torch.cholesky_solve(torch.from_numpy(targets.centered), factor).numpy()


def _measure_left_out_loss(
    factor: Tensor, dual: np.ndarray, targets: _Targets, temperature: float | None
) -> MeasuredLoss:
    """Return the leave-one-out log loss of at most MAX_LEFT_OUT rows, evenly chosen."""
    count = len(targets.classes)
    if count < 2 or len(targets.shares) < 2:
        return MeasuredLoss(0.0, temperature or DEFAULT_TEMPERATURE)
    rows = np.arange(0, count, step=math.ceil(count / MAX_LEFT_OUT))
    shares = _predict_left_out(factor, dual, targets, rows)
    return measure_loss(shares, targets.classes[rows], temperature)


def _predict_left_out(
    factor: Tensor, dual: np.ndarray, targets: _Targets, rows: np.ndarray
) -> np.ndarray:
    """Return the predicted shares (R, C') of rows: y_i - A_i / (M^-1)_ii, with M = K + penalty I.

    The class shares that center the targets are those of all rows.
    """
    unit_vectors = torch.zeros(len(targets.classes), len(rows), dtype=torch.float64)
    unit_vectors[torch.from_numpy(rows), torch.arange(len(rows))] = 1
    # (M^-1)_ii = |L^-1 e_i|^2, where M = L L^T
    solutions = torch.linalg.solve_triangular(factor, unit_vectors, upper=False)
    inverse_diagonal = (solutions**2).sum(dim=0).numpy()
    one_hot = np.eye(len(targets.shares))[targets.classes[rows]]
    return one_hot - dual[rows] / inverse_diagonal[:, None]


def _factor_gram(gram: np.ndarray, penalty: float) -> Tensor:
    """Return the Cholesky factor of K + penalty I."""
    matrix = torch.from_numpy(gram.copy())
    matrix.diagonal().add_(penalty)
    return torch.linalg.cholesky(matrix)


def _compute_gram(kernel: Kernel, keys: np.ndarray) -> np.ndarray:
    """Return the kernel matrix (n, n) of rounded keys. Only its lower half is valid."""
    multiples = _to_multiples(keys)
    gram = np.zeros((len(multiples), len(multiples)))
    for start in range(0, len(multiples), BLOCK):
        end = min(start + BLOCK, len(multiples))
        gram[start:end, :end] = kernel.compute(multiples[start:end], multiples[:end])
    return gram


def _to_multiples(keys: np.ndarray) -> np.ndarray:
    """Return rounded keys as multiples of UNIT: integers, as float64."""
    return keys.astype(np.float64) / UNIT
