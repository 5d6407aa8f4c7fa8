"""Batched cropping, resizing and the crop boxes, against torchvision's one-image-at-a-time versions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms.functional import resized_crop

from munkey import models
from munkey.data import Dataset
from munkey.images import (
    ImageSet,
    Loader,
    ahead,
    crop_resize,
    normalise,
    random_boxes,
    resident,
    resize,
    to_unit,
    uploaded,
)
from munkey.images import image_set as set_of
from munkey.precision import Precision
from munkey.train import Augmentation, adamw, classified
from tests.conftest import VIT, generator, global_state, image_set, needs_gpu

PAPER_SCALE, PAPER_RATIO = [0.08, 1.0], [3 / 4, 4 / 3]


def torchvision_crop(images, boxes, size):
    cut = [
        resized_crop(image, *box, [size, size], InterpolationMode.BILINEAR, antialias=True)
        for image, box in zip(images, boxes.tolist(), strict=True)
    ]
    return torch.stack(cut)


@pytest.mark.parametrize(("height", "width", "size"), [(8, 8, 16), (32, 24, 8), (20, 40, 20), (96, 64, 24), (9, 7, 31)])
def test_crop_resize_equals_torchvision(height, width, size):
    images = torch.rand(40, 3, height, width, generator=generator())
    boxes = random_boxes(40, height, width, [0.02, 1.0], [0.3, 3.0], generator(1))
    torch.testing.assert_close(
        crop_resize(images, boxes, size), torchvision_crop(images, boxes, size), atol=1e-5, rtol=0
    )


@given(st.data())
def test_any_box_inside_the_image_is_cut_as_torchvision_does(data):
    height, width, size = (data.draw(st.integers(1, 20)) for _ in range(3))
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    box = torch.tensor([[top, left, data.draw(st.integers(1, height - top)), data.draw(st.integers(1, width - left))]])
    image = torch.rand(1, 3, height, width, generator=generator())
    torch.testing.assert_close(crop_resize(image, box, size), torchvision_crop(image, box, size), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("height", "width", "size"), [(8, 8, 96), (64, 64, 16), (28, 40, 28)])
def test_resize_takes_the_whole_image(height, width, size):
    images = torch.rand(3, 3, height, width, generator=generator())
    whole = torch.tensor([[0, 0, height, width]] * 3)
    torch.testing.assert_close(resize(images, size), torchvision_crop(images, whole, size), atol=1e-5, rtol=0)


def test_resize_leaves_an_image_of_the_right_size_alone():
    images = torch.rand(2, 3, 12, 12, generator=generator())
    assert torch.equal(resize(images, 12), images)


@pytest.mark.parametrize(
    ("height", "width", "scale", "ratio"),
    [(32, 32, PAPER_SCALE, PAPER_RATIO), (224, 224, PAPER_SCALE, PAPER_RATIO), (30, 60, [0.3, 0.9], [0.5, 1.5])],
)
def test_crop_boxes_are_distributed_as_torchvisions(height, width, scale, ratio):
    count, image = 3000, torch.zeros(1, height, width)
    ours = random_boxes(count, height, width, scale, ratio, generator(11)).double().T
    with torch.random.fork_rng():
        torch.manual_seed(4)
        theirs = torch.tensor([RandomResizedCrop.get_params(image, scale, ratio) for _ in range(count)]).double().T
    for feature in (
        lambda t, le, h, w: h * w / (height * width),  # share of the area
        lambda t, le, h, w: (w / h).log(),
        lambda t, le, h, w: t / (height - h + 1),  # where it lies
        lambda t, le, h, w: le / (width - w + 1),
    ):
        assert ks_2samp(feature(*ours), feature(*theirs)).pvalue > 0.01


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([PAPER_SCALE, [0.9, 1.0], [0.01, 0.02]]))
def test_crop_boxes_lie_inside_the_image(height, width, scale):
    top, left, h, w = random_boxes(50, height, width, scale, PAPER_RATIO, generator()).T
    assert (top >= 0).all() and (left >= 0).all() and (h > 0).all() and (w > 0).all()
    assert (top + h <= height).all() and (left + w <= width).all()


@pytest.mark.parametrize(
    ("height", "width", "ratio", "box"),
    [(8, 8, [2.0, 2.0], [2, 0, 4, 8]), (8, 8, [0.5, 0.5], [0, 2, 8, 4]), (6, 30, [1.0, 1.5], [0, 10, 6, 9])],
)
def test_where_no_draw_fits_the_largest_central_crop_is_taken(height, width, ratio, box):
    scale = [1.0, 1.0]
    found = random_boxes(3, height, width, scale, ratio, generator())
    assert found.tolist() == [box] * 3
    assert list(RandomResizedCrop.get_params(torch.zeros(1, height, width), scale, ratio)) == box


def test_crop_boxes_depend_on_their_generator_alone():
    def draw(seed):
        return random_boxes(5, 32, 32, PAPER_SCALE, PAPER_RATIO, generator(seed))

    state = global_state()
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    assert global_state() == state


def test_normalise_subtracts_the_mean_and_divides_by_the_deviation():
    assert normalise(torch.tensor([0.0, 0.5, 1.0]), mean=0.5, std=0.25).tolist() == [-2.0, 0.0, 2.0]


def test_unit_images_put_channels_first_and_255_at_one():
    images = torch.zeros(1, 2, 3, 3, dtype=torch.uint8)
    images[0, 1, 2, 0] = 255
    images[0, 0, 0, 2] = 51
    unit = to_unit(images)
    assert unit.shape == (1, 3, 2, 3)
    assert unit[0, 0, 1, 2] == 1
    assert unit[0, 2, 0, 0] == pytest.approx(0.2)
    assert unit.count_nonzero() == 2


def test_a_batch_holds_the_images_and_labels_asked_for_in_that_order():
    samples = image_set(7)
    images, labels = samples.batch(torch.tensor([5, 0, 3]), "cpu")
    expected = samples.images[[5, 0, 3]].transpose(0, 3, 1, 2).astype(np.float32) / 255
    np.testing.assert_allclose(images, expected, rtol=1e-6)
    assert labels.tolist() == samples.labels[[5, 0, 3]].tolist()


def test_an_image_set_pairs_each_id_with_its_own_image_and_label():
    images = np.arange(4, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    dataset = Dataset(images, np.array([3, 5, 7, 9]), np.array([0, 1, 2, 3]), np.array(["train"] * 4), list("abcd"))
    chosen = set_of(dataset, np.array([5, 9]))
    batch, labels = chosen.batch(torch.arange(len(chosen)), "cpu")
    assert (batch[:, 0, 0, 0] * 255).round().tolist() == labels.tolist() == [1, 3]
    with pytest.raises(KeyError, match="4"):
        set_of(dataset, np.array([4]))


def test_a_batch_is_not_a_window_onto_the_stored_images():
    samples = image_set(3)
    before = samples.images.copy()
    samples.batch(torch.arange(3), "cpu")[0].zero_()
    assert np.array_equal(samples.images, before)
    assert isinstance(samples, ImageSet)


def test_a_loader_gives_each_batch_in_order_with_its_positions():
    samples = image_set(11)
    indices = torch.randperm(11, generator=generator()).split(4)
    loader = Loader(samples, indices, "cpu")
    assert len(loader) == 3 and [len(batch) for batch in loader] == [4, 4, 3]
    for batch, index in zip(loader, indices, strict=True):
        assert torch.equal(batch.index, index)
        assert torch.equal(batch.images, to_unit(torch.from_numpy(samples.images[index.numpy()])))
        assert batch.labels.tolist() == samples.labels[index.numpy()].tolist()


@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_what_is_made_ahead_comes_in_order_and_no_further_ahead_than_asked(count):
    begun = []

    def make(item):
        begun.append(item)
        return 2 * item

    for position, made in enumerate(ahead(make, range(20), count)):
        assert made == 2 * position and len(begun) <= position + 1 + count
    assert begun == list(range(20))


def test_an_error_made_ahead_is_raised_when_its_turn_comes():
    source = ahead(lambda item: 1 // item, [2, 1, 0, 1], 2)
    assert [next(source), next(source)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(source)


@pytest.mark.parametrize("block", [1, 3, 100])
def test_uploaded_images_are_the_same_samples_and_no_others(block):
    whole = image_set(9)
    rows = np.array([7, 0, 3, 8])
    samples = ImageSet(whole.images, rows, whole.ids[rows], whole.labels[rows])
    held = uploaded(samples, "cpu", block)
    assert isinstance(held.images, torch.Tensor) and held.images.shape == (4, 8, 8, 3)
    index = torch.tensor([2, 0, 3, 3])
    for one, other in zip(held.batch(index, "cpu"), samples.batch(index, "cpu"), strict=True):
        assert torch.equal(one, other)
    np.testing.assert_array_equal(held.ids, samples.ids)


def test_on_a_cpu_images_are_where_the_computing_is():
    samples = image_set(4)
    assert resident(samples, "cpu", 0.5) is samples


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_images_stay_on_a_gpu_only_within_their_share_of_its_free_memory(share, monkeypatch, capsys):
    samples = image_set(10)  # 1,920 bytes
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (4000, 8000))
    monkeypatch.setattr("munkey.images.uploaded", lambda *_: "uploaded")
    assert (resident(samples, "cuda", share) == "uploaded") == (share == 0.9)
    assert ("they are streamed" in capsys.readouterr().out) == (share == 0.1)


@needs_gpu
def test_on_a_gpu_streamed_resident_and_slow_batches_are_the_same():
    samples = image_set(50)
    indices = torch.randperm(50, generator=generator()).split(7)
    held = resident(samples, "cuda", 0.9)
    assert held.images.is_cuda
    for streamed, kept, index in zip(
        Loader(samples, indices, "cuda"), Loader(held, indices, "cuda"), indices, strict=True
    ):
        slow = to_unit(torch.from_numpy(samples.images[index.numpy()]))
        assert torch.equal(streamed.images.cpu(), slow) and torch.equal(kept.images.cpu(), slow)
        assert streamed.labels.tolist() == kept.labels.tolist() == samples.labels[index.numpy()].tolist()


@needs_gpu
def test_on_a_gpu_no_step_of_a_training_waits_for_it(params):
    """From the first batch on; what is read at the end of the epoch is what `fit` tells."""
    model = models.build("vit", VIT, generator()).cuda()
    precision, optimizer = Precision("bfloat16", "cuda"), adamw(model.parameters(), [0.9, 0.99], 0.0)
    augment, crops = Augmentation(8, PAPER_SCALE, PAPER_RATIO, 0.5, 0.5), generator()
    batches = list(Loader(uploaded(image_set(50), "cuda"), torch.arange(50).split(10), "cuda"))
    try:
        for position, batch in enumerate(batches):
            if position == 1:  # the first step sets up libraries
                torch.cuda.set_sync_debug_mode("error")
            with precision.forward():
                loss, _ = classified(model(augment(batch.images, crops)), batch.labels)
            precision.descend(loss, optimizer)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.isfinite(loss)
