"""The training loop: its learning rates, its batches, its history, and what it refuses."""

import math

import numpy as np
import pytest
import torch

from munkey.core.diverged import DivergedError
from munkey.training.loop import (
    Outcome,
    TrainingLoop,
    adamw,
    classification_outcome,
    cosine_schedule,
    shuffled_batches,
)
from tests.conftest import generator


def test_the_rate_follows_a_cosine_to_zero():
    rate = cosine_schedule(lr=2.0, epochs=10, warmup_epochs=0)
    np.testing.assert_allclose(
        [rate(e) for e in (0, 2.5, 5, 10)], [2, 1 + math.sqrt(0.5), 1, 0], atol=1e-12
    )


def test_the_rate_rises_linearly_before_the_cosine():
    rate = cosine_schedule(lr=2.0, epochs=10, warmup_epochs=2)
    np.testing.assert_allclose(
        [rate(e) for e in (0, 0.5, 1, 2, 6, 10)], [0, 0.5, 1, 2, 1, 0], atol=1e-12
    )


def test_every_sample_is_in_one_batch_and_the_last_batch_is_kept():
    batches = list(shuffled_batches(10, 4, generator()))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(torch.cat(batches).tolist()) == list(range(10))


def test_each_epoch_has_an_order_of_its_own():
    source = generator()
    assert not torch.equal(
        torch.cat(list(shuffled_batches(50, 8, source))),
        torch.cat(list(shuffled_batches(50, 8, source))),
    )


def fitted(losses, epochs=1, rate=lambda _: 0.0, **more):
    """Fit a number that does not matter; `losses` of an epoch's batches, each of two samples of which one is right.

    Returns the history, and the learning rate at each step.
    """
    weight = torch.nn.Parameter(torch.ones(1))
    rates = []
    optimizer = adamw([weight], [0.9, 0.99], 0.0)

    def step(batch):
        rates.append(optimizer.param_groups[0]["lr"])
        return Outcome((0 * weight).sum() + batch[0], torch.tensor(1))

    settings = {"report": lambda _: None} | more
    history = TrainingLoop(
        epochs, lambda _: [(loss, None) for loss in losses], step, optimizer, rate, **settings
    ).run()
    return history, rates


def test_history_tells_the_mean_loss_and_the_share_that_is_right():
    history, _ = fitted([1.0, 2.0, 6.0], epochs=2, rate=lambda done: 1 - done / 2)
    assert [(e["epoch"], e["loss"], e["accuracy"], e["lr"]) for e in history] == [
        (1, 3.0, 50, 1.0),
        (2, 3.0, 50, 0.5),
    ]
    assert all(0 <= entry["seconds"] < 10 for entry in history)


def test_what_is_measured_after_an_epoch_joins_the_history():
    history, _ = fitted([1.0], epochs=3, after_epoch=lambda epoch: {"squared": epoch**2})
    assert [(entry["epoch"], entry["squared"]) for entry in history] == [(1, 1), (2, 4), (3, 9)]


def test_each_epoch_is_reported():
    messages = []
    fitted([1.0, 2.0], epochs=2, report=messages.append)
    assert [message.split("  ")[:3] for message in messages] == [
        ["epoch 1/2", "loss 1.5000", "accuracy on crops 50.00%"],
        ["epoch 2/2", "loss 1.5000", "accuracy on crops 50.00%"],
    ]


def test_the_rate_is_set_anew_at_every_step():
    _, rates = fitted([1.0, 1.0], epochs=2, rate=lambda done: done)
    assert rates == [0, 0.5, 1, 1.5]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_the_training(loss):
    with pytest.raises(DivergedError, match=f"epoch 1 is {loss}: lower train.lr"):
        fitted([1.0, loss, 1.0])


def test_a_batch_is_judged_by_its_mean_cross_entropy_and_its_hits():
    """Softmax of (0, ln 3) is (1/4, 3/4): cross-entropies ln 4, ln 4/3 and ln 4; only the second one is right."""
    logits = torch.tensor([[0.0, math.log(3)]]).expand(3, -1)
    outcome = classification_outcome(logits, torch.tensor([0, 1, 0]))
    assert outcome.loss.item() == pytest.approx((2 * math.log(4) + math.log(4 / 3)) / 3)
    assert outcome.correct.item() == 1
