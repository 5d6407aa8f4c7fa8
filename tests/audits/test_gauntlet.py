"""The gauntlet: whoever cheats is flagged, on simulated margins and on those of small networks; who retrains passes."""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from benchmarks import gauntlet
from benchmarks.gauntlet import (
    CHEATERS,
    EFFECTS,
    ENTRIES,
    FAKES,
    HONEST,
    KINDS,
    MISSED,
    NARROW,
    QUOTED,
    REDRAWS,
    TRANSFORMS,
    Cell,
    Flagged,
    World,
    flagged,
    flags_tables,
    pairs_of,
    power_frame,
    simulated,
)
from munkey.audits.attacks.residual_share import residual_share
from munkey.audits.evidence import Halves, draw_halves

POOL = 286
EIGHT = pytest.param(8, marks=pytest.mark.ci)  # pairs of models; takes longest
AUDITS = 4
SIMULATED = {  # too small a mark for networks
    "10% kept whole",
    "raised in every other model, lowered in the rest",
    "luck replaced by a secret sign for each sample and pair",
    "20% left of each, its mean subtracted",
    "± 30%, by class",
}
HARD = {  # found less often than in nine of ten audits: the kept table says how often
    "5% kept whole",
    "2% kept whole",
    "luck's sign replaced by a secret one",
}
FOUND = sorted((CHEATERS | FAKES).keys() - HARD)


def audit_worlds(words, audits, pairs, pool=POOL, effect=gauntlet.EFFECT):
    """The tests that flag an entry, in each of some simulated audits."""
    flags = []
    for seed in range(audits):
        world = simulated(pairs, pool, np.random.default_rng(seed), effect)
        flags.append(flagged(world, ENTRIES[words], REDRAWS))
    return flags


@pytest.mark.parametrize("pairs", [3, 4])
@pytest.mark.parametrize("words", FOUND)
def test_cheaters_are_flagged(words, pairs):
    flags = audit_worlds(words, AUDITS, pairs)
    assert sum(map(bool, flags)) >= AUDITS - 1


def test_a_twentieth_that_is_kept_by_eight_pairs_is_flagged():
    flags = audit_worlds("5% kept whole", 8, pairs=8)
    assert sum(map(bool, flags)) >= 7


@pytest.mark.parametrize("pairs", [3, EIGHT])
@pytest.mark.parametrize("words", HONEST)
def test_retraining_passes(pairs, words):
    flags = audit_worlds(words, 12, pairs)
    assert sum(map(bool, flags)) <= 5  # by chance 1 of 2,000 more


@pytest.mark.parametrize("pairs", [3, 4, EIGHT])
def test_a_residue_without_its_mean_is_found_by_memory_where_less_was_memorized(pairs):
    """With LiRA's AUROC at 65 before deletion; the ten tests of before found it in 24, 8 and 5 of 30 audits."""
    words = "20% left of each, its mean subtracted"
    flags = audit_worlds(words, 12, pairs, pool=216, effect=EFFECTS[1])
    assert sum(map(bool, flags)) >= {8: 10, 4: 6, 3: 4}[pairs]
    names = [name for tests in flags for name in tests]
    assert names.count("memory") >= names.count("square")


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_world_has_the_properties_of_its_name(name):
    kind = KINDS[name]
    world = simulated(50, 200, np.random.default_rng(0), effect=0.3, kind=kind)
    luck = (world.never - world.usual) / gauntlet.LUCK
    assert luck.std() == pytest.approx(1, abs=0.1)
    memory = world.added.mean(axis=0)
    assert memory.mean() == pytest.approx(0.3, rel=0.2)
    assert memory.std() / memory.mean() == pytest.approx(kind.spread, rel=0.25)
    assert np.corrcoef(luck[::2].ravel(), luck[1::2].ravel())[0, 1] == pytest.approx(
        kind.shared, abs=0.03
    )
    # Of a normal variable, 0.27% is beyond 3; of Student's t with 3 degrees of freedom, 1.4%.
    assert (np.abs(luck) > 3).mean() == pytest.approx(0.014 if kind.tails else 0.0027, abs=0.001)


