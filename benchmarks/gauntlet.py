"""Audits whose truth is known: retraining, residues, and cheaters whose answers look retrained on average.

    python -m benchmarks.gauntlet flags --audits 30 --pools 216
    python -m benchmarks.gauntlet shares --audits 300 --pools 100 286

`flags`: how often each is flagged, by how much was memorized; also as `src/munkey/audits/power.csv`, which verdicts
quote. `shares`: how often intervals of residual shares hold what is left.

Simulated margins: a sample's difficulty, the luck of each training, and what training on the sample adds, which is
little for most and much for a few. An entry is one function of a `World`, which returns what a system answers.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from munkey.audits.attacks import u_lira
from munkey.audits.attacks.residual_share import Share, residual_share
from munkey.audits.evidence import Halves, Pairs, draw_halves
from munkey.audits.power import POWER
from munkey.audits.registry import NoFinding
from munkey.audits.roc import Ranking
from munkey.audits.verdict import ALPHA, TESTS, run_joint_tests
from munkey.core.console import progress
from munkey.core.files import atomic, write_text
from munkey.report.tables.markup import TitledTable, format_mean_sd, render

LUCK = 0.18  # sd of a training's luck, in sd of difficulty
EFFECT = 0.4  # mean of what training adds, likewise
EFFECTS = (EFFECT, 0.145, 0.05)  # LiRA before deletion then has AUROCs of about 75, 65 and 56
TEST = 400
REDRAWS = 239  # the fewest that let one test of eleven flag a row at 5%
RETRAINED_AUDITS = 100  # of a cell, at least, of what is retrained: its rate is small
SETTLED = 10  # a cell whose first audits are all flagged stops there
RETRAINED = "retrained"
QUOTED = {
    "5% kept whole": "kept_whole",
    "20% left of each, its mean subtracted": "mean_subtracted",
}
BESIDE = 100  # pairs beside those that are audited, which know how much is left of a pool


@dataclass(frozen=True)
class World:
    """Margins that are known.

    usual: (N,), without luck; never: (S, N), of models that never saw the pool; added: (S, N), what training on it
    adds.
    """

    usual: np.ndarray
    never: np.ndarray
    added: np.ndarray
    halves: Halves
    generator: np.random.Generator

    def answers(self, of_deleted: np.ndarray) -> np.ndarray:
        """What is answered: `of_deleted` (S, N) where a model deleted the sample, as never seen elsewhere."""
        return np.where(self.halves.deleted, of_deleted, self.never)

    @property
    def kept(self) -> np.ndarray:
        """(S, N): as trained on."""
        return self.never + self.added

    def few(self, share: float) -> np.ndarray:
        """(N,) bool: a share of the pool, the same samples for every model."""
        order = np.random.default_rng(1).permutation(np.flatnonzero(self.halves.pool))
        chosen = np.zeros(self.never.shape[1], dtype=bool)
        chosen[order[: round(share * len(order))]] = True
        return chosen


Entry = Callable[[World], np.ndarray]
HONEST: dict[str, Entry] = {}  # must pass
RESIDUES: dict[str, Entry] = {}
CHEATERS: dict[str, Entry] = {}  # keep something of what training added
FAKES: dict[str, Entry] = {}  # make answers up, whatever training added


def simulated(
    pairs: int, pool: int, generator: np.random.Generator, effect: float = EFFECT
) -> World:
    """A world of as many pairs. effect: mean of what training adds, which has a skew: 2 times its mean is its sd."""
    number = np.arange(pool + TEST)
    halves = draw_halves(number < pool, number >= pool, pairs, generator)
    size = halves.deleted.shape
    usual = np.asarray(generator.normal(size=size[1]))
    never = usual + LUCK * generator.normal(size=size)
    added = generator.gamma(0.25, 4 * effect, size[1]) * generator.normal(1, 0.2, size)
    return World(usual, never, added, halves, generator)


def entry(kind: dict[str, Entry], words: str) -> Callable[[Entry], Entry]:
    def register(function: Entry) -> Entry:
        kind[words] = function
        return function

    return register


@entry(HONEST, RETRAINED)
def retrained(world: World) -> np.ndarray:
    return world.never


@entry(HONEST, "retrained, with luck of its own")
def retrained_anew(world: World) -> np.ndarray:
    """Retraining shares no luck with the models that did nothing."""
    return world.usual + LUCK * world.generator.normal(size=world.never.shape)


@entry(RESIDUES, "nothing done")
def nothing_done(world: World) -> np.ndarray:
    return world.answers(world.kept)


@entry(RESIDUES, "5% left of each")
def five_percent(world: World) -> np.ndarray:
    return world.answers(world.never + 0.05 * world.added)


@entry(RESIDUES, "20% left of each")
def twenty_percent(world: World) -> np.ndarray:
    return world.answers(world.never + 0.2 * world.added)


@entry(FAKES, "one answer to all that was deleted")
def constant(world: World) -> np.ndarray:
    return world.answers(np.broadcast_to(np.median(world.never), world.never.shape))


@entry(FAKES, "the answer to a random test sample")
def random_test_answer(world: World) -> np.ndarray:
    return world.answers(
        world.generator.choice(world.never[:, world.halves.test].ravel(), world.never.shape)
    )


@entry(CHEATERS, "average memory subtracted")
def average_subtracted(world: World) -> np.ndarray:
    return world.answers(world.kept - world.added[:, world.halves.pool].mean())


@entry(CHEATERS, "± 100%, the same samples in every model")
def fixed_signs(world: World) -> np.ndarray:
    return world.answers(world.never + np.where(world.few(0.5), 1, -1) * world.added)


@entry(CHEATERS, "± 100%, drawn anew for each model")
def drawn_signs(world: World) -> np.ndarray:
    return world.answers(
        world.never + world.generator.choice([-1, 1], world.never.shape) * world.added
    )


@entry(CHEATERS, "± 50%, drawn anew for each model")
def half_signs(world: World) -> np.ndarray:
    return world.answers(
        world.never + world.generator.choice([-0.5, 0.5], world.never.shape) * world.added
    )


@entry(FAKES, "raised in every other model, lowered in the rest")
def levels(world: World) -> np.ndarray:
    signs = np.resize([1, -1], len(world.never))[:, None]
    return world.answers(world.never + 0.5 * LUCK * signs)


@entry(FAKES, "the usual answer, off by as much as luck, up or down")
def fake_luck(world: World) -> np.ndarray:
    usual = world.never.mean(axis=0)
    return world.answers(usual + LUCK * world.generator.choice([-1, 1], world.never.shape))


@entry(FAKES, "luck replaced by a secret sign for each sample and pair")
def secret_sign(world: World) -> np.ndarray:
    """Whoever knows the signs reads them in the answers."""
    return world.answers(world.usual + LUCK * secret(world))


@entry(FAKES, "luck's sign replaced by a secret one")
def secret_sign_alone(world: World) -> np.ndarray:
    """As before, but as far off as luck was: in distribution, this is retraining."""
    return world.answers(world.usual + np.abs(world.never - world.usual) * secret(world))


def secret(world: World) -> np.ndarray:
    """(S, N): 1 or -1 for each sample and pair."""
    signs = world.generator.choice([-1, 1], (len(world.never) // 2, world.never.shape[1]))
    return np.repeat(signs, 2, axis=0)


@entry(CHEATERS, "20% left of each, its mean subtracted")
def fifth_without_its_mean(world: World) -> np.ndarray:
    kept = 0.2 * world.added
    return world.answers(world.never + kept - kept[:, world.halves.pool].mean())


@entry(CHEATERS, "± 30%, by class")
def signs_by_class(world: World) -> np.ndarray:
    """Ten classes, as large as each other."""
    signs = np.resize([0.3, -0.3], 10)[np.arange(world.never.shape[1]) % 10]
    return world.answers(world.never + signs * world.added)


@entry(CHEATERS, "10% kept whole, the rest pushed so that the mean is 0")
def few_kept_rest_pushed(world: World) -> np.ndarray:
    few = world.few(0.1)
    pool = world.halves.pool
    push = world.added[:, few & pool].sum() / max((world.added[:, ~few & pool]).size, 1)
    return world.answers(np.where(few, world.kept, world.never - push))


@entry(CHEATERS, "10% kept whole")
def tenth_kept(world: World) -> np.ndarray:
    return world.answers(np.where(world.few(0.1), world.kept, world.never))


@entry(CHEATERS, "5% kept whole")
def twentieth_kept(world: World) -> np.ndarray:
    return world.answers(np.where(world.few(0.05), world.kept, world.never))


@entry(CHEATERS, "2% kept whole")
def fiftieth_kept(world: World) -> np.ndarray:
    return world.answers(np.where(world.few(0.02), world.kept, world.never))


TRANSFORMS: dict[
    str, Callable[[np.ndarray], np.ndarray]
] = {  # of all that a system answers; a share stays the same
    "as it is": lambda margins: margins,
    "every margin raised by 5": lambda margins: margins + 5,
    "every margin tripled": lambda margins: 3 * margins,
    "one test answer of 10,000": lambda margins: np.where(
        np.arange(margins.shape[1]) == margins.shape[1] - 1, 1e4, margins
    ),
    "rounded to halves": lambda margins: np.round(2 * margins) / 2,
    "labels alone": lambda margins: np.where(margins > -1, 1.0, -1.0),
}
ENTRIES = HONEST | RESIDUES | CHEATERS | FAKES


def pairs_of(world: World, answer: Entry, transform: str = "as it is") -> Pairs:
    """What an audit is handed of a system that answers so, beside doing nothing."""
    return Pairs(
        TRANSFORMS[transform](answer(world)), world.halves, Pairs(nothing_done(world), world.halves)
    )


def flagged(world: World, answer: Entry, redraws: int = REDRAWS) -> list[str]:
    """The tests that find something."""
    tests = run_joint_tests(pairs_of(world, answer), world.generator, redraws)
    return [name for name in TESTS if name in tests and tests[name].p <= ALPHA]


def first_pairs(pairs: Pairs, count: int, skip: int = 0) -> Pairs:
    """Some pairs of them, with what doing nothing leaves."""
    of = slice(2 * skip, 2 * (skip + count))
    halves = Halves(pairs.halves.deleted[of], pairs.halves.absent[of], pairs.halves.test)
    return Pairs(
        pairs.margins[of], halves, pairs.nothing and first_pairs(pairs.nothing, count, skip)
    )


def shares(
    pairs: int, pool: int, audits: int, answer: Entry, transform: str = "as it is"
) -> list[tuple[Share, float]]:
    """Residual shares, each beside what is left of its pool, percent."""
    found = []
    for number in range(audits):
        every = pairs_of(
            simulated(pairs + BESIDE, pool, np.random.default_rng([number, pairs, pool])),
            answer,
            transform,
        )
        own, beside = (
            residual_share(first_pairs(every, pairs)),
            residual_share(first_pairs(every, BESIDE, pairs)),
        )
        assert isinstance(own, Share) and isinstance(beside, Share)
        found.append((own, beside.share.value))
    return found


class Cell(NamedTuple):
    """A cell of a table: what is audited, its answers changed how, on which pool, with how many pairs, how often.

    effect: mean of what training adds.
    """

    words: str
    pool: int
    pairs: int
    audits: int
    transform: str = "as it is"
    effect: float = EFFECT

    @property
    def head(self) -> str:
        return f"{self.pool} samples, {self.pairs} pairs"


class Covered(NamedTuple):
    """Residual shares; how many of 100 intervals hold what is left of the pool, and of the training set, the mean."""

    shares: list[float]
    of_pool: float
    of_training: float


class Flagged(NamedTuple):
    """The tests that flagged each audit of a cell; the AUROC of U-LiRA before deletion, mean over the audits."""

    tests: list[list[str]]
    auroc: float

    @property
    def times(self) -> int:
        return sum(map(bool, self.tests))

    @property
    def most(self) -> str:
        """The two tests that flag most, with percent of audits."""
        by_test = Counter(name for names in self.tests for name in names)
        return ", ".join(
            f"{name} {100 * times / len(self.tests):.0f}" for name, times in by_test.most_common(2)
        )


def flags(cell: Cell) -> Flagged:
    generator = np.random.default_rng([cell.pairs, cell.pool, *cell.words.encode()])
    tests = list[list[str]]()
    aurocs = list[float]()
    while len(tests) < cell.audits and not (len(tests) == SETTLED and all(tests)):
        world = simulated(cell.pairs, cell.pool, generator, cell.effect)
        tests.append(flagged(world, ENTRIES[cell.words]))
        aurocs.append(auroc_before(world))
    return Flagged(tests, float(np.mean(aurocs)))


def auroc_before(world: World) -> float:
    """U-LiRA's AUROC where nothing was done, percent."""
    before = Pairs(nothing_done(world), world.halves)
    scores = u_lira.make_scores(before)
    assert not isinstance(scores, NoFinding)
    return Ranking(*scores(before.halves.first)).compute_rates().auroc


