"""SISA: deletion gives exactly the weights of a training without what was deleted, with no more work than needed."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from munkey.core.randomness import Stage
from munkey.data.augment import Augmentation
from munkey.data.image_set import image_set
from munkey.models.families import sisa
from munkey.models.family import FAMILIES, Training
from munkey.models.networks.sisa import Sisa, SisaArchitecture
from munkey.training.checkpoint import Checkpoint, CheckpointFile
from munkey.unlearn.contract import METHODS
from tests.conftest import VIT, lively
from tests.conftest import image_set as random_images
from tests.models.inputs import STAGE, quiet, recipe, trained
from tests.unlearn.world import (
    ARCHITECTURE,
    SISA_STAGE,
    column,
    make_request,
    original,
    recorded,
    same,
    sisa_recipe,
    tensors,
    unlearn,
    world,
)


def training(samples, **fields):
    """A training of SISA with two slices of two epochs each."""
    return Training(
        samples, 10, **{"recipe": sisa_recipe(), "device": "cpu", "report": quiet} | fields
    )


def oracle(retain):
    """SISA that never saw what is not in `retain`, from the same seeds."""
    return FAMILIES["sisa"].train(training(retain)).system


def cells_of(ids):
    return sisa.assign_cells(np.asarray(ids), 5, 2, SISA_STAGE)


def samples_of(ids):
    return image_set(world().dataset, ids)


def without(ids):
    """The training samples without these."""
    return samples_of(np.setdiff1d(world().dataset.get_ids("train"), ids))


def delete(ids):
    """The system without these samples, and the request that had them deleted."""
    return unlearn("sisa", forget_ids=ids, data={"retain": without(ids)})


def test_the_models_of_sisa_are_not_initialized_before_their_training():
    with pytest.raises(ValueError, match="initialized when"):
        FAMILIES["sisa"].build(SisaArchitecture(**vars(VIT), shards=2, slices=3), torch.Generator())


# Deletion


def test_deletion_gives_exactly_the_weights_of_the_oracle():
    deleted, request = unlearn("sisa")
    assert not same(tensors(deleted), tensors(original("sisa")))
    assert same(tensors(deleted), tensors(oracle(world().parts["retain"])))
    first = sisa.find_first_affected_slices(request.forget_ids, 5, 2, SISA_STAGE)
    assert request.facts == {
        "retrained_slices": sum(2 - part for part in first.values()),
        "slices": 10,
    }


@pytest.mark.parametrize("part", [0, 1])
def test_one_deleted_sample_retrains_its_shard_from_its_slice_on(part):
    members = world().dataset.get_ids("train")
    cells = cells_of(members)
    gone = members[cells.slices == part][:1]
    deleted, request = delete(gone)
    assert request.facts == {"retrained_slices": 2 - part, "slices": 10}
    assert len(request.history) == 2 * (2 - part)
    assert same(tensors(deleted), tensors(oracle(without(gone))))
    shard = int(cells.shards[members == gone][0])
    for other in range(5):
        for slice_of_shard in range(2):
            before = original("sisa").model.get_checkpoint(other, slice_of_shard).state_dict()
            after = deleted.model.get_checkpoint(other, slice_of_shard).state_dict()
            assert same(before, after) == (other != shard or slice_of_shard < part)


def test_new_samples_are_learned_only_by_slices_that_a_request_retrains():
    """As in streams of requests: its oracle learns them all."""
    members = world().dataset.get_ids("train")
    new = world().dataset.get_ids("val")
    cells = cells_of(members)
    gone = members[cells.slices == 1][:1]
    shard = int(cells.shards[members == gone][0])
    assert len(np.unique(cells_of(new).shards)) > 1
    retain = samples_of(np.union1d(np.setdiff1d(members, gone), new))
    deleted, _ = unlearn("sisa", forget_ids=gone, data={"retain": retain})
    complete = oracle(retain)
    for other in range(5):
        for part in range(2):
            before = original("sisa").model.get_checkpoint(other, part).state_dict()
            after = deleted.model.get_checkpoint(other, part).state_dict()
            of_oracle = complete.model.get_checkpoint(other, part).state_dict()
            assert same(before, after) == (other != shard or part == 0)
            learns = bool(((cells_of(new).shards == other) & (cells_of(new).slices <= part)).any())
            if other != shard:
                assert same(after, of_oracle) != learns


def test_deleting_twice_is_deleting_once():
    members = world().dataset.get_ids("train")
    first = members[:3]
    second = members[3:6]
    once, _ = delete(members[:6])
    after_first, _ = delete(first)
    request = make_request("sisa", forget_ids=second, data={"retain": without(members[:6])})
    twice = METHODS["sisa"].run(after_first, request, METHODS["sisa"].settings())
    assert same(tensors(once), tensors(twice))


# Cells, shards and slices


def test_a_cell_does_not_depend_on_who_else_is_there_and_cells_are_about_equal():
    ids = np.arange(10_000)
    cells = cells_of(ids)
    for of_all, of_some in zip(cells, cells_of(ids[::7]), strict=True):
        np.testing.assert_array_equal(of_all[::7], of_some)
    counts = np.bincount(cells.shards * 2 + cells.slices, minlength=10)
    # 1000 expected, standard deviation 30
    assert counts.min() > 900
    assert counts.max() < 1100


def test_the_first_slice_that_a_deletion_touches_is_found_for_each_shard_that_it_touches():
    ids = np.arange(100)
    shards, slices = sisa.assign_cells(ids, 4, 3, STAGE)
    gone = ids[(shards == 2) & (slices > 0)][::-1]
    assert set(slices[gone]) == {1, 2}
    assert sisa.find_first_affected_slices(gone, 4, 3, STAGE) == {2: 1}
    assert list(sisa.find_first_affected_slices(ids[::-1], 4, 3, STAGE).items()) == [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 0),
    ]


def test_each_model_learns_from_its_own_shard_alone_and_from_growing_slices():
    data, logs = recorded()
    _, request = unlearn("sisa", data=data)
    retain = data["retain"].ids
    cells = cells_of(retain)
    for shard, first in sisa.find_first_affected_slices(
        request.forget_ids, 5, 2, SISA_STAGE
    ).items():
        in_shard = retain[cells.shards == shard]
        drawn = []
        for batch in logs["retain"]:
            if np.isin(batch, in_shard).any():
                assert np.isin(batch, in_shard).all()
                drawn += batch.tolist()
        expected = []
        for part in range(first, 2):
            members = retain[(cells.shards == shard) & (cells.slices <= part)]
            expected += 2 * members.tolist()  # two epochs a slice
        assert sorted(drawn) == sorted(expected)


def test_the_epochs_of_slices_are_as_much_work_as_those_of_one_training():
    assert sisa.count_epochs_per_slice(40, 1) == 40
    assert sisa.count_epochs_per_slice(40, 2) == 27  # 27 over half + 27 over all, about 40 over all
    assert sisa.count_epochs_per_slice(2, 8) == 1  # never untrained
    assert sisa.count_epochs_per_slice(40, 3) == 20  # over one, two and three thirds: 40 over all


def test_sisa_is_trained_with_empty_cells():
    system, history = FAMILIES["sisa"].train(
        training(samples_of(world().dataset.get_ids("train")[:4]))
    )
    assert len(history) < 20
    for tensor in tensors(system).values():
        assert torch.isfinite(tensor).all()


def three_slices(params):
    """Two shards with three slices of two epochs each. The rate rises for one and a half of all six epochs."""
    train = {
        "epochs": 4,
        "lr": 0.01,
        "warmup_epochs": 1.5,
        "betas": [0.7, 0.8],
        "weight_decay": 0.1,
    }
    return recipe(params, "sisa", train=train, shards=2, slices=3)


def trained_slowly(recipe_of_sisa, samples, shard):
    """The weights of a shard after each of its slices, step by step; and the learning rate and the loss by epoch."""
    augment = Augmentation(
        8, recipe_of_sisa.train.crop_scale, recipe_of_sisa.train.crop_ratio, 0.4, 0.2
    )
    cell = np.array([(STAGE / "cell" / i).seed() % 6 for i in samples.ids])
    model = FAMILIES["vit"].build(VIT, (STAGE / "weights" / shard).torch_generator())
    states = []
    curve = []
    batch_size = recipe_of_sisa.train.batch_size
    for part in range(3):
        members = torch.tensor(np.flatnonzero((cell // 3 == shard) & (cell % 3 <= part)))
        order = (STAGE / "order" / shard / part).torch_generator()
        crops = (STAGE / "crops" / shard / part).torch_generator()
        optimizer = torch.optim.AdamW(
            model.parameters(), betas=(0.7, 0.8), weight_decay=0.1, fused=True
        )
        for epoch in range(2):
            batches = torch.randperm(len(members), generator=order).split(batch_size)
            losses = []
            rates = []
            for position, index in enumerate(batches):
                done = 2 * part + epoch + position / len(batches)
                falling = 0.005 * (1 + math.cos(math.pi * (done - 1.5) / 4.5))
                optimizer.param_groups[0]["lr"] = rate = (
                    0.01 * done / 1.5 if done < 1.5 else falling
                )
                rates.append(rate)
                images, labels = samples.batch(members[index], "cpu")
                loss = F.cross_entropy(model(augment(images, crops)), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            curve.append((rates[0], np.mean(losses)))
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    return states, curve


def test_every_slice_of_every_shard_equals_a_slow_training(params):
    """Fresh weights a shard; each slice from the one before, with generators and an optimizer of its own; one rate."""
    recipe_of_sisa = three_slices(params)
    samples = random_images(24)
    result = trained(recipe_of_sisa, "sisa", samples)
    curves = []
    for shard in range(2):
        states, curve = trained_slowly(recipe_of_sisa, samples, shard)
        curves += curve
        for part, state in enumerate(states):
            for name, value in result.system.model.get_checkpoint(shard, part).state_dict().items():
                torch.testing.assert_close(value, state[name], rtol=1e-5, atol=1e-6)
    assert [epoch["epoch"] for epoch in result.history] == list(range(1, 13))
    np.testing.assert_allclose(
        [(epoch["lr"], epoch["loss"]) for epoch in result.history], curves, rtol=1e-5
    )


# Answers


@torch.no_grad()
def test_the_answer_is_the_mean_probability_of_the_last_slices():
    model = lively(Sisa(SisaArchitecture(**vars(ARCHITECTURE), shards=3, slices=2)))
    images = torch.rand(4, 3, 8, 8, generator=Stage("images").torch_generator())
    shares = [model.get_checkpoint(shard, 1)(images).softmax(dim=1) for shard in range(3)]
    torch.testing.assert_close(model(images).exp(), torch.stack(shares).mean(dim=0))


def test_the_architecture_of_sisa_is_read_from_the_parameters(params):
    recipe_of_sisa = recipe(params, "sisa", shards=4, slices=3)
    assert FAMILIES["sisa"].make_architecture(recipe_of_sisa, 3) == SisaArchitecture(
        **vars(VIT), shards=4, slices=3
    )


# Checkpoints


def count_epochs(messages):
    """How many epochs were trained, as reported."""
    return sum(message.startswith("epoch ") for message in messages)


@pytest.mark.parametrize("cut_after", [1, 3, 7])
def test_a_training_that_was_killed_resumes_and_ends_with_the_same_bytes(
    cut_after, tmp_path, monkeypatch
):
    """Cut in the first slice, at its end, and in a later shard; finished slices are not trained again."""
    samples = world().parts["retain"]
    file = CheckpointFile(tmp_path / "progress.pt", 0.0)
    whole, history = FAMILIES["sisa"].train(training(samples))
    saves = []
    save = Checkpoint.save

    class Killed(Exception):
        pass

    def cut(self, *state):
        save(self, *state)
        saves.append(self.file.path.name)
        if len(saves) == cut_after:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", cut)
        with pytest.raises(Killed):
            FAMILIES["sisa"].train(training(samples, checkpoint=file))
    messages = []
    again, later = FAMILIES["sisa"].train(
        training(samples, checkpoint=file, report=messages.append)
    )
    assert same(tensors(again), tensors(whole))
    assert column(later, "loss") == column(history, "loss")
    assert count_epochs(messages) == len(history) - cut_after
    file.remove()
    assert not list(tmp_path.iterdir())


def test_a_slice_whose_checkpoint_is_damaged_is_trained_again_and_no_other(tmp_path):
    samples = world().parts["retain"]
    file = CheckpointFile(tmp_path / "p.pt", 0.0)
    whole, history = FAMILIES["sisa"].train(training(samples, checkpoint=file))
    path = file.for_part(1, 0).path
    path.write_bytes(path.read_bytes()[:-1])
    messages = []
    again, _ = FAMILIES["sisa"].train(training(samples, checkpoint=file, report=messages.append))
    assert same(tensors(again), tensors(whole))
    assert count_epochs(messages) == 2 < len(history)
    assert [path.name for path in tmp_path.glob("*.damaged")] == ["p.1.0.pt.damaged"]


def test_only_the_ends_of_slices_have_checkpoints_when_these_are_far_apart(tmp_path):
    far_apart = CheckpointFile(tmp_path / "p.pt", 1000.0)
    FAMILIES["sisa"].train(training(world().parts["retain"], checkpoint=far_apart))
    assert len(list(tmp_path.iterdir())) == 10
    for shard in range(5):
        for part in range(2):
            assert (tmp_path / f"p.{shard}.{part}.pt").exists()
