"""Sets of labeled images give the images and labels asked for, wherever the images lie."""

import numpy as np
import pytest
import torch

from munkey.data.image_set import (
    ImageSet,
    JoinedSet,
    TensorSet,
    move_to_gpu_if_it_fits,
    to_unit_range,
    upload,
)
from munkey.data.image_set import image_set as set_of
from munkey.data.prepared import Dataset
from tests.conftest import generator, image_set


def test_unit_images_put_channels_first_and_255_at_one():
    images = torch.zeros(1, 2, 3, 3, dtype=torch.uint8)
    images[0, 1, 2, 0] = 255
    images[0, 0, 0, 2] = 51
    unit = to_unit_range(images)
    assert unit.shape == (1, 3, 2, 3)
    assert unit[0, 0, 1, 2] == 1
    assert unit[0, 2, 0, 0] == pytest.approx(0.2)
    assert unit.count_nonzero() == 2


def test_a_batch_has_the_images_and_labels_of_the_index_in_its_order():
    samples = image_set(7)
    images, labels = samples.batch(torch.tensor([5, 0, 3]), "cpu")
    expected = samples.images[[5, 0, 3]].transpose(0, 3, 1, 2).astype(np.float32) / 255
    np.testing.assert_allclose(images, expected, rtol=1e-6)
    assert labels.tolist() == samples.labels[[5, 0, 3]].tolist()


def test_an_image_set_pairs_each_id_with_its_own_image_and_label():
    images = np.arange(4, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    dataset = Dataset(
        images,
        np.array([3, 5, 7, 9]),
        np.array([0, 1, 2, 3]),
        np.array(["train"] * 4),
        list("abcd"),
    )
    some = set_of(dataset, np.array([5, 9]))
    batch, labels = some.batch(torch.arange(len(some)), "cpu")
    assert (batch[:, 0, 0, 0] * 255).round().tolist() == labels.tolist() == [1, 3]
    with pytest.raises(KeyError, match="4"):
        set_of(dataset, np.array([4]))


def test_changing_a_batch_does_not_change_the_stored_images():
    samples = image_set(3)
    before = samples.images.copy()
    samples.batch(torch.arange(3), "cpu")[0].zero_()
    assert np.array_equal(samples.images, before)
    assert isinstance(samples, ImageSet)


@pytest.mark.parametrize("block", [1, 3, 100])
def test_uploaded_images_are_the_same_samples_and_no_others(block):
    whole = image_set(9)
    rows = np.array([7, 0, 3, 8])
    samples = ImageSet(whole.images, rows, whole.ids[rows], whole.labels[rows])
    uploaded = upload(samples, "cpu", block)
    assert isinstance(uploaded.images, torch.Tensor)
    assert uploaded.images.shape == (4, 8, 8, 3)
    assert uploaded.images.dtype == torch.uint8  # a quarter of a GPU's memory
    index = torch.tensor([2, 0, 3, 3])
    for one, other in zip(uploaded.batch(index, "cpu"), samples.batch(index, "cpu"), strict=True):
        assert torch.equal(one, other)
    np.testing.assert_array_equal(uploaded.ids, samples.ids)


@pytest.mark.parametrize(("count", "streamed"), [(5, False), (6, True)])
def test_images_stay_on_a_gpu_only_within_their_share_of_its_free_memory(
    count, streamed, monkeypatch, capsys
):
    """192 bytes an image. Of the stored images only the samples' own must fit, and they may fill their share."""
    whole = image_set(10)
    samples = ImageSet(whole.images, np.arange(count), whole.ids[:count], whole.labels[:count])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2 * 5 * 192, 8000))
    monkeypatch.setattr("munkey.data.image_set.upload", lambda *_: "uploaded")
    assert move_to_gpu_if_it_fits(samples, "cpu", 0.5) is samples
    assert (move_to_gpu_if_it_fits(samples, "cuda", 0.5) is samples) == streamed
    assert ("they are streamed" in capsys.readouterr().out) == streamed


def test_positions_in_joined_sets_run_through_one_set_after_the_other():
    first = image_set(3, seed=1)
    second = image_set(4, seed=2)
    computed = TensorSet(torch.rand(2, 3, 8, 8, generator=generator()), torch.tensor([7, 8]))
    joined = JoinedSet((first, computed, second))
    assert len(joined) == 9
    images, labels = joined.batch(torch.tensor([8, 0, 4, 5, 2]), "cpu")
    expected = [second.batch(torch.tensor([3]), "cpu"), first.batch(torch.tensor([0]), "cpu")]
    assert torch.equal(images[:2], torch.cat([batch.images for batch in expected]))
    assert torch.equal(images[2], computed.images[1])
    assert labels.tolist() == [
        *(int(batch.labels) for batch in expected),
        8,
        second.labels[0],
        first.labels[2],
    ]
