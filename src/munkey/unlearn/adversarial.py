"""Adversarial images with the smallest radius (AMUN): untargeted L2 PGD in growing balls."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class AttackResult(NamedTuple):
    """The result of an attack.

    Attributes
    ----------
    images
        (B, 3, H, W).
    predicted
        (B,) classes.
    radius
        (B,) float64, the radius of the ball in which the attack succeeded: 0 for an image that was
        misclassified from the start, and inf if no ball was large enough.
    """

    images: Tensor
    predicted: Tensor
    radius: Tensor


def list_doubling_radii(first: float, cap: float) -> list[float]:
    """Return the radii first, 2 first, 4 first, ... up to and including cap."""
    radii = [first]
    while 2 * radii[-1] <= cap:
        radii.append(2 * radii[-1])
    return radii


def untargeted_l2(
    predict_logits: Callable[[Tensor], Tensor],
    clean: Tensor,
    labels: Tensor,
    radii: Sequence[float],
    steps: int,
    stride: float,
) -> AttackResult:
    """Move each image until it is misclassified.

    In a ball of each radius in turn, each image takes `steps` steps of length stride * radius along
    the L2-normalized gradient of the cross-entropy. After each step, it is projected into the ball
    around the clean image and clamped to [0, 1]. An image leaves the batch as soon as it is
    misclassified, so one that is misclassified from the start stays clean. The others continue in
    the next ball from where they are. For an image with a zero gradient, the attack fails. Each
    step waits for the device, to read which images are misclassified.

    Parameters
    ----------
    predict_logits
        A function from pixels to logits.
    clean
        (B, 3, H, W) in [0, 1].
    labels
        (B,).
    """
    images = clean.clone()
    predicted = labels.clone()
    radius = torch.full((len(clean),), torch.inf, dtype=torch.float64, device=clean.device)
    active = torch.arange(len(clean), device=clean.device)  # positions still classified correctly
    # There is one forward pass at each of these radii: the first on the clean images, in a ball of
    # radius 0, and each of the others on the result of a step.
    balls = [0.0]
    for ball in radii:
        balls += [ball] * steps
    next_balls = [*balls[1:], None]  # no step follows the last pass
    for current_ball, next_ball in zip(balls, next_balls, strict=True):
        classes, directions = _find_steepest_ascent(predict_logits, images[active], labels[active])
        is_wrong = classes != labels[active]
        predicted[active[is_wrong]] = classes[is_wrong]
        radius[active[is_wrong]] = current_ball
        active = active[~is_wrong]
        if next_ball is None or not len(active):
            break
        moved_images = images[active] + stride * next_ball * directions[~is_wrong]
        shift = _project(moved_images - clean[active], next_ball)
        images[active] = (clean[active] + shift).clamp(0, 1)
    return AttackResult(images, predicted, radius)


def _find_steepest_ascent(
    predict_logits: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return predicted classes (B,) and the directions (B, 3, H, W) in which the loss rises most.

    The loss is the cross-entropy. A direction has an L2 norm of 1, or is 0 where the loss is flat.
    """
    images = images.detach().requires_grad_()
    logits = predict_logits(images)
    # With m = log sum_{j != y} exp z_j - z_y, the cross-entropy is log(1 + exp m). Its gradient has
    # the same direction as m's, but vanishes in float32 where the model is confident. So use m.
    is_true_class = F.one_hot(labels, logits.shape[1]).bool()
    other_logits = logits.masked_fill(is_true_class, -torch.inf)
    true_logits = logits.gather(1, labels[:, None])[:, 0]
    margin = other_logits.logsumexp(dim=1) - true_logits
    (gradient,) = torch.autograd.grad(margin.sum(), images)
    directions = F.normalize(gradient.flatten(1), dim=1).view_as(gradient)
    return logits.detach().argmax(dim=1), directions


def _project(shift: Tensor, ball: float) -> Tensor:
    """Shorten shifts (B, ...) to an L2 norm of at most `ball`."""
    norm = shift.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    return shift * (ball / norm.clamp(min=ball))
