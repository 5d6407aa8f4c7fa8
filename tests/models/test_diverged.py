"""A system that diverged is written without weights and refuses to be read, with the reason; what has NaN is found."""

import pytest
import torch

from munkey.core.diverged import DivergedError, explain_divergence, make_nan_logits
from munkey.memory.exemplars import ExemplarMemory
from munkey.models import system as systems
from munkey.models.family import Architecture, System

WHY = "the loss of epoch 2 is nan; log: logs/default/x.log"


def test_a_diverged_system_says_why_whenever_it_is_read(tmp_path):
    path = tmp_path / "system.safetensors"
    systems.save_diverged(path, WHY)
    with pytest.raises(DivergedError, match=r"nan; log: logs/default/x\.log$"):
        systems.load(path)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_weights_and_tokens_that_are_not_finite_are_named(bad):
    model = torch.nn.Linear(2, 3)
    memory = ExemplarMemory(torch.arange(2), torch.ones(2, 4), torch.ones(2, 5))
    system = System("vit", Architecture(3), model, memory)
    assert systems.require_finite(system) is system
    memory.tokens[1, 3] = bad
    with pytest.raises(DivergedError, match=r"1 of 3 .*tokens"):
        systems.require_finite(system)
    model.bias.data[0] = bad
    with pytest.raises(DivergedError, match=r"2 of 3 .*bias"):
        systems.require_finite(system)


def test_the_reason_of_a_divergence_keeps_the_log_of_the_job_where_it_began():
    assert (
        DivergedError("the loss is nan").reason("logs/b.log") == "the loss is nan; log: logs/b.log"
    )
    assert DivergedError(WHY).reason("logs/b.log") == WHY


def test_the_answers_of_a_diverged_system_are_nan_and_carry_the_reason():
    arrays = make_nan_logits({"ids": torch.arange(4).numpy()}, 3, WHY)
    assert arrays["logits"].shape == (4, 3)
    assert explain_divergence(arrays) == WHY
    assert explain_divergence({"logits": arrays["logits"]}) == ""
