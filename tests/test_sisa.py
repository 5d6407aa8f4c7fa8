"""SISA: deletion gives exactly the weights of a training without what was deleted, with no more work than needed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from munkey import sisa
from munkey.images import image_set
from munkey.models import Sisa
from munkey.randomness import torch_generator
from munkey.resume import Checkpoint, remove
from tests.unlearn_setup import (
    ARCHITECTURE,
    SISA_ARCHITECTURE,
    SISA_STAGE,
    original,
    recorded,
    same,
    sisa_recipe,
    tensors,
    unlearn,
    world,
)


def quiet(_: str) -> None:
    pass


def oracle(retain):
    """SISA that never saw what is not in `retain`, from the same seeds."""
    return sisa.train(SISA_ARCHITECTURE, retain, sisa_recipe(), "cpu", quiet)[0]


def cells_of(ids):
    return sisa.cells(np.asarray(ids), 5, 2, SISA_STAGE)


def test_deletion_gives_exactly_the_weights_of_the_oracle():
    deleted, asked = unlearn("sisa")
    assert not same(tensors(deleted), tensors(original("sisa")))
    assert same(tensors(deleted), tensors(oracle(world().parts["retain"])))
    first = sisa.touched(asked.forget_ids, 5, 2, sisa_recipe())
    assert asked.facts == {"retrained_slices": sum(2 - part for part in first.values()), "slices": 10}


@pytest.mark.parametrize("part", [0, 1])
def test_one_deleted_sample_retrains_its_shard_from_its_slice_on(part):
    members = world().dataset.ids_of("train")
    shard_of, slice_of = cells_of(members)
    gone = members[slice_of == part][:1]
    retain = image_set(world().dataset, np.setdiff1d(members, gone))
    deleted, history, facts = sisa.delete(original("sisa"), gone, retain, sisa_recipe(), "cpu", quiet)
    assert facts["retrained_slices"] == 2 - part
    assert len(history) == 2 * (2 - part)
    assert same(tensors(deleted), tensors(oracle(retain)))
    shard = int(shard_of[members == gone][0])
    for other in range(5):
        for kept in range(2):
            before, after = (s.model.state(other, kept).state_dict() for s in (original("sisa"), deleted))
            assert same(before, after) == (other != shard or kept < part)


def test_deleting_twice_is_deleting_once():
    members = world().dataset.ids_of("train")
    first, second = members[:3], members[3:6]
    after_first = image_set(world().dataset, members[3:])
    after_both = image_set(world().dataset, members[6:])
    once = sisa.delete(original("sisa"), members[:6], after_both, sisa_recipe(), "cpu", quiet)[0]
    twice = sisa.delete(original("sisa"), first, after_first, sisa_recipe(), "cpu", quiet)[0]
    twice = sisa.delete(twice, second, after_both, sisa_recipe(), "cpu", quiet)[0]
    assert same(tensors(once), tensors(twice))


def test_a_cell_does_not_depend_on_who_else_is_there_and_cells_are_about_equal():
    ids = np.arange(10_000)
    shard, part = cells_of(ids)
    for all_of, some in zip((shard, part), cells_of(ids[::7]), strict=True):
        np.testing.assert_array_equal(all_of[::7], some)
    counts = np.bincount(shard * 2 + part, minlength=10)
    assert counts.min() > 900 and counts.max() < 1100  # 1000 expected, standard deviation 30


def test_each_model_sees_its_own_shard_alone_and_slices_grow():
    data, logs = recorded()
    _, asked = unlearn("sisa", data=data)
    retain = data["retain"].ids
    shard_of, slice_of = cells_of(retain)
    for shard, first in sisa.touched(asked.forget_ids, 5, 2, sisa_recipe()).items():
        own = retain[shard_of == shard]
        drawn = [batch for batch in logs["retain"] if np.isin(batch, own).any()]
        assert all(np.isin(batch, own).all() for batch in drawn)
        slices = [retain[(shard_of == shard) & (slice_of <= part)] for part in range(first, 2)]
        expected = np.concatenate([np.repeat(members, 2) for members in slices])  # two epochs a slice
        np.testing.assert_array_equal(np.sort(np.concatenate(drawn)), np.sort(expected))


def test_epochs_are_shared_out_so_that_the_work_stays():
    assert sisa.epochs_per_slice(40, 1) == 40
    assert sisa.epochs_per_slice(40, 2) == 27  # 27 over half + 27 over all, about 40 over all


def test_the_answer_is_the_mean_probability_of_the_last_slices():
    model = Sisa(3, 2, **ARCHITECTURE)
    for number, state in enumerate(model.states):
        with torch.no_grad():
            state.initialise(torch_generator("any", number))
    images = torch.rand(4, 3, 8, 8)
    expected = torch.stack([model.state(shard, 1)(images).softmax(dim=1) for shard in range(3)]).mean(dim=0)
    torch.testing.assert_close(model(images).exp(), expected)


def test_an_empty_cell_is_no_fault():
    few = world().dataset.ids_of("train")[:4]
    system, history = sisa.train(SISA_ARCHITECTURE, image_set(world().dataset, few), sisa_recipe(), "cpu", quiet)
    assert len(history) < 20 and all(torch.isfinite(t).all() for t in tensors(system).values())


def test_another_stage_gives_other_weights():
    other = replace(sisa_recipe(), stage=("tiny", "other"))
    found = sisa.train(SISA_ARCHITECTURE, world().parts["retain"], other, "cpu", quiet)[0]
    assert not same(tensors(found), tensors(oracle(world().parts["retain"])))


@pytest.mark.parametrize("cut_after", [1, 3, 7])
def test_a_training_that_was_killed_goes_on_and_ends_with_the_same_bytes(cut_after, tmp_path, monkeypatch):
    """Cut in the first slice, at its end, and in a later shard; finished slices are not trained again."""
    samples, progress = world().parts["retain"], tmp_path / "progress.pt"
    whole, history = sisa.train(SISA_ARCHITECTURE, samples, sisa_recipe(), "cpu", quiet)
    saves, save = [], Checkpoint.save

    class Killed(Exception):
        pass

    def cut(self, *given):
        save(self, *given)
        saves.append(self.path.name)
        if len(saves) == cut_after:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", cut)
        with pytest.raises(Killed):
            sisa.train(SISA_ARCHITECTURE, samples, sisa_recipe(), "cpu", quiet, (progress, 0.0))
    told = []
    again, later = sisa.train(SISA_ARCHITECTURE, samples, sisa_recipe(), "cpu", told.append, (progress, 0.0))
    assert same(tensors(again), tensors(whole))
    assert [epoch["loss"] for epoch in later] == [epoch["loss"] for epoch in history]
    assert (
        sum("epoch " in line and "/" in line for line in told if line.startswith("epoch")) == len(history) - cut_after
    )
    remove(progress)
    assert not list(tmp_path.iterdir())


def test_only_the_ends_of_slices_are_kept_when_checkpoints_are_far_apart(tmp_path):
    sisa.train(SISA_ARCHITECTURE, world().parts["retain"], sisa_recipe(), "cpu", quiet, (tmp_path / "p.pt", 1000.0))
    assert len(list(tmp_path.iterdir())) == 10
