"""One-vs-rest logistic regression of the keys, by Newton's method, whose answers carry noise on the weights.

L(w) = sum over rows i and heads c of log(1 + exp(-y_ic <w_c, k_i>)) + lam n / 2 |w|^2; y_ic is 1 or -1.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from munkey.core.device import to_host
from munkey.memory.exemplars import ExemplarMemory
from munkey.models.networks.closed_form import Head

TOLERANCE = 1e-9  # norm of the gradient at which a training has converged
LIMIT = 100  # steps of a training


class NoisyHead(Head):
    """A linear head without biases that answers by weight + noise. Both (C, d); only their sum may be published.

    The weights are computed without the noise: neither training nor removal reads it (docs/methods/newton.md).
    """

    noise: Tensor

    def __init__(self, weight: np.ndarray, noise: np.ndarray) -> None:
        super().__init__(weight, np.zeros(len(weight)))
        self.register_buffer("noise", torch.from_numpy(noise))

    def forward(self, keys: Tensor) -> Tensor:
        """Keys (B, d) to logits (B, C), both float32."""
        return (keys.double() @ self.published().T).float()

    def published(self) -> Tensor:
        """The weights (C, d) that answer, and that a certificate is about."""
        return self.weight + self.noise

    def at(self, weight: Tensor, noise: Tensor | None = None) -> "NoisyHead":
        """A copy with other weights, and with other noise where it is given."""
        moved = copy.deepcopy(self)
        moved.weight = weight
        if noise is not None:
            moved.noise = noise
        return moved


@dataclass(frozen=True)
class Objective:
    """L of rows: keys (n, d) float64, labels (n,) int64. lam: strength of L2 per row."""

    keys: Tensor
    labels: Tensor
    lam: float

    @classmethod
    def of(cls, memory: ExemplarMemory, lam: float) -> "Objective":
        """Of a memory's rows, whose labels are its tokens."""
        return cls(memory.keys.double(), memory.tokens[:, 0].long(), lam)

    @property
    def curvature(self) -> float:
        """The least eigenvalue that the Hessian of L can have anywhere: lam n, that of the L2 term alone."""
        return self.lam * len(self.keys)

    def gradient(self, weight: Tensor) -> Tensor:
        """(C, d) at weights (C, d)."""
        off = (self.keys @ weight.T).sigmoid() - one_hot(self.labels, len(weight))
        return off.T @ self.keys + self.curvature * weight

    def stepped(self, weight: Tensor) -> Tensor:
        """Weights after a Newton step, halved until the gradient shrinks: then it converges from anywhere."""
        gradient, share = self.gradient(weight), (self.keys @ weight.T).sigmoid()
        ridge = self.curvature * torch.eye(weight.shape[1]).to(weight)
        step = torch.zeros_like(weight)
        for head, p in enumerate(share.T):
            factor = torch.linalg.cholesky(self.keys.T @ ((p * (1 - p))[:, None] * self.keys) + ridge)
            step[head] = torch.cholesky_solve(gradient[head, :, None], factor)[:, 0]
        scales = [0.5**halvings for halvings in range(30)]
        shorter = (weight - scale * step for scale in scales)
        return next((each for each in shorter if norm(self.gradient(each)) < norm(gradient)), weight)

    def solved(self, weight: Tensor) -> Tensor:
        """Weights whose gradient is at most TOLERANCE, from these on. Raises ValueError where none are found."""
        for _ in range(LIMIT):
            if norm(self.gradient(weight)) <= TOLERANCE:
                return weight
            weight = self.stepped(weight)
        left = norm(self.gradient(weight))
        raise ValueError(
            f"the gradient is still {left:.1g} after {LIMIT} Newton steps: raise newton.lam ({self.lam:g})"
        )


def norm(gradient: Tensor) -> float:
    """Of all heads together."""
    return float(to_host(gradient.norm()))
