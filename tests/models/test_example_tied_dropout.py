"""Example-tied dropout: who holds which channels, what training and deployment read, and what deletion switches off."""

from contextlib import ExitStack

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from munkey.models.family import FAMILIES, System, Training
from munkey.models.networks.example_tied import ExampleTied, ExampleTiedArchitecture
from tests.conftest import VIT, generator, image_set, lively
from tests.models.inputs import answered, normalized, quiet, recipe, seven_samples, trained
from tests.unlearn.world import original, tensors, unlearn, world

NAME = "example-tied-dropout"
DEEP = ExampleTiedArchitecture(**vars(VIT) | {"depth": 5, "width": 16}, p_fixed=0.25, p_mem=0.2)


def deep() -> ExampleTied:
    """A model all of whose channels are on: 4 of 16 fixed, dropped behind the third and the fourth of five blocks."""
    model = lively(FAMILIES[NAME].build(DEEP, generator()))
    assert isinstance(model, ExampleTied)
    return model


def written_out(model: ExampleTied, images: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
    """The logits of images, block by block; gates: (B, 1, width)."""
    first, second, third, fourth, last = model.blocks
    x = third(second(first(model.embed_positions(model.patch_embed(images))))) * gates
    return model.forward_head(last(fourth(x) * gates, 1))


# Who holds what


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=20, unique=True), st.randoms())
def test_the_channels_of_a_sample_depend_on_its_id_alone(ids, random):
    rows = dict(zip(ids, DEEP.draw_channels(np.array(ids)), strict=True))
    random.shuffle(ids)
    for id, row in zip(ids, DEEP.draw_channels(np.array(ids)), strict=True):
        np.testing.assert_array_equal(row, rows[id])
        np.testing.assert_array_equal(DEEP.draw_channels(np.array([id]))[0], row)


def test_each_channel_belongs_to_its_share_of_samples_and_no_two_to_the_same():
    channels = DEEP.draw_channels(np.arange(3000))
    assert channels.shape == (3000, 12)
    assert np.abs(channels.mean(axis=0) - 0.2).max() < 0.04  # standard deviation 0.007
    assert np.abs(np.corrcoef(channels.T) - np.eye(12)).max() < 0.08


# Training


@torch.no_grad()
def test_training_reads_each_sample_with_its_own_channels_in_every_epoch_and_order(params):
    """Fixed channels are left as they are: the original's mode `train`."""
    model = deep()
    samples = seven_samples()
    images = normalized(seven_samples())
    training = Training(samples, 3, recipe(params, NAME), "cpu", quiet)
    system = System(NAME, DEEP, model)
    fresh = FAMILIES[NAME].make_learner(system, model, training)
    further = FAMILIES[NAME].resume(system, training)
    assert further.system.model is not model
    own_channels = torch.from_numpy(DEEP.draw_channels(samples.ids)).float()
    expected = written_out(
        model, images, torch.cat([torch.ones(7, 4), own_channels], dim=1)[:, None]
    )
    for index in (torch.arange(7), torch.tensor([5, 0, 3]), torch.arange(7).flip(0)):
        for learner in (fresh, further):
            torch.testing.assert_close(learner.predict(images[index], index), expected[index])


def test_every_batch_of_a_training_gets_the_channels_of_its_samples(params, monkeypatch):
    samples = image_set(12)
    channels = []
    forward = ExampleTied.forward
    monkeypatch.setattr(
        ExampleTied,
        "forward",
        lambda self, images, rows_of_batch=None: (
            channels.append(rows_of_batch) or forward(self, images, rows_of_batch)
        ),
    )
    system, history = trained(recipe(params, NAME, p_mem=0.5), NAME, samples)
    rows = np.sort(system.architecture.draw_channels(samples.ids), axis=0)
    per_epoch = torch.cat(channels).view(len(history), 12, -1).numpy()
    assert len(history) == 2
    for epoch in per_epoch:
        np.testing.assert_array_equal(np.sort(epoch, axis=0), rows)
    assert system.model.on.all()


# Answers and deletion


@torch.no_grad()
def test_answers_are_those_of_the_originals_modes_test_and_drop_and_in_proportion_between_them():
    model = deep()
    images = normalized(seven_samples())
    half = torch.arange(12) < 6
    for on, fixed in (
        (half | True, 1.0),
        (half & False, (0.25 + 0.2) / 0.25),
        (half, 1 + 0.5 * 0.2 / 0.25),
    ):
        model.on.copy_(on)
        gates = torch.cat([torch.full((4,), fixed), 0.2 * on.float()]).expand(7, 1, 16)
        np.testing.assert_allclose(
            answered(System(NAME, DEEP, model), seven_samples()),
            written_out(model, images, gates),
            rtol=1e-4,
            atol=1e-4,
        )


def test_no_channel_of_a_deleted_sample_contributes_to_any_answer():
    system = original(NAME)
    samples = seven_samples()
    gone = world().forget_ids[:2]
    their_channels = system.architecture.draw_channels(gone).any(axis=0)
    assert 0 < their_channels.sum() < len(their_channels)

    def answers(of: System, noise: float) -> np.ndarray:
        def disturb(_, __, x):
            return x + noise * torch.nn.functional.pad(
                torch.from_numpy(their_channels), (system.architecture.fixed_channels, 0)
            )

        with ExitStack() as hooks:
            for number in of.model.gated_blocks:
                hooks.enter_context(of.model.blocks[number - 1].register_forward_hook(disturb))
            return answered(of, samples)

    after, request = unlearn(NAME, forget_ids=gone)
    assert not np.allclose(answers(system, 0.0), answers(system, 100.0), atol=0.01)
    np.testing.assert_array_equal(answers(after, 0.0), answers(after, 100.0))
    assert request.facts == {
        "channels_left": int((~their_channels).sum()),
        "channels": len(their_channels),
    }
    for name, value in tensors(system).items():
        assert torch.equal(value, tensors(after)[name]) == (name != "on")