def covered(cell: Cell) -> Covered:
    found = shares(cell.pairs, cell.pool, cell.audits, ENTRIES[cell.words], cell.transform)
    truth = float(np.mean([of_pool for _, of_pool in found]))
    held = [share.share.low <= of_pool <= share.share.high for share, of_pool in found]
    wider = [share.training.low <= truth <= share.training.high for share, _ in found]
    return Covered(
        [share.share.value for share, _ in found],
        100 * float(np.mean(held)),
        100 * float(np.mean(wider)),
    )


def run(function: Callable[[Cell], Any], cells: Iterable[Cell], jobs: int) -> dict[Cell, Any]:
    """What a function returns of each cell."""
    with ProcessPoolExecutor(jobs) as workers:
        futures = {cell: workers.submit(function, cell) for cell in dict.fromkeys(cells)}
        for future in progress(list[Future[Any]](futures.values()), "cell", "cells"):
            future.result()
    return {cell: future.result() for cell, future in futures.items()}


def all_flags(pools: list[int], pairs: list[int], audits: int, jobs: int) -> dict[Cell, Flagged]:
    """Of every cell. What makes answers up does so whatever training added, and is audited with one effect."""
    cells = []
    for words, effect, pool, count in product(ENTRIES, EFFECTS, pools, pairs):
        if words not in FAKES or effect == EFFECT:
            most = max(audits, RETRAINED_AUDITS) if words == RETRAINED else audits
            cells.append(Cell(words, pool, count, most, effect=effect))
    return run(flags, cells, jobs)


