"""Batched cropping, resizing and the crop boxes, against torchvision's one-image-at-a-time versions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms.functional import resized_crop

from munkey.data.resample import crop_resize, draw_boxes, normalize, resize
from tests.conftest import generator, global_state

PAPER_SCALE = [0.08, 1.0]
PAPER_RATIO = [3 / 4, 4 / 3]


def torchvision_crop(images, boxes, size):
    cut = [
        resized_crop(image, *box, [size, size], InterpolationMode.BILINEAR, antialias=True)
        for image, box in zip(images, boxes.tolist(), strict=True)
    ]
    return torch.stack(cut)


@pytest.mark.parametrize(
    ("height", "width", "size"), [(8, 8, 16), (32, 24, 8), (20, 40, 20), (96, 64, 24), (9, 7, 31)]
)
def test_crop_resize_equals_torchvision(height, width, size):
    images = torch.rand(40, 3, height, width, generator=generator())
    boxes = draw_boxes(40, height, width, [0.02, 1.0], [0.3, 3.0], generator(1))
    torch.testing.assert_close(
        crop_resize(images, boxes, size), torchvision_crop(images, boxes, size), atol=1e-5, rtol=0
    )


@given(st.data())
def test_any_box_inside_the_image_is_cropped_as_by_torchvision(data):
    height = data.draw(st.integers(1, 20))
    width = data.draw(st.integers(1, 20))
    size = data.draw(st.integers(1, 20))
    top = data.draw(st.integers(0, height - 1))
    left_side = data.draw(st.integers(0, width - 1))
    box_height = data.draw(st.integers(1, height - top))
    box_width = data.draw(st.integers(1, width - left_side))
    box = torch.tensor([[top, left_side, box_height, box_width]])
    image = torch.rand(1, 3, height, width, generator=generator())
    torch.testing.assert_close(
        crop_resize(image, box, size), torchvision_crop(image, box, size), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(("height", "width", "size"), [(8, 8, 96), (64, 64, 16), (28, 40, 28)])
def test_resize_takes_the_whole_image(height, width, size):
    images = torch.rand(3, 3, height, width, generator=generator())
    whole = torch.tensor([[0, 0, height, width]] * 3)
    torch.testing.assert_close(
        resize(images, size), torchvision_crop(images, whole, size), atol=1e-5, rtol=0
    )


def test_resize_leaves_an_image_of_the_right_size_alone():
    images = torch.rand(2, 3, 12, 12, generator=generator())
    assert torch.equal(resize(images, 12), images)


@pytest.mark.parametrize(
    ("height", "width", "scale", "ratio"),
    [
        (32, 32, PAPER_SCALE, PAPER_RATIO),
        (224, 224, PAPER_SCALE, PAPER_RATIO),
        (30, 60, [0.3, 0.9], [0.5, 1.5]),
    ],
)
def test_crop_boxes_are_distributed_as_torchvisions(height, width, scale, ratio):
    count = 3000
    image = torch.zeros(1, height, width)
    ours = draw_boxes(count, height, width, scale, ratio, generator(11)).double().T
    with torch.random.fork_rng():
        torch.manual_seed(4)
        theirs = (
            torch.tensor([RandomResizedCrop.get_params(image, scale, ratio) for _ in range(count)])
            .double()
            .T
        )
    for feature in (
        lambda t, le, h, w: h * w / (height * width),  # share of the area
        lambda t, le, h, w: (w / h).log(),
        lambda t, le, h, w: t / (height - h + 1),  # where it lies
        lambda t, le, h, w: le / (width - w + 1),
    ):
        assert ks_2samp(feature(*ours), feature(*theirs)).pvalue > 0.01


@given(
    st.integers(1, 40), st.integers(1, 40), st.sampled_from([PAPER_SCALE, [0.9, 1.0], [0.01, 0.02]])
)
def test_crop_boxes_lie_inside_the_image(height, width, scale):
    top, left_side, h, w = draw_boxes(50, height, width, scale, PAPER_RATIO, generator()).T
    assert (top >= 0).all()
    assert (left_side >= 0).all()
    assert (h > 0).all()
    assert (w > 0).all()
    assert (top + h <= height).all()
    assert (left_side + w <= width).all()


def test_a_crop_box_is_the_first_draw_that_fits():
    """Of a wide range of aspect ratios, many draws are too wide or too high for the image."""
    boxes = draw_boxes(64, 20, 20, [0.5, 1.0], [0.3, 3.0], torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    tried = []
    areas = 400 * torch.empty(64, 10).uniform_(0.5, 1.0, generator=generator)
    aspects = torch.empty(64, 10).uniform_(math.log(0.3), math.log(3.0), generator=generator).exp()
    for box, area, aspect in zip(boxes.tolist(), areas, aspects, strict=True):
        sides = torch.stack([(area / aspect).sqrt().round(), (area * aspect).sqrt().round()])
        fitting = (sides <= 20).all(dim=0).nonzero().flatten()
        if len(fitting) > 1:
            first = int(fitting[0])
            tried.append(first)
            assert box[2:] == sides[:, first].tolist()
    assert len(set(tried)) > 2


@pytest.mark.parametrize(
    ("height", "width", "ratio", "box"),
    [
        (8, 8, [2.0, 2.0], [2, 0, 4, 8]),
        (8, 8, [0.5, 0.5], [0, 2, 8, 4]),
        (6, 30, [1.0, 1.5], [0, 10, 6, 9]),
        (30, 6, [0.5, 1.5], [9, 0, 12, 6]),
    ],
)
def test_a_crop_box_is_the_largest_central_one_if_no_draw_fits(height, width, ratio, box):
    scale = [1.0, 1.0]
    boxes = draw_boxes(3, height, width, scale, ratio, generator())
    assert boxes.tolist() == [box] * 3
    assert list(RandomResizedCrop.get_params(torch.zeros(1, height, width), scale, ratio)) == box


def test_crop_boxes_depend_on_their_generator_alone():
    def draw(seed):
        return draw_boxes(5, 32, 32, PAPER_SCALE, PAPER_RATIO, generator(seed))

    state = global_state()
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    assert global_state() == state


def test_normalize_subtracts_the_mean_and_divides_by_the_deviation():
    assert normalize(torch.tensor([0.0, 0.5, 1.0]), mean=0.5, std=0.25).tolist() == [-2.0, 0.0, 2.0]
