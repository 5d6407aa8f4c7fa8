"""Which weights matter, computed by hand on a linear model and on lists of scores."""

import pytest
import torch

from munkey.data.augment import Augmentation
from munkey.data.image_set import TensorSet
from munkey.unlearn.contract import Request
from munkey.unlearn.saliency import compute_importances, mask_top_share, sum_gradients
from tests.unlearn.world import make_request, tuning

AS_THEY_ARE = Augmentation(size=1, scale=[1.0, 1.0], ratio=[1.0, 1.0], mean=0.0, std=1.0)


def untrained() -> torch.nn.Module:
    """Logits 0 of two classes for every image of one pixel: d cross-entropy / d weights = (1/2 - [c = label]) x."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 2, bias=False))
    torch.nn.init.zeros_(model[1].weight)
    return model


def pixels(*colors: list[float], labels: list[int]) -> TensorSet:
    return TensorSet(torch.tensor(colors)[:, :, None, None], torch.tensor(labels))


def request_of(batch_size: int) -> Request:
    return make_request("salun", tuned=tuning(batch_size=batch_size, augment=AS_THEY_ARE))


def test_gradients_are_summed_over_all_batches_with_their_signs() -> None:
    """Batches of one: the sum does not depend on the order."""
    samples = pixels([0.5, 0.0, 1.0], [0.25, 0.5, 0.0], [1.0, 0.0, 0.5], labels=[0, 1, 1])
    summed = sum_gradients(untrained(), samples, request_of(batch_size=1))
    first = torch.tensor([-0.5 + 0.25 + 1.0, 0.5, -1.0 + 0.5]) / 2
    torch.testing.assert_close(summed, {"1.weight": torch.stack([first, -first])})


def test_every_batch_counts_equally_and_no_last_batch_is_dropped() -> None:
    """Five equal samples in batches of two: three batches, each with the mean gradient of its samples."""
    samples = pixels(*[[0.5, 0.0, 1.0]] * 5, labels=[0] * 5)
    each = torch.tensor([[-0.25, 0.0, -0.5], [0.25, 0.0, 0.5]])
    torch.testing.assert_close(
        sum_gradients(untrained(), samples, request_of(2)), {"1.weight": 3 * each}
    )
    torch.testing.assert_close(
        compute_importances(untrained(), samples, request_of(2)), {"1.weight": each.square()}
    )


def test_frozen_weights_have_no_gradient() -> None:
    model = untrained().requires_grad_(False)
    model.append(torch.nn.Linear(2, 2))
    samples = pixels([0.5, 0.0, 1.0], labels=[0])
    assert sum_gradients(model, samples, request_of(1)).keys() == {"2.weight", "2.bias"}


def test_top_share_ranks_all_tensors_together() -> None:
    masks = mask_top_share(
        {"a": torch.tensor([[5.0, 1.0]]), "b": torch.tensor([4.0, 3.0, 3.0, 0.0])}, 0.5
    )
    assert masks["a"].tolist() == [[True, False]]
    assert masks["b"].tolist() == [True, True, False, False]


@pytest.mark.parametrize(("share", "count"), [(0.3, 2), (0.26, 2), (0.34, 3), (1.0, 9)])
def test_top_share_cuts_off_a_fraction_of_a_weight_as_the_original(
    share: float, count: int
) -> None:
    mask = mask_top_share({"a": torch.arange(9.0)}, share)["a"]
    assert mask.tolist() == [False] * (9 - count) + [True] * count


def test_ties_go_to_the_earlier_weight() -> None:
    """So many that a sort that is not stable would mix them up."""
    mask = mask_top_share({"a": torch.zeros(5000), "b": torch.zeros(5000)}, 0.3)
    assert mask["a"].tolist() == [True] * 3000 + [False] * 2000
    assert not mask["b"].any()
