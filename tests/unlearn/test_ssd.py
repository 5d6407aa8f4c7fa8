"""SSD against a direct loop."""

import torch
from torch.nn import functional as F

from munkey.data.image_set import JoinedSet
from munkey.unlearn.saliency import compute_dampening_factors, compute_importances
from tests.unlearn.direct_loops import fresh_copy
from tests.unlearn.world import (
    BATCH,
    make_request,
    original,
    recorded,
    same,
    sizes,
    unlearn,
    weights,
    world,
)

KEYS = ["blocks.0.attn.qkv.bias", "blocks.1.attn.qkv.bias"]


def everything() -> JoinedSet:
    return JoinedSet((world().parts["retain"], world().parts["forget"]))


def direct_importances(samples: JoinedSet) -> dict[str, torch.Tensor]:
    """(1/n) sum over batches, in the order of the samples, of (d mean cross-entropy / d w)^2, the long way."""
    model = fresh_copy("ssd")
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    batches = torch.arange(len(samples)).split(BATCH)
    for batch in batches:
        images, labels = samples.batch(batch, "cpu")
        model.zero_grad()
        F.cross_entropy(model((images - 0.5) / 0.5), labels).backward()
        for name, p in model.named_parameters():
            total[name] += p.grad**2
    for name in KEYS:
        total[name][16:32] = 0  # width 16: query, key, value
    return {name: value / len(batches) for name, value in total.items()}


def test_importances_equal_a_direct_loop() -> None:
    request = make_request("ssd")
    computed = compute_importances(fresh_copy("ssd"), everything(), request)
    expected = direct_importances(everything())
    assert computed.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(computed[name], value, rtol=1e-4, atol=1e-12)


def test_new_weights_equal_a_direct_loop() -> None:
    before = weights(original("ssd"))
    forgotten = direct_importances(JoinedSet((world().parts["forget"],)))
    everywhere = direct_importances(everything())
    system, request = unlearn("ssd", changed={"alpha": 1.5, "lam": 0.5})
    dampened = 0
    for name, after in weights(system).items():
        expected = before[name].clone()
        for at in range(expected.numel()):
            of_forget = forgotten[name].flatten()[at]
            of_all = everywhere[name].flatten()[at]
            if of_forget > 1.5 * of_all:
                expected.view(-1)[at] *= min(0.5 * of_all / of_forget, 1)
                dampened += 1
        torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-8)
    assert 100 < dampened < 5000
    assert abs(request.facts["dampened"] - dampened) <= 2  # a tie may round either way
    assert request.facts["weights"] == sum(value.numel() for value in before.values())


def test_the_key_third_of_each_qkv_bias_has_no_importance_and_stays() -> None:
    """Its gradient is zero in exact arithmetic: what is computed is noise that would pick weights at random."""
    before = weights(original("ssd"))
    after = weights(unlearn("ssd", changed={"alpha": 0.01, "lam": 0.001})[0])
    computed = compute_importances(fresh_copy("ssd"), everything(), make_request("ssd"))
    for name in KEYS:
        assert not computed[name][16:32].any()
        assert torch.equal(before[name][16:32], after[name][16:32])
        assert not torch.equal(before[name][:16], after[name][:16])
        assert not torch.equal(before[name][32:], after[name][32:])


def test_a_weight_is_never_amplified() -> None:
    factor = compute_dampening_factors(
        torch.tensor([4.0, 4.0, 1.0, 0.0]), torch.tensor([1.0, 3.0, 1.0, 0.0]), alpha=1.0, lam=1.0
    )
    assert factor.tolist() == [0.25, 0.75, 1.0, 1.0]
    strong = compute_dampening_factors(torch.tensor([4.0]), torch.tensor([1.0]), alpha=1.0, lam=8.0)
    assert strong.tolist() == [1.0]


def test_ssd_warns_where_nothing_is_dampened() -> None:
    lines: list[str] = []
    system, request = unlearn("ssd", changed={"alpha": 1e9}, report=lines.append)
    assert request.facts["dampened"] == 0
    assert same(weights(system), weights(original("ssd")))
    messages = "\n".join(lines)
    assert "warning" in messages
    assert "alpha < 1 / rate = 5.6" in messages


def test_the_result_of_ssd_does_not_depend_on_the_seed() -> None:
    first, _ = unlearn("ssd", seed=0, changed={"alpha": 1.5})
    second, _ = unlearn("ssd", seed=1, changed={"alpha": 1.5})
    assert same(weights(first), weights(second))


def test_the_forget_set_comes_after_the_retain_set() -> None:
    """60 retain samples in batches of 16 and 13 to forget: the fourth batch holds 12 and 4 of them, the fifth 9."""
    data, logs = recorded()
    request = make_request("ssd", data=data)
    compute_importances(fresh_copy("ssd"), JoinedSet((data["retain"], data["forget"])), request)
    assert sizes(logs["retain"]) == [16, 16, 16, 12]
    assert sizes(logs["forget"]) == [4, 9]
    assert logs["forget"][0].tolist() == world().forget_ids[:4].tolist()
