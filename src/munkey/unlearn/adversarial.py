"""The adversarial attack of AMUN: untargeted L2 PGD in balls of doubling radius."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class AttackResult(NamedTuple):
    """Adversarial images (B, 3, H, W), the classes (B,) predicted for them, and the balls' radii.

    `radius` (B,) float64 is 0 for images misclassified from the start, inf where the attack failed.
    """

    images: Tensor
    predicted: Tensor
    radius: Tensor


def list_doubling_radii(first: float, cap: float) -> list[float]:
    """Return the radii first, 2 * first, 4 * first, ... that are at most `cap`."""
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
    """Move each image until the model misclassifies it.

    In a ball of each radius in turn, an image moves `steps` times along the L2-normalized gradient
    of the cross-entropy, is projected into the ball around the clean image, and clamped to [0, 1].
    It stops when it is misclassified, and otherwise continues in the next ball. After each step,
    the attack waits for the GPU to report which images are misclassified.

    Parameters
    ----------
    predict_logits
        Returns the logits (B, C) of images with pixels in [0, 1].
    clean, labels
        (B, 3, H, W) with pixels in [0, 1], and (B,).
    radii
        In ascending order.
    stride
        The length of a step divided by the radius.
    """
    images = clean.clone()
    predicted = labels.clone()
    radius = torch.full((len(clean),), torch.inf, dtype=torch.float64, device=clean.device)
    active = torch.arange(len(clean), device=clean.device)  # positions still classified correctly
    # The radius of the ball at each forward pass. The first pass reads the clean images, with a
    # radius of 0; each later pass reads the result of a step.
    pass_radii = [0.0]
    for ball_radius in radii:
        pass_radii += [ball_radius] * steps
    next_radii = [*pass_radii[1:], None]  # no step follows the last pass
    for pass_radius, next_radius in zip(pass_radii, next_radii, strict=True):
        classes, directions = _find_steepest_ascent(predict_logits, images[active], labels[active])
        is_wrong = classes != labels[active]
        predicted[active[is_wrong]] = classes[is_wrong]
        radius[active[is_wrong]] = pass_radius
        active = active[~is_wrong]
        if next_radius is None or not len(active):
            break
        moved_images = images[active] + stride * next_radius * directions[~is_wrong]
        shift = _project(moved_images - clean[active], next_radius)
        images[active] = (clean[active] + shift).clamp(0, 1)
    return AttackResult(images, predicted, radius)


def _find_steepest_ascent(
    predict_logits: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the predicted classes (B,) and unit gradients (B, 3, H, W) of the cross-entropy."""
    images = images.detach().requires_grad_()
    logits = predict_logits(images)
    # With m = log sum_{j != y} exp z_j - z_y, the cross-entropy is log(1 + exp m). Its gradient has
    # the same direction as the gradient of m, but it underflows in float32 where the model is
    # confident. Therefore, use m.
    is_true_class = F.one_hot(labels, logits.shape[1]).bool()
    other_logits = logits.masked_fill(is_true_class, -torch.inf)
    true_logits = logits.gather(1, labels[:, None])[:, 0]
    m = other_logits.logsumexp(dim=1) - true_logits
    (gradient,) = torch.autograd.grad(m.sum(), images)
    directions = F.normalize(gradient.flatten(1), dim=1).view_as(gradient)
    return logits.detach().argmax(dim=1), directions


def _project(shift: Tensor, radius: float) -> Tensor:
    """Project shifts (B, 3, H, W) onto the L2 ball of this radius."""
    norm = shift.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    return shift * (radius / norm.clamp(min=radius))
