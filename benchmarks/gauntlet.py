"""Audits whose truth is known: retraining, residues, and cheaters whose answers look retrained on average.

    python -m benchmarks.gauntlet --audits 300 --pairs 3 4 8 --pools 100 286

Simulated margins: a sample's difficulty, the luck of each training, and what training on the sample adds, which is
little for most and much for a few. An entry is one function of a `World`, which returns what a system answers.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from munkey.audits.attacks.residual_share import Share, residual_share
from munkey.audits.evidence import Halves, Pairs, random_halves
from munkey.audits.verdict import ALPHA, TESTS, joint_tests
from munkey.core.console import progress
from munkey.core.files import write_text
from munkey.report.tables.markup import Titled, plus_minus, render

LUCK, EFFECT, TEST = 0.18, 0.4, 400  # sd of a training's luck; mean of what training adds; both in sd of difficulty
REDRAWS = 199
BESIDE = 100  # pairs beside those that are audited, which know how much is left of a pool


@dataclass(frozen=True)
class World:
    """Margins (S, N) that are known. never: of models that never saw the pool; added: what training on it adds."""

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
        """(N,) bool: the same samples for every model."""
        return np.asarray(np.random.default_rng(1).random(self.never.shape[1]) < share)


Entry = Callable[[World], np.ndarray]
HONEST: dict[str, Entry] = {}  # must pass
RESIDUES: dict[str, Entry] = {}
CHEATERS: dict[str, Entry] = {}


def simulated(pairs: int, pool: int, generator: np.random.Generator) -> World:
    """A world of as many pairs. What training adds has a skew: 2 times its mean is its sd."""
    number = np.arange(pool + TEST)
    halves = random_halves(number < pool, number >= pool, pairs, generator)
    size = halves.deleted.shape
    never = generator.normal(size=size[1]) + LUCK * generator.normal(size=size)
    added = generator.gamma(0.25, 4 * EFFECT, size[1]) * generator.normal(1, 0.2, size)
    return World(never, added, halves, generator)


def entry(kind: dict[str, Entry], words: str) -> Callable[[Entry], Entry]:
    def register(function: Entry) -> Entry:
        kind[words] = function
        return function

    return register


@entry(HONEST, "retrained")
def retrained(world: World) -> np.ndarray:
    return world.never


@entry(RESIDUES, "nothing done")
def nothing_done(world: World) -> np.ndarray:
    return world.answers(world.kept)


@entry(RESIDUES, "5 % left of each")
def five_percent(world: World) -> np.ndarray:
    return world.answers(world.never + 0.05 * world.added)


@entry(RESIDUES, "20 % left of each")
def twenty_percent(world: World) -> np.ndarray:
    return world.answers(world.never + 0.2 * world.added)


@entry(CHEATERS, "one answer to all that was deleted")
def constant(world: World) -> np.ndarray:
    return world.answers(np.broadcast_to(np.median(world.never), world.never.shape))


@entry(CHEATERS, "the answer to a random test sample")
def random_test_answer(world: World) -> np.ndarray:
    return world.answers(world.generator.choice(world.never[:, world.halves.test].ravel(), world.never.shape))


@entry(CHEATERS, "average memory subtracted")
def average_subtracted(world: World) -> np.ndarray:
    return world.answers(world.kept - world.added[:, world.halves.pool].mean())


@entry(CHEATERS, "± 100 %, the same samples in every model")
def fixed_signs(world: World) -> np.ndarray:
    return world.answers(world.never + np.where(world.few(0.5), 1, -1) * world.added)


@entry(CHEATERS, "± 100 %, drawn anew for each model")
def drawn_signs(world: World) -> np.ndarray:
    return world.answers(world.never + world.generator.choice([-1, 1], world.never.shape) * world.added)


@entry(CHEATERS, "± 50 %, drawn anew for each model")
def half_signs(world: World) -> np.ndarray:
    return world.answers(world.never + world.generator.choice([-0.5, 0.5], world.never.shape) * world.added)


@entry(CHEATERS, "raised in every other model, lowered in the rest")
def levels(world: World) -> np.ndarray:
    signs = np.resize([1, -1], len(world.never))[:, None]
    return world.answers(world.never + 0.5 * LUCK * signs)


@entry(CHEATERS, "the usual answer, off by as much as luck, up or down")
def fake_luck(world: World) -> np.ndarray:
    usual = world.never.mean(axis=0)
    return world.answers(usual + LUCK * world.generator.choice([-1, 1], world.never.shape))


@entry(CHEATERS, "10 % kept whole, the rest pushed so that the mean is 0")
def few_kept_rest_pushed(world: World) -> np.ndarray:
    few = world.few(0.1)
    pool = world.halves.pool
    push = world.added[:, few & pool].sum() / max((world.added[:, ~few & pool]).size, 1)
    return world.answers(np.where(few, world.kept, world.never - push))


@entry(CHEATERS, "10 % kept whole")
def tenth_kept(world: World) -> np.ndarray:
    return world.answers(np.where(world.few(0.1), world.kept, world.never))


@entry(CHEATERS, "5 % kept whole")
def twentieth_kept(world: World) -> np.ndarray:
    return world.answers(np.where(world.few(0.05), world.kept, world.never))


@entry(CHEATERS, "2 % kept whole")
def fiftieth_kept(world: World) -> np.ndarray:
    return world.answers(np.where(world.few(0.02), world.kept, world.never))


TRANSFORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # of all that a system answers; a share stays the same
    "as it is": lambda margins: margins,
    "every margin raised by 5": lambda margins: margins + 5,
    "every margin tripled": lambda margins: 3 * margins,
    "one test answer of 10,000": lambda margins: np.where(
        np.arange(margins.shape[1]) == margins.shape[1] - 1, 1e4, margins
    ),
    "rounded to halves": lambda margins: np.round(2 * margins) / 2,
    "labels alone": lambda margins: np.where(margins > -1, 1.0, -1.0),
}
ENTRIES = HONEST | RESIDUES | CHEATERS


def pairs_of(world: World, answer: Entry, transform: str = "as it is") -> Pairs:
    """What an audit is handed of a system that answers so, beside doing nothing."""
    return Pairs(TRANSFORMS[transform](answer(world)), world.halves, Pairs(nothing_done(world), world.halves))


def flagged(world: World, answer: Entry, redraws: int = REDRAWS) -> list[str]:
    """The tests that find something."""
    tests = joint_tests(pairs_of(world, answer), world.generator, redraws)
    return [name for name in TESTS if name in tests and tests[name].p <= ALPHA]


def first_pairs(pairs: Pairs, count: int, skip: int = 0) -> Pairs:
    """Some pairs of them, with what doing nothing leaves."""
    of = slice(2 * skip, 2 * (skip + count))
    halves = Halves(pairs.halves.deleted[of], pairs.halves.absent[of], pairs.halves.test)
    return Pairs(pairs.margins[of], halves, pairs.nothing and first_pairs(pairs.nothing, count, skip))


def shares(pairs: int, pool: int, audits: int, answer: Entry, transform: str = "as it is") -> list[tuple[Share, float]]:
    """Residual shares, each beside what is left of its pool, percent."""
    found = []
    for number in range(audits):
        every = pairs_of(
            simulated(pairs + BESIDE, pool, np.random.default_rng([number, pairs, pool])), answer, transform
        )
        own, beside = residual_share(first_pairs(every, pairs)), residual_share(first_pairs(every, BESIDE, pairs))
        assert isinstance(own, Share) and isinstance(beside, Share)
        found.append((own, beside.share.value))
    return found


class Cell(NamedTuple):
    """A cell of a table: what is audited, its answers changed how, on which pool, with how many pairs, how often."""

    words: str
    pool: int
    pairs: int
    audits: int
    transform: str = "as it is"

    @property
    def head(self) -> str:
        return f"{self.pool} samples, {self.pairs} pairs"


class Covered(NamedTuple):
    """Residual shares; how many of 100 intervals hold what is left of the pool, and of the training set, the mean."""

    shares: list[float]
    of_pool: float
    of_training: float


def flags(cell: Cell) -> list[list[str]]:
    generator = np.random.default_rng([cell.pairs, cell.pool, *cell.words.encode()])
    return [flagged(simulated(cell.pairs, cell.pool, generator), ENTRIES[cell.words]) for _ in range(cell.audits)]


def covered(cell: Cell) -> Covered:
    found = shares(cell.pairs, cell.pool, cell.audits, ENTRIES[cell.words], cell.transform)
    truth = float(np.mean([of_pool for _, of_pool in found]))
    held = [share.share.low <= of_pool <= share.share.high for share, of_pool in found]
    wider = [share.training.low <= truth <= share.training.high for share, _ in found]
    return Covered([share.share.value for share, _ in found], 100 * float(np.mean(held)), 100 * float(np.mean(wider)))


def tables(pools: list[int], pairs: list[int], audits: int, jobs: int) -> list[Titled]:
    """How often a system is flagged, how often intervals hold what is left, and what moves a share."""
    sizes, asked = list(product(pools, pairs)), [words for words in RESIDUES if "left" in words]
    moved = [Cell(asked[-1], pools[0], pairs[-1], audits, transform) for transform in TRANSFORMS]
    with ProcessPoolExecutor(jobs) as workers:
        tests = [Cell(words, *size, audits) for words in ENTRIES for size in sizes]
        tested = {cell: workers.submit(flags, cell) for cell in tests}
        intervals = [*(Cell(words, *size, audits) for words in asked for size in sizes), *moved]
        held = {cell: workers.submit(covered, cell) for cell in dict.fromkeys(intervals)}
        for future in progress(list[Future[Any]]([*tested.values(), *held.values()]), "cell", "cells"):
            future.result()
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for cell, each in tested.items():
        by_test = Counter(name for names in each.result() for name in names)
        most = ", ".join(f"{name} {100 * times / audits:.0f}" for name, times in by_test.most_common(2))
        of_all = f"{100 * sum(map(bool, each.result())) / audits:.1f}"
        found[cell.words][cell.head] = of_all if cell.words in HONEST or not most else f"{of_all} ({most})"
    hold: dict[str, dict[str, str]] = defaultdict(dict)
    for cell, future in held.items():
        if cell.transform == "as it is":
            hold[cell.words][cell.head] = "{1:.1f} / {2:.1f}".format(*future.result())
    of_moved = [(cell.transform, np.array(held[cell].result().shares)) for cell in moved]
    lines = [(words, plus_minus(each.mean(), each.std(ddof=1))) for words, each in of_moved]
    return [
        Titled("Flagged, percent of audits (by the two tests that flag most)", _frame("What is audited", found)),
        Titled("95 % intervals that hold what is left of the pool / of the training set", _frame("Percent", hold)),
        Titled(f"{asked[-1]}: {moved[0].head}", pd.DataFrame(lines, columns=["Done to every answer", "share [%]"])),
    ]


def _frame(name: str, lines: dict[str, dict[str, str]]) -> pd.DataFrame:
    return pd.DataFrame([{name: words, **line} for words, line in lines.items()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gauntlet", description=__doc__)
    parser.add_argument("--audits", type=int, default=300, help="simulated audits of each cell")
    parser.add_argument("--pairs", type=int, nargs="+", default=[3, 4, 8])
    parser.add_argument("--pools", type=int, nargs="+", default=[100, 286], help="samples of a pool")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, default=Path("docs/results/gauntlet.md"))
    given = parser.parse_args()
    text = render(tables(given.pools, given.pairs, given.audits, given.jobs), "markdown")
    sizes = f"--pairs {' '.join(map(str, given.pairs))} --pools {' '.join(map(str, given.pools))}"
    write_text(given.write, f"`python -m benchmarks.gauntlet --audits {given.audits} {sizes}`\n\n{text}")
