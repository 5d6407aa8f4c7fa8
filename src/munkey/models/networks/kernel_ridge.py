"""Kernel ridge regression in its dual form. Deletion is exact: a kernel entry depends on two rows.

Keys are integer multiples of UNIT, so float64 sums their products exactly, in any order and blocks.
The kernel is an elementwise function of these, and equal matrices have equal Cholesky factors (on
one machine). So the remaining rows, by ascending id, give the bytes of a fit without the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from munkey.core.device import to_host
from munkey.memory.sums import UNIT, Sums, round_keys
from munkey.models.family import FittedRows
from munkey.models.networks.calibration import DEFAULT_TEMPERATURE, measure_loss
from munkey.models.networks.closed_form import NO_ROWS

BLOCK = 512  # rows per block of the kernel, which limits the memory for copies
MAX_LEFT_OUT = 512  # maximum number of left-out rows; each costs as much as a prediction


@dataclass(frozen=True)
class Kernel:
    """The kernel a k(key, key') + (1 - a) exp(-|p - p'|^2 / 2 sigma^2).

    k = (sin t + (pi - t) cos t) / pi, for an angle t, is the arc-cosine kernel of order 1 (Cho &
    Saul 2009), which corresponds to an infinitely wide layer of random ReLU features. Keys and
    pixels p are scaled to unit norm.

    Attributes
    ----------
    share
        The weight a of the arc-cosine kernel.
    pixels
        The number of a vector's last entries that are p; all others are the key.
    sigma
        The width of the Gaussian kernel.
    """

    share: float
    pixels: int
    sigma: float

    def compute(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Compute the kernel (N, M) of queries (N, d) and rows (M, d).

        Both are integer multiples of UNIT, in float64.
        """
        split = rows.shape[1] - self.pixels
        if not self.pixels:
            return _compute_arc_cosine(queries, rows)
        pixel_kernel = _compute_gaussian(queries[:, split:], rows[:, split:], self.sigma)
        if not split:
            return pixel_kernel
        key_kernel = _compute_arc_cosine(queries[:, :split], rows[:, :split])
        return self.share * key_kernel + (1 - self.share) * pixel_kernel


def _compute_arc_cosine(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    cosines = _compute_cosines(queries, rows)
    sines = np.sqrt(1 - cosines**2)
    return (sines + (np.pi - np.arccos(cosines)) * cosines) / np.pi


def _compute_gaussian(queries: np.ndarray, rows: np.ndarray, sigma: float) -> np.ndarray:
    """Compute the Gaussian kernel (N, M) of vectors scaled to unit norm."""
    # exp(-|p - p'|^2 / (2 sigma^2)), where |p - p'|^2 = 2 - 2 cos t at unit norm
    return np.exp((_compute_cosines(queries, rows) - 1) / sigma**2)


def _compute_cosines(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Compute the cosine of each query (N, d) with each row (M, d): (N, M).

    The vectors contain integers, so products and squared norms are exact sums, which do not depend
    on the order of summation.
    """
    # einsum avoids a squared copy of all rows for each block of queries.
    squared_query_lengths = np.einsum("ij,ij->i", queries, queries)
    squared_row_lengths = np.einsum("ij,ij->i", rows, rows)
    lengths = np.sqrt(squared_query_lengths)[:, None] * np.sqrt(squared_row_lengths)
    # A zero vector has no angle; it is treated as orthogonal to all others.
    return np.clip(queries @ rows.T / np.where(lengths > 0, lengths, 1), -1, 1)


class KernelHead(nn.Module):
    """A head with logits (K(x, .) A + shares) / temperature for classes with rows, in float64.

    The last three attributes are None if it was read from a file.

    Attributes
    ----------
    rows
        (n, d) float32, the keys by ascending id.
    dual
        (n, C), A / temperature.
    shares
        (C,), the class shares / temperature.
    sums
        The number of rows in each class.
    temperature, constant
        As in `Head`.
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
        """Load weights, with as many rows as the file has."""
        for name in ("rows", "dual"):
            if name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[name]))
        return super().load_state_dict(state_dict, *args, **kwargs)

    def forward(self, keys: Tensor) -> Tensor:
        """Compute logits (B, C) of keys (B, d), both float32."""
        rows = _to_multiples(to_host(self.rows).numpy())
        queries = _to_multiples(round_keys(to_host(keys).numpy()))
        logits = np.empty((len(queries), len(self.shares)))
        dual = to_host(self.dual).numpy()
        for start in range(0, len(queries), BLOCK):
            kernel = self.kernel.compute(queries[start : start + BLOCK], rows)
            logits[start : start + BLOCK] = kernel @ dual
        logits += to_host(self.shares).numpy()
        return torch.from_numpy(logits.astype(np.float32)).to(keys.device)


