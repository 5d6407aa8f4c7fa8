"""Adversarial images of the least radius: untargeted L2 PGD whose ball doubles until the model errs (AMUN)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Attacked(NamedTuple):
    """The result of an attack. images: (B, 3, H, W); predicted: (B,) classes; radius: (B,) float64 that each took.

    A radius is 0 where the model erred from the start, and inf where the last radius was not enough.
    """

    images: Tensor
    predicted: Tensor
    radius: Tensor


def doubling(first: float, cap: float) -> list[float]:
    """Radii first, 2 first, 4 first, ... up to and including cap."""
    radii = [first]
    while 2 * radii[-1] <= cap:
        radii.append(2 * radii[-1])
    return radii


def untargeted_l2(
    answer: Callable[[Tensor], Tensor], clean: Tensor, labels: Tensor, radii: Sequence[float], steps: int, stride: float
) -> Attacked:
    """Move each image until `answer` (pixels -> logits) errs: `steps` steps of stride * radius in each radius' ball.

    clean: (B, 3, H, W) in [0, 1]; labels: (B,). A step goes along the L2-normalized gradient of the cross-entropy, is
    projected to the ball around the clean image and clamped to [0, 1]. An image leaves the batch at its first error,
    the others go on from where they are. No random start; an image that is misclassified already stays clean. A zero
    gradient never succeeds, and ends with the last radius. Reads back, at every step, which images err.
    """
    images, predicted = clean.clone(), labels.clone()
    radius = torch.full((len(clean),), torch.inf, dtype=torch.float64, device=clean.device)
    left = torch.arange(len(clean), device=clean.device)
    balls = [0.0, *(ball for ball in radii for _ in range(steps))]
    for reached, ball in zip(balls, [*balls[1:], None], strict=True):
        answered, uphill = _ascent(answer, images[left], labels[left])
        wrong = answered != labels[left]
        predicted[left[wrong]], radius[left[wrong]] = answered[wrong], reached
        left, uphill = left[~wrong], uphill[~wrong]
        if ball is None or not len(left):
            break
        moved = images[left] + stride * ball * uphill - clean[left]
        images[left] = (clean[left] + _within(moved, ball)).clamp(0, 1)
    return Attacked(images, predicted, radius)


def _ascent(answer: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Predictions (B,), and the direction (B, 3, H, W) of steepest ascent of the cross-entropy.

    The direction has an L2 norm of 1, or is 0 where the loss is flat. It is taken from m = log sum_{j != y} exp z_j -
    z_y: the gradient of cross-entropy = log(1 + exp m) lies along that of m, but vanishes in float32 where the model is
    sure.
    """
    images = images.detach().requires_grad_()
    logits = answer(images)
    true_class = F.one_hot(labels, logits.shape[1]).bool()
    margin = logits.masked_fill(true_class, -torch.inf).logsumexp(dim=1) - logits.gather(1, labels[:, None])[:, 0]
    (gradient,) = torch.autograd.grad(margin.sum(), images)
    return logits.detach().argmax(dim=1), F.normalize(gradient.flatten(1), dim=1).view_as(gradient)


def _within(shift: Tensor, ball: float) -> Tensor:
    """Shifts (B, ...) shortened to an L2 norm of at most `ball`."""
    norm = shift.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    return shift * (ball / norm.clamp(min=ball))
