"""Noisy one-vs-rest logistic regression on keys, by Newton's method (after Guo et al. 2020).

The objective is

    L(w) = sum over rows i and classes c of log(1 + exp(-y_ic <w_c, k_i>)) + lam n / 2 |w|^2,

where k_i is the key of row i, n is the number of rows, and y_ic is 1 if row i belongs to class c
and -1 otherwise.
"""

import copy
import hmac
import os
from dataclasses import dataclass
from hashlib import sha256, shake_256

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from munkey.core.device import to_host
from munkey.memory.exemplars import ExemplarMemory
from munkey.models.networks.closed_form import Head

TOLERANCE = 1e-9  # training has converged if the norm of the gradient is at most this
MAX_STEPS = 100  # Newton steps
MAX_HALVINGS = 30  # per Newton step
SECRET = "MUNKEY_NEWTON_SECRET"  # environment variable: hexadecimal digits
SECRET_BYTES = 32  # at least


class NoisyHead(Head):
    """A linear head without biases whose weights are the sum of `weight` and `noise`, both (C, d).

    Only the sum may be published. Training and removal do not use the noise
    (docs/methods/newton.md).
    """

    noise: Tensor

    def __init__(self, weight: np.ndarray, noise: np.ndarray) -> None:
        super().__init__(weight, np.zeros(len(weight)))
        self.register_buffer("noise", torch.from_numpy(noise))

    def forward(self, keys: Tensor) -> Tensor:
        """Return logits (B, C) of keys (B, d), both float32."""
        return (keys.double() @ self.published_weight().T).float()

    def published_weight(self) -> Tensor:
        """Return the noisy weights (C, d), which predictions use and a certificate covers."""
        return self.weight + self.noise

    def with_weight(self, weight: Tensor, noise: Tensor | None = None) -> "NoisyHead":
        """Return a copy with other weights, and with other noise if given."""
        head = copy.deepcopy(self)
        head.weight = weight
        if noise is not None:
            head.noise = noise
        return head


def read_secret() -> bytes | None:
    """Return the secret from which noise is drawn, or None if the user has not set one.

    Raises ValueError if it is not hexadecimal, or too short.
    """
    text = os.environ.get(SECRET)
    if not text:
        return None
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) < SECRET_BYTES:
        raise ValueError(
            f"{SECRET} must have at least {2 * SECRET_BYTES} hexadecimal digits: draw it with"
            f""" `python3 -c "import secrets; print(secrets.token_hex({SECRET_BYTES}))"`"""
        )
    return secret


def draw_secret_noise(secret: bytes, weight: Tensor, sigma: float) -> Tensor:
    """Draw normal noise (C, d) for weights (C, d) that only those who know the secret can repeat.

    Equal weights have equal noise, so that nobody can average it away over publications.
    """
    from scipy.special import ndtri

    numbers = to_host(weight.double()).numpy()
    label = f"newton {numbers.shape} {sigma!r} ".encode()
    key = hmac.new(secret, label + numbers.tobytes(), sha256).digest()
    draws = np.frombuffer(shake_256(key).digest(8 * numbers.size), dtype="<u8")
    # 52 of the 64 bits, so that float64 holds the sum with a half, which keeps out 0 and 1.
    uniform = ((draws >> np.uint64(12)) + 0.5) / 2.0**52
    return torch.from_numpy(sigma * ndtri(uniform).reshape(numbers.shape)).to(weight)


@dataclass(frozen=True)
class Objective:
    """The objective L of a set of rows.

    Attributes
    ----------
    keys
        (n, d) float64.
    labels
        (n,) int64.
    lam
        The L2 penalty per row.
    """

    keys: Tensor
    labels: Tensor
    lam: float

    @classmethod
    def from_memory(cls, memory: ExemplarMemory, lam: float) -> "Objective":
        """Return the objective of a memory's rows, whose tokens are their labels."""
        return cls(memory.keys.double(), memory.tokens[:, 0].long(), lam)

    @property
    def curvature(self) -> float:
        """A lower bound on the eigenvalues of L's Hessian: lam n, those of the L2 term."""
        return self.lam * len(self.keys)

    def gradient(self, weight: Tensor) -> Tensor:
        """Return the gradient (C, d) at weights (C, d)."""
        # dL/dw_c = sum_i (sigmoid(<w_c, k_i>) - [y_ic = 1]) k_i + lam n w_c
        residuals = (self.keys @ weight.T).sigmoid() - one_hot(self.labels, len(weight))
        return residuals.T @ self.keys + self.curvature * weight

    def newton_step(self, weight: Tensor) -> Tensor:
        """Return the weights (C, d) after a Newton step from `weight` (C, d).

        Returns `weight` itself if no step in this direction reduces the norm of the gradient.
        """
        gradient = self.gradient(weight)
        probabilities = (self.keys @ weight.T).sigmoid()  # (n, C)
        ridge = self.curvature * torch.eye(weight.shape[1]).to(weight)
        step = torch.zeros_like(weight)
        for c, p in enumerate(probabilities.T):
            # H_c = sum_i p_ic (1 - p_ic) k_i k_i^T + lam n I
            hessian = self.keys.T @ ((p * (1 - p))[:, None] * self.keys) + ridge
            factor = torch.linalg.cholesky(hessian)
            step[c] = torch.cholesky_solve(gradient[c, :, None], factor)[:, 0]
        # Far from the optimum, a full step may overshoot, so halve it until the gradient shrinks.
        for halvings in range(MAX_HALVINGS):
            candidate = weight - 0.5**halvings * step
            if compute_norm(self.gradient(candidate)) < compute_norm(gradient):
                return candidate
        return weight  # the rest of the gradient is rounding error

    def solve(self, weight: Tensor) -> Tensor:
        """Make Newton steps from `weight` until the gradient's norm is at most TOLERANCE.

        Raises ValueError if this takes more than MAX_STEPS steps.
        """
        for _ in range(MAX_STEPS):
            if compute_norm(self.gradient(weight)) <= TOLERANCE:
                return weight
            weight = self.newton_step(weight)
        raise ValueError(
            f"the norm of the gradient is still {compute_norm(self.gradient(weight)):.1g} after"
            f" {MAX_STEPS} Newton steps: increase newton.lam ({self.lam:g})"
        )


def compute_norm(gradient: Tensor) -> float:
    """Return the norm of a gradient over all classes."""
    return float(to_host(gradient.norm()))
