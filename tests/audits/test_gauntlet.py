"""The gauntlet: whoever cheats is flagged, on simulated margins and on those of small networks; who retrains passes."""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from benchmarks import gauntlet
from benchmarks.gauntlet import CHEATERS, ENTRIES, TRANSFORMS, World, flagged, pairs_of, simulated
from munkey.audits.attacks.residual_share import residual_share
from munkey.audits.evidence import Halves, random_halves

POOL, AUDITS, REDRAWS = 286, 4, 199
SIMULATED = {"10 % kept whole", "raised in every other model, lowered in the rest"}  # too small a mark for networks
HARD = {
    "5 % kept whole",
    "2 % kept whole",
    "the usual answer, off by as much as luck, up or down",
}  # found less often than in nine of ten audits: the kept table says how often


@pytest.mark.parametrize("pairs", [3, 4, 8])
@pytest.mark.parametrize("words", sorted(CHEATERS.keys() - HARD))
def test_cheaters_are_flagged(words, pairs):
    worlds = [simulated(pairs, POOL, np.random.default_rng(seed)) for seed in range(AUDITS)]
    assert sum(bool(flagged(world, CHEATERS[words], REDRAWS)) for world in worlds) >= AUDITS - 1


def test_of_eight_pairs_a_twentieth_that_is_kept_is_flagged():
    worlds = [simulated(8, POOL, np.random.default_rng(seed)) for seed in range(8)]
    assert sum(bool(flagged(world, CHEATERS["5 % kept whole"], REDRAWS)) for world in worlds) >= 7


@pytest.mark.parametrize("pairs", [3, 8])
def test_retraining_passes(pairs):
    worlds = [simulated(pairs, POOL, np.random.default_rng(seed)) for seed in range(12)]
    assert (
        sum(bool(flagged(world, ENTRIES["retrained"], REDRAWS)) for world in worlds) <= 5
    )  # by chance 1 of 2,000 more


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_what_is_done_to_every_answer_does_not_change_a_share(transform):
    world = simulated(8, 1000, np.random.default_rng(0))
    for words, near in {"retrained": 4, "20 % left of each": 4, "nothing done": 10}.items():
        plain, changed = (
            residual_share(pairs_of(world, ENTRIES[words], each)).share for each in ("as it is", transform)
        )
        if transform != "labels alone":
            assert changed.value == pytest.approx(plain.value, abs=near)
        elif "left" not in words:  # labels show little of a small residue, and more of that than of a large one
            assert changed.low < plain.value < changed.high


@cache
def networks(pairs: int = 8, hidden: int = 32, steps: int = 150) -> World:
    """Real margins, of networks that are trained on their half of a pool of digits, and of others on neither half.

    Every sixth label is wrong: a network has to remember such a sample.
    """
    generator, torch_generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    digits = load_digits()
    order = generator.permutation(len(digits.target))[:1200]
    images, labels = (torch.tensor(each[order]) for each in (digits.data / 16, digits.target))
    labels = torch.where(torch.tensor(generator.random(1200) < 1 / 6), (labels + 1) % 10, labels)
    number = np.arange(1200)
    halves = random_halves(number < POOL, number >= 800, pairs, generator)
    common = torch.tensor((number >= POOL) & (number < 800))
    seen = torch.cat([common | torch.tensor(halves.deleted), common.expand(2 * pairs, -1)])  # doing nothing, retrained
    weights = [
        torch.randn(len(seen), *shape, generator=torch_generator) / shape[0] ** 0.5
        for shape in ((64, hidden), (hidden, 10))
    ]
    parameters = [each.requires_grad_() for each in weights]
    optimizer, inputs = torch.optim.Adam(parameters, lr=0.01), images.float().expand(len(seen), -1, -1)
    for _ in range(steps):
        logits = torch.relu(inputs @ parameters[0]) @ parameters[1]
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels.expand(len(seen), -1), reduction="none")
        optimizer.zero_grad()
        (loss * seen).sum().div(seen[0].sum()).backward()
        optimizer.step()
    with torch.no_grad():
        logits = (torch.relu(inputs @ parameters[0]) @ parameters[1]).double()
    true = logits[:, torch.arange(1200), labels]
    others = logits.clone()
    others[:, torch.arange(1200), labels] = -torch.inf
    nothing, never = (true - others.logsumexp(dim=2)).numpy().reshape(2, 2 * pairs, 1200)
    return World(never, np.where(halves.deleted, nothing - never, 0), halves, generator)


def some(world: World, pairs: int, seed: int) -> World:
    """Some pairs of them, drawn."""
    drawn = np.random.default_rng(seed).choice(len(world.never) // 2, pairs, replace=False)
    models = (2 * drawn[:, None] + [0, 1]).ravel()
    halves = Halves(world.halves.deleted[models], world.halves.absent[models], world.halves.test)
    return World(world.never[models], world.added[models], halves, world.generator)


@pytest.mark.parametrize("pairs", [3, 4, 8])
@pytest.mark.parametrize("words", ["nothing done", *sorted(CHEATERS.keys() - HARD - SIMULATED)])
def test_cheaters_are_flagged_among_small_networks(words, pairs):
    assert flagged(some(networks(), pairs, pairs), ENTRIES[words], REDRAWS)


def test_networks_that_were_retrained_pass():
    found = [flagged(some(networks(), pairs, pairs), ENTRIES["retrained"], 299) for pairs in (3, 4, 5, 6, 7, 8)]
    assert sum(map(bool, found)) <= 1


def test_the_tables_say_how_often_each_is_flagged(monkeypatch):
    monkeypatch.setattr(gauntlet, "REDRAWS", 59)
    monkeypatch.setattr(gauntlet, "BESIDE", 4)
    flags, held, moved = (each.frame for each in gauntlet.tables([40], [3], audits=2, jobs=1))
    assert flags["What is audited"].tolist() == list(ENTRIES)
    assert {"retrained", "one answer to all that was deleted"} < set(ENTRIES)
    assert held.shape == (2, 2) and moved.iloc[:, 0].tolist() == list(TRANSFORMS)
    assert flags.iloc[0, 1] in {"0.0", "50.0", "100.0"}