def test_half_of_each_deleted_memory_moves_to_a_similar_sample():
    world = simulated(3, 40, np.random.default_rng(0))
    moved = ENTRIES["half of each memory moved to a similar sample"](world) - world.never
    deleted = world.halves.deleted
    np.testing.assert_allclose(moved[:, 10:40], 0.5 * (world.added * deleted)[:, :30])
    np.testing.assert_allclose(moved[:, :10], 0.5 * (world.added * deleted)[:, 30:40])
    assert not moved[:, 40:].any()


def test_a_kept_class_sum_shifts_all_answers_of_the_class_equally():
    world = simulated(3, 40, np.random.default_rng(0))
    shift = ENTRIES["each class's sum kept, which shifts all its answers"](world) - world.never
    for label in range(10):
        of_class = shift[:, world.classes == label]
        np.testing.assert_allclose(of_class, of_class[:, :1].repeat(of_class.shape[1], axis=1))
        rows = (world.added * world.halves.deleted)[:, label:40:10]
        np.testing.assert_allclose(of_class[:, 0], rows.mean(axis=1))


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_transform_of_all_answers_does_not_change_a_share(transform):
    world = simulated(8, 1000, np.random.default_rng(0))
    for words, near in {"retrained": 4, "20% left of each": 4, "nothing done": 10}.items():
        plain = residual_share(pairs_of(world, ENTRIES[words], "as it is")).share
        changed = residual_share(pairs_of(world, ENTRIES[words], transform)).share
        if transform != "labels alone":
            assert changed.value == pytest.approx(plain.value, abs=near)
        # labels show little of a small residue, and more of that than of a large one
        elif "left" not in words:
            assert changed.low < plain.value < changed.high


@cache
def networks(pairs: int = 8, hidden: int = 32, steps: int = 150) -> World:
    """Real margins, of networks that are trained on their half of a pool of digits, and of others on neither half.

    Every sixth label is wrong: a network has to remember such a sample.
    """
    generator = np.random.default_rng(0)
    torch_generator = torch.Generator().manual_seed(0)
    digits = load_digits()
    order = generator.permutation(len(digits.target))[:1200]
    images = torch.tensor(digits.data[order] / 16)
    labels = torch.tensor(digits.target[order])
    labels = torch.where(torch.tensor(generator.random(1200) < 1 / 6), (labels + 1) % 10, labels)
    number = np.arange(1200)
    halves = draw_halves(number < POOL, number >= 800, pairs, generator)
    common = torch.tensor((number >= POOL) & (number < 800))
    # doing nothing, retrained
    is_trained_on = torch.cat([common | torch.tensor(halves.deleted), common.expand(2 * pairs, -1)])
    parameters = []
    for inputs, outputs in ((64, hidden), (hidden, 10)):
        weight = torch.randn(len(is_trained_on), inputs, outputs, generator=torch_generator)
        parameters.append((weight / inputs**0.5).requires_grad_())
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    inputs = images.float().expand(len(is_trained_on), -1, -1)
    for _ in range(steps):
        logits = torch.relu(inputs @ parameters[0]) @ parameters[1]
        loss = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), labels.expand(len(is_trained_on), -1), reduction="none"
        )
        optimizer.zero_grad()
        (loss * is_trained_on).sum().div(is_trained_on[0].sum()).backward()
        optimizer.step()
    with torch.no_grad():
        logits = (torch.relu(inputs @ parameters[0]) @ parameters[1]).double()
    true = logits[:, torch.arange(1200), labels]
    others = logits.clone()
    others[:, torch.arange(1200), labels] = -torch.inf
    nothing, never = (true - others.logsumexp(dim=2)).numpy().reshape(2, 2 * pairs, 1200)
    added = np.where(halves.deleted, nothing - never, 0)
    return World(never.mean(axis=0), never, added, halves, generator)


