"""Kernel ridge regression in the dual: exact in its rows, since each entry of the kernel is of two rows alone.

Keys are whole multiples of UNIT, so float64 sums their products exactly, in any order and blocks.
The kernel is an elementwise function of these, and equal matrices have equal Cholesky factors (on
one machine): rows that remain, by ascending id, give the bytes of a fit without the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from munkey.core.device import to_host
from munkey.memory.sums import UNIT, Sums, round_keys
from munkey.models.family import FittedRows
from munkey.models.networks.calibration import NOT_KNOWN, measure_loss
from munkey.models.networks.closed_form import NO_ROWS

BLOCK = 512  # rows of the kernel at once: bounds the memory of the copies
LEFT_OUT = 512  # rows that are left out, at most: each costs as much as an answer by all rows


@dataclass(frozen=True)
class Kernel:
    """a k(key, key') + (1 - a) exp(-|p - p'|^2 / 2 sigma^2), k the arc-cosine kernel of order 1 (Cho & Saul 2009).

    k = (sin t + (pi - t) cos t) / pi at an angle of t: that of an infinitely wide layer of random
    ReLU features. Keys and pixels p count at unit length.

    share: a; pixels: how many of a vector's last entries are p, all others being the key; sigma: of
    the pixels.
    """

    share: float
    pixels: int
    sigma: float

    def compute(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The kernel (N, M) of whole multiples of UNIT, float64: queries (N, d) and rows (M, d)."""
        split = rows.shape[1] - self.pixels
        if not self.pixels:
            return _arc_cosine(queries, rows)
        pixel_kernel = _gaussian(queries[:, split:], rows[:, split:], self.sigma)
        if not split:
            return pixel_kernel
        key_kernel = _arc_cosine(queries[:, :split], rows[:, :split])
        return self.share * key_kernel + (1 - self.share) * pixel_kernel


def _arc_cosine(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    cosines = _compute_cosines(queries, rows)
    sines = np.sqrt(1 - cosines**2)
    return (sines + (np.pi - np.arccos(cosines)) * cosines) / np.pi


def _gaussian(queries: np.ndarray, rows: np.ndarray, sigma: float) -> np.ndarray:
    """|p - p'|^2 = 2 - 2 cos t at unit length."""
    return np.exp((_compute_cosines(queries, rows) - 1) / sigma**2)


def _compute_cosines(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(N, M). Products and squared lengths are sums of whole numbers, so nothing depends on an order."""
    squared_query_lengths = (queries**2).sum(axis=1)
    squared_row_lengths = (rows**2).sum(axis=1)
    lengths = np.sqrt(squared_query_lengths)[:, None] * np.sqrt(squared_row_lengths)
    # a vector of zeros has no angle: as if it were at a right angle to all
    return np.clip(queries @ rows.T / np.where(lengths > 0, lengths, 1), -1, 1)


class KernelHead(nn.Module):
    """Logits (K(x, .) A + shares) / temperature of classes with rows. In float64.

    rows: (n, d) float32, the keys by ascending id; dual: (n, C), A / temperature; shares: (C,), of
    the classes / temperature. sums: counts of the rows; temperature, constant: as those of `Head`.
    The last three are None if it was read from a file.
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
        """Take as many rows as there are in the file."""
        for name in ("rows", "dual"):
            if name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[name]))
        return super().load_state_dict(state_dict, *args, **kwargs)

    def forward(self, keys: Tensor) -> Tensor:
        """Keys (B, d) to logits (B, C), both float32."""
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
    """(K + penalty I) A = onehot(y) - n_c / n, targets centered by the shares of the classes.

    penalties: to choose from, by the log loss of rows that are left out; temperature: None: the one
    at which that loss is least.
    """
    present = sums.counts > 0
    count = len(rows.ids)
    place = np.cumsum(present) - 1
    classes = place[rows.labels]
    shares = sums.counts[present] / max(count, 1)
    targets = np.eye(len(shares))[classes] - shares
    gram = _compute_gram(kernel, rows)
    solutions = []
    losses = []
    for penalty in penalties:
        factor = _factor_gram(gram, penalty)
        dual = torch.cholesky_solve(torch.from_numpy(targets), factor).numpy()
        if temperature is None or len(penalties) > 1:
            loss, divisor = _measure_left_out_loss(factor, dual, classes, shares, temperature)
        else:
            loss, divisor = 0.0, temperature
        losses.append(loss)
        solutions.append((penalty, dual, divisor))
    penalty, dual, divisor = solutions[int(np.argmin(losses))]
    all_dual = np.zeros((count, len(present)))
    all_dual[:, present] = dual / divisor
    all_shares = np.full(len(present), NO_ROWS)
    all_shares[present] = shares / divisor
    # a copy, since a file does not hold two tensors that share memory
    head = KernelHead(kernel, rows.keys.copy(), all_dual, all_shares)
    head.temperature = divisor
    head.constant = penalty
    return head


def _measure_left_out_loss(
    factor: Tensor,
    dual: np.ndarray,
    classes: np.ndarray,
    shares: np.ndarray,
    temperature: float | None,
) -> tuple[float, float]:
    """The log loss of rows that are left out, and the temperature: a given one, or that of the least loss.

    In closed form: without row i, its prediction is y_i - A_i / (M^-1)_ii, with M = K + penalty I
    (Rifkin & Lippert 2007). Shares of the classes are those of all rows. At most LEFT_OUT rows are
    answered, every n-th.
    """
    if len(classes) < 2 or len(shares) < 2:
        return 0.0, temperature or NOT_KNOWN
    rows = np.arange(0, len(classes), -(-len(classes) // LEFT_OUT))
    unit = torch.zeros(len(classes), len(rows), dtype=torch.float64)
    unit[torch.from_numpy(rows), torch.arange(len(rows))] = 1
    # (M^-1)_ii = |L^-1 e_i|^2, where M = L L^T
    halves = torch.linalg.solve_triangular(factor, unit, upper=False)
    diagonal = (halves**2).sum(dim=0).numpy()
    predicted = np.eye(len(shares))[classes[rows]] - dual[rows] / diagonal[:, None]
    return measure_loss(predicted, classes[rows], temperature)


def _factor_gram(gram: np.ndarray, added: float) -> Tensor:
    matrix = torch.from_numpy(gram.copy())
    matrix.diagonal().add_(added)
    return torch.linalg.cholesky(matrix)


def _compute_gram(kernel: Kernel, rows: FittedRows) -> np.ndarray:
    """The kernel (n, n) of the rows, its lower half."""
    multiples = _to_multiples(rows.keys)
    gram = np.zeros((len(multiples), len(multiples)))
    for start in range(0, len(multiples), BLOCK):
        end = min(start + BLOCK, len(multiples))
        gram[start:end, :end] = kernel.compute(multiples[start:end], multiples[:end])
    return gram


def _to_multiples(keys: np.ndarray) -> np.ndarray:
    """Keys as whole multiples of UNIT, float64."""
    return keys.astype(np.float64) / UNIT