def fit_kernel_ridge(
    kernel: Kernel,
    rows: FittedRows,
    sums: Sums,
    penalties: Sequence[float],
    temperature: float | None,
) -> KernelHead:
    """Fit kernel ridge regression to one-hot labels, centered by the class shares.

    Solves (K + penalty I) A = onehot(y) - n_c / n for A, where K is the kernel of all rows.

    Parameters
    ----------
    penalties
        Candidates, of which the one with the smallest leave-one-out log loss is used.
    temperature
        Divisor of the logits; by default, the one that minimizes that loss.
    """
    present = sums.counts > 0
    keys = round_keys(rows.keys)
    targets = _make_targets(sums, rows.labels)
    shares = targets.shares
    gram = _compute_gram(kernel, keys)
    solutions = []
    losses = []
    for penalty in penalties:
        factor = _factor_gram(gram, penalty)
        dual = _solve_dual(factor, targets)
        if temperature is None or len(penalties) > 1:
            loss, divisor = _measure_left_out_loss(factor, dual, targets, temperature)
        else:
            loss, divisor = 0.0, temperature
        losses.append(loss)
        solutions.append((penalty, dual, divisor))
    penalty, dual, divisor = solutions[int(np.argmin(losses))]
    all_dual = np.zeros((len(keys), len(present)))
    all_dual[:, present] = dual / divisor
    all_shares = np.full(len(present), NO_ROWS)
    all_shares[present] = shares / divisor
    head = KernelHead(kernel, keys, all_dual, all_shares)
    head.temperature = divisor
    head.constant = penalty
    return head


def predict_leave_one_out(
    kernel: Kernel, keys: np.ndarray, labels: np.ndarray, classes: int, penalty: float
) -> np.ndarray:
    """Predict each row's logits (N, C) with `fit_kernel_ridge` on all other rows, at temperature 1.

    They are computed in closed form (`_predict_left_out`).

    Parameters
    ----------
    keys
        Keys (N, d) of the rows.
    labels
        Class indices (N,) of the rows.
    """
    sums = Sums.empty(classes, keys.shape[1], seconds=False)
    sums.add(keys, labels)
    targets = _make_targets(sums, labels)
    factor = _factor_gram(_compute_gram(kernel, round_keys(keys)), penalty)
    dual = _solve_dual(factor, targets)
    logits = np.full((len(labels), classes), NO_ROWS)
    for start in range(0, len(labels), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(labels)))
        predicted = _predict_left_out(factor, dual, targets, rows)
        logits[start : start + BLOCK, sums.counts > 0] = predicted
    return logits


class _Targets(NamedTuple):
    """The targets of the regression.

    Attributes
    ----------
    classes
        (N,), indices among the classes with rows.
    shares
        (C',), the shares of these classes.
    centered
        (N, C'), onehot(y) - n_c / n.
    """

    classes: np.ndarray
    shares: np.ndarray
    centered: np.ndarray


def _make_targets(sums: Sums, labels: np.ndarray) -> _Targets:
    present = sums.counts > 0
    place = np.cumsum(present) - 1
    classes = place[labels]
    shares = sums.counts[present] / max(len(labels), 1)
    return _Targets(classes, shares, np.eye(len(shares))[classes] - shares)


def _solve_dual(factor: Tensor, targets: _Targets) -> np.ndarray:
    return torch.cholesky_solve(torch.from_numpy(targets.centered), factor).numpy()


def _measure_left_out_loss(
    factor: Tensor, dual: np.ndarray, targets: _Targets, temperature: float | None
) -> tuple[float, float]:
    """Compute the leave-one-out log loss, and return it with its temperature.

    temperature: by default, the one with the smallest loss. At most MAX_LEFT_OUT rows are used,
    every n-th.
    """
    count = len(targets.classes)
    if count < 2 or len(targets.shares) < 2:
        return 0.0, temperature or DEFAULT_TEMPERATURE
    rows = np.arange(0, count, -(-count // MAX_LEFT_OUT))
    predicted = _predict_left_out(factor, dual, targets, rows)
    return measure_loss(predicted, targets.classes[rows], temperature)


def _predict_left_out(
    factor: Tensor, dual: np.ndarray, targets: _Targets, rows: np.ndarray
) -> np.ndarray:
    """Predict shares (R, C') of rows, each with a fit to all other rows.

    In closed form, the prediction for row i is y_i - A_i / (M^-1)_ii, with M = K + penalty I. The
    class shares, which center the targets, are still those of all rows.
    """
    unit = torch.zeros(len(targets.classes), len(rows), dtype=torch.float64)
    unit[torch.from_numpy(rows), torch.arange(len(rows))] = 1
    # (M^-1)_ii = |L^-1 e_i|^2, where M = L L^T
    halves = torch.linalg.solve_triangular(factor, unit, upper=False)
    diagonal = (halves**2).sum(dim=0).numpy()
    one_hot = np.eye(len(targets.shares))[targets.classes[rows]]
    return one_hot - dual[rows] / diagonal[:, None]


def _factor_gram(gram: np.ndarray, added: float) -> Tensor:
    matrix = torch.from_numpy(gram.copy())
    matrix.diagonal().add_(added)
    return torch.linalg.cholesky(matrix)


def _compute_gram(kernel: Kernel, keys: np.ndarray) -> np.ndarray:
    """Compute the lower half of the kernel matrix (n, n) of rounded keys."""
    multiples = _to_multiples(keys)
    gram = np.zeros((len(multiples), len(multiples)))
    for start in range(0, len(multiples), BLOCK):
        end = min(start + BLOCK, len(multiples))
        gram[start:end, :end] = kernel.compute(multiples[start:end], multiples[:end])
    return gram


def _to_multiples(keys: np.ndarray) -> np.ndarray:
    """Convert keys to integer multiples of UNIT, as float64."""
    return keys.astype(np.float64) / UNIT