def some(world: World, pairs: int, seed: int) -> World:
    """Some pairs of them, drawn."""
    drawn = np.random.default_rng(seed).choice(len(world.never) // 2, pairs, replace=False)
    models = (2 * drawn[:, None] + [0, 1]).ravel()
    halves = Halves(world.halves.deleted[models], world.halves.absent[models], world.halves.test)
    return World(world.usual, world.never[models], world.added[models], halves, world.generator)


@pytest.mark.parametrize("pairs", [3, 4, EIGHT])
@pytest.mark.parametrize("words", ["nothing done", *sorted(set(FOUND) - SIMULATED)])
def test_cheaters_are_flagged_among_small_networks(words, pairs):
    assert flagged(some(networks(), pairs, pairs), ENTRIES[words], REDRAWS)


def test_retrained_networks_pass():
    flags = 0
    for pairs in (3, 4, 5, 6, 7, 8):
        flags += bool(flagged(some(networks(), pairs, pairs), ENTRIES["retrained"], 299))
    assert flags <= 1


def test_a_cell_stops_when_all_of_its_first_audits_are_flagged(monkeypatch):
    monkeypatch.setattr(gauntlet, "SETTLED", 2)
    monkeypatch.setattr(gauntlet, "REDRAWS", 239)
    settled = gauntlet.flags(Cell("nothing done", 40, 3, 5))
    assert len(settled.tests) == settled.times == 2
    assert 60 < settled.auroc < 90
    assert len(gauntlet.flags(Cell("retrained", 40, 3, 3)).tests) == 3


def cells_of(table, words):
    """The cells of a row, without its name."""
    return table.frame.set_index("What is audited").loc[words].tolist()


def test_the_tables_say_how_often_each_entry_is_flagged_by_how_much_was_memorized():
    sizes = [(40, 3), (40, 8)]
    results = {}
    for words in ENTRIES:
        for effect in EFFECTS[: 1 if words in FAKES | MISSED else 3]:
            for pool, pairs in sizes:
                cell = Cell(words, pool, pairs, 4, effect=effect)
                results[cell] = Flagged([["share", "few"], ["few"], [], []], 50 + 60 * effect)
    # In another world, what is quoted is flagged less often, although more was memorized.
    for words in QUOTED:
        for level, effect in enumerate(KINDS[NARROW].effects):
            for pool, pairs in sizes:
                cell = Cell(words, pool, pairs, 4, effect=effect, kind=NARROW)
                results[cell] = Flagged([["few"], [], [], []], 80 - level)
    much, some, little, faked, missed, other = flags_tables(results)
    assert set(missed.frame["What is audited"]) == MISSED.keys()
    assert cells_of(other, f"5% kept whole: {NARROW}, AUROC 65") == ["1 of 4 (few 25)"] * 2
    assert much.title == "Training adds 0.4: LiRA's AUROC before deletion is 74 / 74"
    assert little.title.endswith("is 53 / 53")
    assert set(faked.frame["What is audited"]) == FAKES.keys()
    assert set(some.frame["What is audited"]) == ENTRIES.keys() - (FAKES | MISSED).keys()
    assert list(some.frame.columns[1:]) == ["40 samples, 3 pairs", "40 samples, 8 pairs"]
    assert cells_of(some, "5% kept whole") == ["2 of 4 (few 50, share 25)"] * 2
    assert cells_of(some, "retrained") == ["2 of 4"] * 2
    frame = power_frame(results)
    assert frame[["pool", "pairs", "auroc"]].to_numpy().tolist() == [
        [40, 3, 79.0],
        [40, 3, 80.0],
        [40, 8, 79.0],
        [40, 8, 80.0],
    ]
    assert set(frame["kept_whole"]) == {1}
    assert set(frame["mean_subtracted_of"]) == {4}


def test_the_tables_of_shares_say_how_often_intervals_hold_what_is_left(monkeypatch):
    monkeypatch.setattr(gauntlet, "BESIDE", 4)
    coverage, moved = gauntlet.shares_tables([40], [3], audits=2, jobs=1)
    assert coverage.frame.shape == (2, 2)
    assert moved.frame.iloc[:, 0].tolist() == list(TRANSFORMS)
