"""One-vs-rest logistic regression of the keys, whose objective is perturbed (Guo et al. 2020, sec. 3): Newton's method.

L(w) = sum over rows i and heads c of log(1 + exp(-y_ic <w_c, k_i>)) + lam n / 2 |w|^2 + <b, w>; y_ic is 1 or -1.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from munkey.core.device import to_host
from munkey.memory.exemplars import ExemplarMemory
from munkey.models.networks.closed_form import Head

TOLERANCE = 1e-9  # norm of the gradient at which a training has converged
LIMIT = 100  # steps of a training


class PerturbedHead(Head):
    """A linear head without biases. noise: (C, d), the b of its objective, which must stay secret."""

    noise: Tensor

    def __init__(self, weight: np.ndarray, noise: np.ndarray) -> None:
        super().__init__(weight, np.zeros(len(weight)))
        self.register_buffer("noise", torch.from_numpy(noise))

    def at(self, weight: Tensor) -> "PerturbedHead":
        """The same with other weights (C, d)."""
        moved = copy.deepcopy(self)
        moved.weight = weight
        return moved


@dataclass(frozen=True)
class Objective:
    """L of rows: keys (n, d) float64, labels (n,) int64, noise (C, d). lam: strength of L2 per row."""

    keys: Tensor
    labels: Tensor
    noise: Tensor
    lam: float

    @classmethod
    def of(cls, memory: ExemplarMemory, noise: Tensor, lam: float) -> "Objective":
        """Of a memory's rows, whose labels are its tokens."""
        return cls(memory.keys.double(), memory.tokens[:, 0].long(), noise, lam)

    def gradient(self, weight: Tensor) -> Tensor:
        """(C, d) at weights (C, d)."""
        off = (self.keys @ weight.T).sigmoid()
        off[torch.arange(len(off), device=off.device), self.labels] -= 1
        return off.T @ self.keys + self.lam * len(self.keys) * weight + self.noise

    def stepped(self, weight: Tensor) -> Tensor:
        """Weights after a Newton step, halved until the gradient shrinks: then it converges from anywhere."""
        gradient, share = self.gradient(weight), (self.keys @ weight.T).sigmoid()
        ridge = self.lam * len(self.keys) * torch.eye(weight.shape[1]).to(weight)
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
