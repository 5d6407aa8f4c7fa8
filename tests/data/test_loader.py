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
    assert len(loader) == 3
    assert [len(batch) for batch in loader] == [4, 4, 3]
    for batch, index in zip(loader, indices, strict=True):
        assert torch.equal(batch.index, index)
        assert torch.equal(
            batch.images, to_unit_range(torch.from_numpy(samples.images[index.numpy()]))
        )
        assert batch.labels.tolist() == samples.labels[index.numpy()].tolist()


@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_prefetch_yields_items_in_order_and_computes_count_of_them_ahead(count):
    taken = []
    items = (taken.append(item) or item for item in range(20))
    for position, item_ahead in enumerate(prefetch(str, items, count)):
        assert item_ahead == str(position)
        assert len(taken) == min(20, position + 1 + count)
    assert taken == list(range(20))


def test_prefetch_raises_an_error_at_the_turn_of_its_item():
    source = prefetch(lambda item: 1 // item, [2, 1, 0, 1], 2)
    assert [next(source), next(source)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(source)


@needs_gpu
def test_streamed_and_resident_batches_on_a_gpu_are_those_of_slow_copies():
    samples = image_set(50)
    indices = torch.randperm(50, generator=generator()).split(7)
    on_gpu = move_to_gpu_if_it_fits(samples, "cuda", 0.9)
    assert on_gpu.images.is_cuda
    for streamed, resident, index in zip(
        Loader(samples, indices, "cuda"), Loader(on_gpu, indices, "cuda"), indices, strict=True
    ):
        slow = to_unit_range(torch.from_numpy(samples.images[index.numpy()]))
        assert torch.equal(streamed.images.cpu(), slow)
        assert torch.equal(resident.images.cpu(), slow)
        assert (
            streamed.labels.tolist()
            == resident.labels.tolist()
            == samples.labels[index.numpy()].tolist()
        )


@needs_gpu
def test_no_training_step_waits_for_the_gpu():
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
