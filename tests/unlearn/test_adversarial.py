"""The attack of AMUN: what its images are, how far they lie, when it ends."""

import pytest
import torch

from munkey.unlearn.adversarial import list_doubling_radii, untargeted_l2
from tests.unlearn.world import answer, forget, settings

STEPS = 50
STRIDE = 0.1


def distance(images: torch.Tensor, clean: torch.Tensor) -> torch.Tensor:
    return (images - clean).double().flatten(1).norm(dim=1)


def test_radii_double_up_to_the_cap() -> None:
    assert list_doubling_radii(0.04, 0.32) == [0.04, 0.08, 0.16, 0.32]
    assert list_doubling_radii(0.04, 0.31) == [0.04, 0.08, 0.16]
    assert list_doubling_radii(0.04, 0.04) == [0.04]
    assert list_doubling_radii(settings("amun").epsilon, settings("amun").epsilon_cap)[-1] == 40.96


def test_adversarial_images_are_near_the_clean_ones_and_misread() -> None:
    clean, labels = forget()
    images, predicted, radius = untargeted_l2(
        answer, clean, labels, list_doubling_radii(0.04, 40.96), STEPS, STRIDE
    )
    assert radius.isfinite().all()
    assert (radius > 0).sum() >= 8  # most were read correctly before
    assert images.min() >= 0
    assert images.max() <= 1
    assert (distance(images, clean) <= radius * (1 + 1e-5)).all()
    assert (predicted != labels).all()
    assert torch.equal(answer(images).argmax(dim=1), predicted)
    wrong_before = answer(clean).argmax(dim=1) != labels
    assert torch.equal(radius == 0, wrong_before)
    assert torch.equal(images[wrong_before], clean[wrong_before])
    assert set(radius[radius > 0].tolist()) <= set(list_doubling_radii(0.04, 40.96))
    assert len(set(radius.tolist())) > 1


def test_images_do_not_depend_on_who_shares_their_batch() -> None:
    clean, labels = forget()
    together = untargeted_l2(answer, clean, labels, list_doubling_radii(0.04, 40.96), STEPS, STRIDE)
    for i in (0, 5, 12):
        alone = untargeted_l2(
            answer,
            clean[i : i + 1],
            labels[i : i + 1],
            list_doubling_radii(0.04, 40.96),
            STEPS,
            STRIDE,
        )
        assert alone[2][0] == together[2][i]
        torch.testing.assert_close(alone[0][0], together[0][i], rtol=0, atol=1e-3)


def test_images_that_are_misread_leave_the_batch() -> None:
    sizes: list[int] = []

    def counted(pixels: torch.Tensor) -> torch.Tensor:
        sizes.append(len(pixels))
        return answer(pixels)

    clean, labels = forget()
    _, _, radius = untargeted_l2(
        counted, clean, labels, list_doubling_radii(0.04, 40.96), STEPS, STRIDE
    )
    assert sizes[0] == len(clean)
    assert sizes[1] == (radius > 0).sum()
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[1]


def test_no_image_moves_beyond_the_cap_and_failures_have_an_infinite_radius() -> None:
    clean, labels = forget()
    images, _, radius = untargeted_l2(
        answer, clean, labels, list_doubling_radii(0.04, 0.7), STEPS, STRIDE
    )
    failed = radius.isinf()
    assert failed.any()
    assert not failed.all()
    assert radius[~failed].max() <= 0.64
    assert (distance(images, clean) <= 0.64 * (1 + 1e-5)).all()
    assert (answer(images).argmax(dim=1) == labels)[failed].all()


def test_the_attack_leaves_the_class_of_a_linear_model_along_its_normal() -> None:
    """f(x) = (0, w.x - b) errs from (b - w.x) / |w| = 0.05 along w on; steps of 0.004, then of 0.008, get there."""
    w = torch.zeros(3, 4, 4)
    w[1, 2, 3] = 3.0
    w[0, 0, 0] = 4.0

    def linear(pixels: torch.Tensor) -> torch.Tensor:
        score = (pixels * w).flatten(1).sum(dim=1) - (3.5 + 5 * 0.05)
        return torch.stack([torch.zeros_like(score), score], dim=1)

    clean = torch.full((1, 3, 4, 4), 0.5)
    images, predicted, radius = untargeted_l2(
        linear, clean, torch.tensor([0]), list_doubling_radii(0.04, 1.0), STEPS, STRIDE
    )
    assert radius.tolist() == [0.08]
    assert predicted.tolist() == [1]
    # the ball of 0.04, then 2 steps of 0.008
    assert distance(images, clean).item() == pytest.approx(0.056, abs=1e-5)
    torch.testing.assert_close((images - clean)[0], w / 5 * 0.056, rtol=0, atol=1e-5)


def test_the_first_step_follows_the_normalized_gradient_of_the_cross_entropy() -> None:
    clean, labels = forget()
    right = answer(clean).argmax(dim=1) == labels
    # away from 0 and 1, so that nothing is clamped
    clean = (clean[right] + 0.2) / 1.4
    labels = labels[right]
    right = answer(clean).argmax(dim=1) == labels
    clean = clean[right].requires_grad_()
    labels = labels[right]
    assert len(clean) >= 5
    loss = torch.nn.functional.cross_entropy(answer(clean), labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, clean)
    expected = 0.004 * gradient / gradient.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    images = untargeted_l2(answer, clean.detach(), labels, [0.04], 1, STRIDE)[0]
    torch.testing.assert_close(images - clean, expected, rtol=1e-3, atol=1e-6)


def test_the_attack_fails_where_the_gradient_is_zero() -> None:
    def constant(pixels: torch.Tensor) -> torch.Tensor:
        return pixels.flatten(1)[:, :2] * 0 + torch.tensor([1.0, 0.0])

    clean = torch.rand(3, 3, 4, 4)
    images, predicted, radius = untargeted_l2(
        constant, clean, torch.tensor([0, 1, 0]), [0.04, 0.08], STEPS, STRIDE
    )
    assert radius.tolist() == [float("inf"), 0.0, float("inf")]
    assert predicted[1] == 0
    assert torch.equal(images, clean)


def test_a_sure_model_is_still_attacked() -> None:
    """At a margin of 400 the softmax is one-hot, and the cross-entropy has no gradient any more."""

    def sure(pixels: torch.Tensor) -> torch.Tensor:
        score = 1000 * (pixels[:, 0, 0, 0] - 0.5)
        return torch.stack([score, -score], dim=1)

    clean = torch.full((1, 3, 2, 2), 0.7)
    radius = untargeted_l2(
        sure, clean, torch.tensor([0]), list_doubling_radii(0.04, 1.0), STEPS, STRIDE
    )[2]
    assert radius.item() == 0.32
