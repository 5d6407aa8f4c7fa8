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


def assert_rates(rate, expected):
    """expected: the rates by epoch."""
    rates = list(map(rate, expected))
    np.testing.assert_allclose(rates, list(expected.values()), atol=1e-12)


def test_the_rate_follows_a_cosine_to_zero():
    rate = cosine_schedule(lr=2.0, epochs=10, warmup_epochs=0)
    assert_rates(rate, {0: 2, 2.5: 1 + math.sqrt(0.5), 5: 1, 10: 0})


def test_the_rate_rises_linearly_before_the_cosine():
    rate = cosine_schedule(lr=2.0, epochs=10, warmup_epochs=2)
    assert_rates(rate, {0: 0, 0.5: 0.5, 1: 1, 2: 2, 6: 1, 10: 0})


def test_every_sample_is_in_one_batch_and_the_last_batch_is_kept():
    batches = list(shuffled_batches(10, 4, generator()))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(torch.cat(batches).tolist()) == list(range(10))


def test_two_epochs_have_different_orders():
    source = generator()
    first = torch.cat(list(shuffled_batches(50, 8, source)))
    second = torch.cat(list(shuffled_batches(50, 8, source)))
    assert not torch.equal(first, second)


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

    def batches(_):
        return [(loss, None) for loss in losses]

    settings = {"report": lambda _: None} | more
    history = TrainingLoop(epochs, batches, step, optimizer, rate, **settings).run()
    return history, rates


def test_the_history_has_the_mean_loss_and_the_accuracy():
    history, _ = fitted([1.0, 2.0, 6.0], epochs=2, rate=lambda done: 1 - done / 2)
    for epoch in history:
        assert 0 <= epoch.pop("seconds") < 10
    assert history == [
        {"epoch": 1, "loss": 3.0, "accuracy": 50, "lr": 1.0},
        {"epoch": 2, "loss": 3.0, "accuracy": 50, "lr": 0.5},
    ]


def test_the_history_has_the_measurements_after_each_epoch():
    history, _ = fitted([1.0], epochs=3, after_epoch=lambda epoch: {"squared": epoch**2})
    assert [(entry["epoch"], entry["squared"]) for entry in history] == [(1, 1), (2, 4), (3, 9)]


def test_each_epoch_is_reported():
    messages = []
    fitted([1.0, 2.0], epochs=2, report=messages.append)
    assert len(messages) == 2
    for number, message in enumerate(messages, start=1):
        assert f"epoch {number}/2" in message
        assert "loss 1.5000" in message
        assert "50.00%" in message


def test_the_rate_is_set_anew_at_every_step():
    _, rates = fitted([1.0, 1.0], epochs=2, rate=lambda done: done)
    assert rates == [0, 0.5, 1, 1.5]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_the_training(loss):
    with pytest.raises(DivergedError, match=f"epoch 1 is {loss}.*train.lr"):
        fitted([1.0, loss, 1.0])


def test_the_outcome_of_a_batch_is_its_mean_cross_entropy_and_its_hits():
    """Softmax of (0, ln 3) is (1/4, 3/4): cross-entropies ln 4, ln 4/3 and ln 4; only the second one is right."""
    logits = torch.tensor([[0.0, math.log(3)]]).expand(3, -1)
    outcome = classification_outcome(logits, torch.tensor([0, 1, 0]))
    assert outcome.loss.item() == pytest.approx((2 * math.log(4) + math.log(4 / 3)) / 3)
    assert outcome.correct.item() == 1