def flags_tables(results: dict[Cell, Flagged]) -> list[TitledTable]:
    """How often each is flagged: a table for each effect, and one of what makes answers up."""
    lines: dict[object, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for cell, result in results.items():
        table = "faked" if cell.words in FAKES else cell.effect
        tests = "" if cell.words in HONEST or not result.times else f" ({result.most})"
        lines[table][cell.words][cell.head] = f"{result.times} of {len(result.tests)}{tests}"
    titled = []
    for effect in EFFECTS:
        before = {}
        for cell, result in results.items():
            if cell.effect == effect and cell.words == RETRAINED:
                before[cell.head] = f"{result.auroc:.0f}"
        title = f"Training adds {effect:g}: LiRA's AUROC before deletion is {' / '.join(before.values())}"
        titled.append(TitledTable(title, _frame("What is audited", lines[effect])))
    return [
        *titled,
        TitledTable(
            "Answers made up, whatever training added", _frame("What is audited", lines["faked"])
        ),
    ]


def power_frame(results: dict[Cell, Flagged]) -> pd.DataFrame:
    """What verdicts quote (munkey.audits.power): a line for each effect, pool and number of pairs."""
    lines: dict[tuple[float, int, int], dict[str, object]] = defaultdict(dict)
    for cell, result in results.items():
        line = lines[cell.effect, cell.pool, cell.pairs]
        if cell.words == RETRAINED:
            line |= {"pool": cell.pool, "pairs": cell.pairs, "auroc": round(result.auroc, 1)}
        if cell.words in QUOTED:
            line |= {
                QUOTED[cell.words]: result.times,
                f"{QUOTED[cell.words]}_of": len(result.tests),
            }
    return pd.DataFrame(list(lines.values())).sort_values(
        ["pool", "pairs", "auroc"], ignore_index=True
    )


def shares_tables(pools: list[int], pairs: list[int], audits: int, jobs: int) -> list[TitledTable]:
    """How often intervals hold what is left, and what moves a share."""
    asked = [words for words in RESIDUES if "left" in words]
    moved = [Cell(asked[-1], pools[0], pairs[-1], audits, transform) for transform in TRANSFORMS]
    intervals = [Cell(words, *size, audits) for words in asked for size in product(pools, pairs)]
    results = run(covered, [*intervals, *moved], jobs)
    hold: dict[str, dict[str, str]] = defaultdict(dict)
    for cell in intervals:
        hold[cell.words][cell.head] = "{1:.1f} / {2:.1f}".format(*results[cell])
    of_moved = [(cell.transform, np.array(results[cell].shares)) for cell in moved]
    lines = [(words, format_mean_sd(each.mean(), each.std(ddof=1))) for words, each in of_moved]
    return [
        TitledTable(
            "95% intervals that hold what is left of the pool / of the training set",
            _frame("Percent", hold),
        ),
        TitledTable(
            f"{asked[-1]}: {moved[0].head}",
            pd.DataFrame(lines, columns=["Done to every answer", "share [%]"]),
        ),
    ]


def _frame(name: str, lines: dict[str, dict[str, str]]) -> pd.DataFrame:
    return pd.DataFrame([{name: words, **line} for words, line in lines.items()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gauntlet", description=__doc__)
    parser.add_argument("what", choices=["flags", "shares"])
    parser.add_argument("--audits", type=int, default=30, help="simulated audits of each cell")
    parser.add_argument("--pairs", type=int, nargs="+", default=[3, 4, 8])
    parser.add_argument("--pools", type=int, nargs="+", default=[216], help="samples of a pool")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    settings = (given.pools, given.pairs, given.audits, given.jobs)
    if given.what == "flags":
        results = all_flags(*settings)
        tables = flags_tables(results)
        with atomic(POWER) as file:  # a part of the package: no checksum beside it
            file.write_text(power_frame(results).to_csv(index=False))
    else:
        tables = shares_tables(*settings)
    sizes = f"--pairs {' '.join(map(str, given.pairs))} --pools {' '.join(map(str, given.pools))}"
    command = f"python -m benchmarks.gauntlet {given.what} --audits {given.audits} {sizes}"
    name = "gauntlet.md" if given.what == "flags" else "gauntlet-shares.md"
    write_text(given.folder / name, f"`{command}`\n\n{render(tables, 'markdown')}")
