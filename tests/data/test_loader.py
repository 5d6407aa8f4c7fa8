"""A loader gives the batches asked for, in order; what is made ahead is neither reordered nor lost."""

import pytest
import torch

from munkey.data.augment import Augmentation
from munkey.data.image_set import move_to_gpu_if_it_fits, to_unit_range, upload
from munkey.data.loader import Loader, prefetch
from munkey.models.family import FAMILIES
from munkey.models.networks.vit import ViTArchitecture
from munkey.training.loop import adamw, classification_outcome
from munkey.training.precision import Precision
from tests.conftest import generator, image_set, needs_gpu


def test_a_loader_gives_each_batch_in_order_with_its_positions():
    samples = image_set(11)
    indices = torch.randperm(11, generator=generator()).split(4)
    loader = Loader(samples, indices, "cpu")
    assert len(loader) == 3 and [len(batch) for batch in loader] == [4, 4, 3]
    for batch, index in zip(loader, indices, strict=True):
        assert torch.equal(batch.index, index)
        assert torch.equal(
            batch.images, to_unit_range(torch.from_numpy(samples.images[index.numpy()]))
        )
        assert batch.labels.tolist() == samples.labels[index.numpy()].tolist()


@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_what_is_made_ahead_comes_in_order_and_as_far_ahead_as_asked(count):
    taken = []
    items = (taken.append(item) or item for item in range(20))
    for position, made in enumerate(prefetch(str, items, count)):
        assert made == str(position) and len(taken) == min(20, position + 1 + count)
    assert taken == list(range(20))


def test_an_error_made_ahead_is_raised_when_its_turn_comes():
    source = prefetch(lambda item: 1 // item, [2, 1, 0, 1], 2)
    assert [next(source), next(source)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(source)


@needs_gpu
def test_on_a_gpu_streamed_resident_and_slow_batches_are_the_same():
    samples = image_set(50)
    indices = torch.randperm(50, generator=generator()).split(7)
    held = move_to_gpu_if_it_fits(samples, "cuda", 0.9)
    assert held.images.is_cuda
    for streamed, kept, index in zip(
        Loader(samples, indices, "cuda"), Loader(held, indices, "cuda"), indices, strict=True
    ):
        slow = to_unit_range(torch.from_numpy(samples.images[index.numpy()]))
        assert torch.equal(streamed.images.cpu(), slow) and torch.equal(kept.images.cpu(), slow)
        assert (
            streamed.labels.tolist()
            == kept.labels.tolist()
            == samples.labels[index.numpy()].tolist()
        )


@needs_gpu
def test_on_a_gpu_no_step_of_a_training_waits_for_it():
    """From the second batch on, because the first step sets up libraries."""
    sides = {"image_size": 8, "patch_size": 4}
    architecture = ViTArchitecture(classes=3, width=8, depth=2, heads=2, mlp_ratio=2.0, **sides)
    model = FAMILIES["vit"].build(architecture, generator()).cuda()
    precision = Precision("bfloat16", "cuda")
    optimizer = adamw(model.parameters(), [0.9, 0.99], 0.0)
    augment = Augmentation(8, [0.08, 1.0], [3 / 4, 4 / 3], 0.5, 0.5)
    crops = generator()
    batches = list(Loader(upload(image_set(50), "cuda"), torch.arange(50).split(10), "cuda"))
    try:
        for position, batch in enumerate(batches):
            if position == 1:
                torch.cuda.set_sync_debug_mode("error")
            with precision.forward():
                loss, _ = classification_outcome(model(augment(batch.images, crops)), batch.labels)
            precision.descend(loss, optimizer)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.isfinite(loss)
