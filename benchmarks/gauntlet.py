"""Simulated audits with a known truth: retraining, residues, and cheaters.

    python -m benchmarks.gauntlet flags --audits 30 --pools 216
    python -m benchmarks.gauntlet shares --audits 300 --pools 100 286

`flags` measures how often each system is flagged, by how much was memorized. It also writes
`src/munkey/audits/power.csv`, which verdicts quote. `shares` measures how often the intervals of
residual shares contain the true share.

A simulated margin is the sum of a sample's difficulty, the luck of a training, and the effect of
training on the sample, which is small for most samples and large for a few. An entry is a function
that returns the margins (S, N) of a system in a `World`. Cheaters keep some of the effects, but
look retrained on average.
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


class Kind(NamedTuple):
    """What differs between simulated worlds.

    Attributes
    ----------
    effects
        Mean effects of training, chosen so that LiRA's AUROC before deletion is about that in
        ABOUT.
    spread
        The standard deviation of the effects, divided by their mean.
    tails
        The degrees of freedom of the luck (Student's t, which has heavy tails); None: it is normal.
    shared
        The share of the luck's variance that the two models of a pair have in common.
    """

    effects: tuple[float, ...]
    spread: float = 2
    tails: int | None = None
    shared: float = 0


LUCK = 0.18  # standard deviation of a training's luck; that of difficulty is 1
PLAIN = "memory varies twice as much as its mean"
NARROW = "memory varies as much as its mean"
KINDS = {
    PLAIN: Kind((0.4, 0.145, 0.05)),
    NARROW: Kind((0.22, 0.115), spread=1),
    "luck has heavy tails": Kind((0.38, 0.13), tails=3),
    "partners share half of their luck": Kind((0.45, 0.15), shared=0.5),
}
ABOUT = (75, 65, 56)  # LiRA's AUROC before deletion with each of the effects
EFFECTS = KINDS[PLAIN].effects
EFFECT = EFFECTS[0]  # mean effect of training, in the unit of LUCK
TEST = 400  # test samples
CLASSES = 10
REDRAWS = 239  # the smallest number with which one of eleven tests can flag an audit at 5%
RETRAINED_AUDITS = 100  # minimum for retraining, because it is rarely flagged
SETTLED = 10  # a cell stops after this number of audits if all of them were flagged
RETRAINED = "retrained"
QUOTED = {
    "5% kept whole": "kept_whole",
    "20% left of each, its mean subtracted": "mean_subtracted",
}
BESIDE = 100  # further pairs, which determine the true share of a pool


@dataclass(frozen=True)
class World:
    """Simulated margins.

    Attributes
    ----------
    usual
        (N,): margins without luck.
    never
        (S, N): margins of models that never saw the pool.
    added
        (S, N): the effects of training on the pool.
    """

    usual: np.ndarray
    never: np.ndarray
    added: np.ndarray
    halves: Halves
    generator: np.random.Generator

    def answers(self, of_deleted: np.ndarray) -> np.ndarray:
        """Return `of_deleted` (S, N) where a model deleted the sample, and `never` elsewhere."""
        return np.where(self.halves.deleted, of_deleted, self.never)

    @property
    def kept(self) -> np.ndarray:
        """(S, N): margins of models that were trained on the samples."""
        return self.never + self.added

    @property
    def classes(self) -> np.ndarray:
        """(N,): the class of each sample; all are of about the same size."""
        return np.arange(self.never.shape[1]) % CLASSES

    def few(self, share: float) -> np.ndarray:
        """Choose a share of the pool: (N,) bool, the same samples for every model."""
        order = np.random.default_rng(1).permutation(np.flatnonzero(self.halves.pool))
        chosen = np.zeros(self.never.shape[1], dtype=bool)
        chosen[order[: round(share * len(order))]] = True
        return chosen


Entry = Callable[[World], np.ndarray]
HONEST: dict[str, Entry] = {}  # entries that must pass
RESIDUES: dict[str, Entry] = {}  # keep a share of every effect
CHEATERS: dict[str, Entry] = {}  # keep some effects, or parts of them, but hide this
FAKES: dict[str, Entry] = {}  # make answers up that do not depend on the effects
MISSED: dict[str, Entry] = {}  # cheaters that audits often miss


def simulated(
    pairs: int,
    pool: int,
    generator: np.random.Generator,
    effect: float = EFFECT,
    kind: Kind = KINDS[PLAIN],
) -> World:
    """Simulate a world.

    Parameters
    ----------
    pairs
        Number of pairs of models.
    pool
        Number of samples in the pool.
    effect
        Mean effect of training. The effects of most samples are smaller, and those of a few larger.
    """
    number = np.arange(pool + TEST)
    halves = draw_halves(number < pool, number >= pool, pairs, generator)
    shape = halves.deleted.shape
    usual = np.asarray(generator.normal(size=shape[1]))
    never = usual + LUCK * draw_luck(kind, shape, generator)
    # A gamma distribution with this mean and spread
    memory = generator.gamma(kind.spread**-2, kind.spread**2 * effect, shape[1])
    added = memory * generator.normal(1, 0.2, shape)
    return World(usual, never, added, halves, generator)


def draw_luck(kind: Kind, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Draw the luck (S, N) of all models, with standard deviation 1."""

    def draw(size: tuple[int, ...]) -> np.ndarray:
        if kind.tails is None:
            return np.asarray(generator.normal(size=size))
        return generator.standard_t(kind.tails, size) / (kind.tails / (kind.tails - 2)) ** 0.5

    luck = draw(shape)
    if kind.shared:
        of_pairs = draw((shape[0] // 2, *shape[1:])).repeat(2, axis=0)
        luck = (1 - kind.shared) ** 0.5 * luck + kind.shared**0.5 * of_pairs
    return luck


def entry(kind: dict[str, Entry], words: str) -> Callable[[Entry], Entry]:
    """Register the decorated function as an entry of a kind, described by `words`."""

    def register(function: Entry) -> Entry:
        kind[words] = function
        return function

    return register


@entry(HONEST, RETRAINED)
def retrained(world: World) -> np.ndarray:
    return world.never


@entry(HONEST, "retrained, with luck of its own")
def retrained_anew(world: World) -> np.ndarray:
    """The luck is drawn again, so it differs from that of the models that did nothing."""
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
    """Anyone who knows the signs can read them from the answers."""
    return world.answers(world.usual + LUCK * secret(world))


@entry(FAKES, "luck's sign replaced by a secret one")
def secret_sign_alone(world: World) -> np.ndarray:
    """As `secret_sign`, but luck keeps its size, so the distribution is that of retraining."""
    return world.answers(world.usual + np.abs(world.never - world.usual) * secret(world))


def secret(world: World) -> np.ndarray:
    """Draw a sign for each sample and pair: (S, N), 1 or -1."""
    signs = world.generator.choice([-1, 1], (len(world.never) // 2, world.never.shape[1]))
    return np.repeat(signs, 2, axis=0)


@entry(CHEATERS, "20% left of each, its mean subtracted")
def fifth_without_its_mean(world: World) -> np.ndarray:
    kept = 0.2 * world.added
    return world.answers(world.never + kept - kept[:, world.halves.pool].mean())


@entry(CHEATERS, "± 30%, by class")
def signs_by_class(world: World) -> np.ndarray:
    signs = np.resize([0.3, -0.3], CLASSES)[world.classes]
    return world.answers(world.never + signs * world.added)


@entry(MISSED, "each class's mean memory left, less the mean of all")
def class_means_left(world: World) -> np.ndarray:
    memory = np.where(world.halves.pool, world.added, 0)
    kept = average_by_class(memory, world) - world.added[:, world.halves.pool].mean()
    return world.answers(world.never + kept)


@entry(MISSED, "each class's sum kept, which shifts all its answers")
def class_sums_kept(world: World) -> np.ndarray:
    """A model that deletes rows, but not their part of a sum, shifts other samples as well."""
    return world.never + average_by_class(np.where(world.halves.deleted, world.added, 0), world)


@entry(MISSED, "half of each memory moved to a similar sample")
def half_moved(world: World) -> np.ndarray:
    """The similar sample is the next of the same class. It may be deleted, too, or never seen."""
    moved = 0.5 * np.where(world.halves.deleted, world.added, 0)
    pool = np.flatnonzero(world.halves.pool)
    to = np.roll(pool, -CLASSES)
    answers = world.never.copy()
    answers[:, to] += moved[:, pool]
    return answers


@entry(MISSED, "luck larger where memory was, as large on average")
def luck_follows_memory(world: World) -> np.ndarray:
    scale = 1 + 0.25 * world.added / world.added.mean()
    scale = scale / (scale[:, world.halves.pool] ** 2).mean() ** 0.5
    return world.answers(world.usual + scale * (world.never - world.usual))


@entry(MISSED, "luck's sign tells whether a secret partner was deleted")
def partner_sign(world: World) -> np.ndarray:
    """As `secret_sign_alone`, but the sign reveals whether another sample was deleted."""
    pool = np.flatnonzero(world.halves.pool)
    partners = np.arange(world.never.shape[1])
    partners[pool] = np.roll(pool, 1)
    signs = np.where(world.halves.deleted[:, partners], 1, -1)
    return world.answers(world.usual + np.abs(world.never - world.usual) * signs)


def average_by_class(values: np.ndarray, world: World) -> np.ndarray:
    """Average values (S, N) over the pool's samples of each class: (S, N), equal in a class."""
    averages = np.zeros_like(values)
    for label in range(CLASSES):
        members = world.classes == label
        averages[:, members] = values[:, members & world.halves.pool].mean(axis=1, keepdims=True)
    return averages


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


# Transformations of all answers of a system, which should not change a residual share.
TRANSFORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as it is": lambda margins: margins,
    "every margin raised by 5": lambda margins: margins + 5,
    "every margin tripled": lambda margins: 3 * margins,
    "one test answer of 10,000": lambda margins: np.where(
        np.arange(margins.shape[1]) == margins.shape[1] - 1, 1e4, margins
    ),
    "rounded to halves": lambda margins: np.round(2 * margins) / 2,
    "labels alone": lambda margins: np.where(margins > -1, 1.0, -1.0),
}
ENTRIES = HONEST | RESIDUES | CHEATERS | FAKES | MISSED


def pairs_of(world: World, answer: Entry, transform: str = "as it is") -> Pairs:
    """Return the input of an audit: the margins of an entry, and of doing nothing."""
    margins = TRANSFORMS[transform](answer(world))
    return Pairs(margins, world.halves, Pairs(nothing_done(world), world.halves))


def flagged(world: World, answer: Entry, redraws: int = REDRAWS) -> list[str]:
    """Return the names of the tests that flag an entry."""
    tests = run_joint_tests(pairs_of(world, answer), world.generator, redraws)
    return [name for name in TESTS if name in tests and tests[name].p <= ALPHA]


def first_pairs(pairs: Pairs, count: int, skip: int = 0) -> Pairs:
    """Select `count` pairs, after skipping `skip` pairs, also of the systems that did nothing."""
    rows = slice(2 * skip, 2 * (skip + count))
    halves = Halves(pairs.halves.deleted[rows], pairs.halves.absent[rows], pairs.halves.test)
    return Pairs(
        pairs.margins[rows], halves, pairs.nothing and first_pairs(pairs.nothing, count, skip)
    )


def shares(
    pairs: int, pool: int, audits: int, answer: Entry, transform: str = "as it is"
) -> list[tuple[Share, float]]:
    """Measure the residual shares of simulated audits.

    Each comes with the true share of its pool in percent, as measured with further pairs.
    """
    measured = []
    for number in range(audits):
        world = simulated(pairs + BESIDE, pool, np.random.default_rng([number, pairs, pool]))
        all_pairs = pairs_of(world, answer, transform)
        audited = residual_share(first_pairs(all_pairs, pairs))
        reference = residual_share(first_pairs(all_pairs, BESIDE, pairs))
        assert isinstance(audited, Share) and isinstance(reference, Share)
        measured.append((audited, reference.share.value))
    return measured


class Cell(NamedTuple):
    """A cell of a table: simulated audits of an entry.

    Attributes
    ----------
    words
        The description of the entry.
    pool
        Number of samples in the pool.
    pairs
        Number of pairs of models.
    audits
        Number of audits.
    transform
        The transformation of the entry's answers.
    effect
        Mean effect of training.
    kind
        The kind of world, by its words in KINDS.
    """

    words: str
    pool: int
    pairs: int
    audits: int
    transform: str = "as it is"
    effect: float = EFFECT
    kind: str = PLAIN

    @property
    def head(self) -> str:
        return f"{self.pool} samples, {self.pairs} pairs"


class Covered(NamedTuple):
    """Residual shares of a cell's audits, and how often their intervals contain the truth.

    Attributes
    ----------
    shares
        The residual shares.
    of_pool
        The percentage of intervals for the pool that contain the pool's true share.
    of_training
        The percentage of intervals for the training set that contain the mean true share.
    """

    shares: list[float]
    of_pool: float
    of_training: float


class Flagged(NamedTuple):
    """The results of a cell's audits.

    Attributes
    ----------
    tests
        The names of the tests that flagged each audit.
    auroc
        The AUROC of U-LiRA before deletion, averaged over the audits.
    """

    tests: list[list[str]]
    auroc: float

    @property
    def times(self) -> int:
        """The number of flagged audits."""
        return sum(map(bool, self.tests))

    @property
    def most(self) -> str:
        """The two tests that flag the most audits, with their percentages."""
        by_test = Counter(name for names in self.tests for name in names)
        return ", ".join(
            f"{name} {100 * times / len(self.tests):.0f}" for name, times in by_test.most_common(2)
        )


def flags(cell: Cell) -> Flagged:
    """Run the audits of a cell, but only the first SETTLED ones if those are all flagged.

    Audits of the same entry, pool and number of pairs share their random numbers at all effects and
    in all kinds of worlds. Do not pool them: they are not independent.
    """
    generator = np.random.default_rng([cell.pairs, cell.pool, *cell.words.encode()])
    tests: list[list[str]] = []
    aurocs: list[float] = []
    while len(tests) < cell.audits and not (len(tests) == SETTLED and all(tests)):
        world = simulated(cell.pairs, cell.pool, generator, cell.effect, KINDS[cell.kind])
        tests.append(flagged(world, ENTRIES[cell.words]))
        aurocs.append(auroc_before(world))
    return Flagged(tests, float(np.mean(aurocs)))


def auroc_before(world: World) -> float:
    """Compute U-LiRA's AUROC before deletion, in percent."""
    before = Pairs(nothing_done(world), world.halves)
    scores = u_lira.make_scores(before)
    assert not isinstance(scores, NoFinding)
    return Ranking(*scores(before.halves.first)).compute_rates().auroc


def covered(cell: Cell) -> Covered:
    """Measure the residual shares of a cell, and how often their intervals contain the truth."""
    measured = shares(cell.pairs, cell.pool, cell.audits, ENTRIES[cell.words], cell.transform)
    mean_truth = float(np.mean([truth for _, truth in measured]))
    is_pool_covered = []
    is_training_covered = []
    for share, truth in measured:
        is_pool_covered.append(share.share.low <= truth <= share.share.high)
        is_training_covered.append(share.training.low <= mean_truth <= share.training.high)
    return Covered(
        shares=[share.share.value for share, _ in measured],
        of_pool=100 * float(np.mean(is_pool_covered)),
        of_training=100 * float(np.mean(is_training_covered)),
    )


def run(function: Callable[[Cell], Any], cells: Iterable[Cell], jobs: int) -> dict[Cell, Any]:
    """Call a function with each cell, in parallel processes. Returns the results by cell."""
    with ProcessPoolExecutor(jobs) as workers:
        futures = {cell: workers.submit(function, cell) for cell in dict.fromkeys(cells)}
        for future in progress(list[Future[Any]](futures.values()), "cell", "cells"):
            future.result()
    return {cell: future.result() for cell, future in futures.items()}


def all_flags(pools: list[int], pairs: list[int], audits: int, jobs: int) -> dict[Cell, Flagged]:
    """Run the audits of all cells.

    Fakes do not depend on the effects, so they are audited with only one mean effect. The entries
    that verdicts quote are audited in all kinds of worlds, those that are often missed only in a
    kind that is harder than PLAIN.
    """
    cells = []
    for words, effect, pool, pair_count in product(ENTRIES, EFFECTS, pools, pairs):
        if words in MISSED or (words in FAKES and effect != EFFECT):
            continue
        audit_count = max(audits, RETRAINED_AUDITS) if words == RETRAINED else audits
        cells.append(Cell(words, pool, pair_count, audit_count, effect=effect))
    for words, name, pool, pair_count in product(QUOTED, KINDS, pools, pairs):
        for effect in KINDS[name].effects:
            cells.append(Cell(words, pool, pair_count, audits, effect=effect, kind=name))
    for words, pool, pair_count in product(MISSED, pools, pairs):
        cells.append(
            Cell(words, pool, pair_count, audits, effect=KINDS[NARROW].effects[0], kind=NARROW)
        )
    return run(flags, cells, jobs)


def flags_tables(results: dict[Cell, Flagged]) -> list[TitledTable]:
    """Make the tables of how often entries are flagged.

    There is one for each effect, one for fakes, one for cheaters that audits miss, and one for the
    other kinds of worlds.
    """
    lines: dict[object, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for cell, result in results.items():
        tests = "" if cell.words in HONEST or not result.times else f" ({result.most})"
        text = f"{result.times} of {len(result.tests)}{tests}"
        if cell.words in FAKES:
            lines["faked"][cell.words][cell.head] = text
        elif cell.words in MISSED:
            lines["missed"][cell.words][cell.head] = text
        elif cell.kind != PLAIN:
            level = KINDS[cell.kind].effects.index(cell.effect)
            row = f"{cell.words}: {cell.kind}, AUROC {ABOUT[level]}"
            lines["other worlds"][row][cell.head] = text
        else:
            lines[cell.effect][cell.words][cell.head] = text
    tables = []
    for effect in EFFECTS:
        aurocs = {}
        for cell, result in results.items():
            if cell.effect == effect and cell.words == RETRAINED:
                aurocs[cell.head] = f"{result.auroc:.0f}"
        title = f"Training adds {effect:g}: LiRA's AUROC before deletion is {' / '.join(aurocs.values())}"
        tables.append(TitledTable(title, _frame("What is audited", lines[effect])))
    titles = {
        "faked": "Answers made up, whatever training added",
        "missed": f"Cheaters that audits often miss: {NARROW}, AUROC {ABOUT[0]}",
        "other worlds": "Other worlds, by LiRA's AUROC before deletion",
    }
    for name, title in titles.items():
        tables.append(TitledTable(title, _frame("What is audited", lines[name])))
    return tables


def power_frame(results: dict[Cell, Flagged]) -> pd.DataFrame:
    """Make the table that verdicts quote, with a row for each AUROC, pool and number of pairs.

    Each number is that of the kind of world in which an entry is flagged least often. The AUROC is
    the largest of all kinds, so that no audit quotes the power of an easier one. The smallest AUROC,
    at which audits find little, is simulated in only one kind, and left out.
    """
    quoted: dict[tuple[int, int, int], dict[str, list[Flagged]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for cell, result in results.items():
        if cell.words in QUOTED:
            level = KINDS[cell.kind].effects.index(cell.effect)
            if level < len(KINDS[NARROW].effects):
                quoted[level, cell.pool, cell.pairs][QUOTED[cell.words]].append(result)
    lines = []
    for (_, pool, pairs), by_entry in quoted.items():
        aurocs = [
            result.auroc for results_of_entry in by_entry.values() for result in results_of_entry
        ]
        line: dict[str, object] = {"pool": pool, "pairs": pairs, "auroc": round(max(aurocs), 1)}
        for name, results_of_entry in by_entry.items():
            least = min(results_of_entry, key=lambda result: result.times / len(result.tests))
            line |= {name: least.times, f"{name}_of": len(least.tests)}
        lines.append(line)
    return pd.DataFrame(lines).sort_values(["pool", "pairs", "auroc"], ignore_index=True)


def shares_tables(pools: list[int], pairs: list[int], audits: int, jobs: int) -> list[TitledTable]:
    """Make two tables: how often intervals contain the truth, and shares by transformation."""
    residues = [words for words in RESIDUES if "left" in words]
    interval_cells = []
    for words, pool, pair_count in product(residues, pools, pairs):
        interval_cells.append(Cell(words, pool, pair_count, audits))
    transform_cells = []
    for transform in TRANSFORMS:
        transform_cells.append(Cell(residues[-1], pools[0], pairs[-1], audits, transform))
    results = run(covered, [*interval_cells, *transform_cells], jobs)
    coverage: dict[str, dict[str, str]] = defaultdict(dict)
    for cell in interval_cells:
        result = results[cell]
        coverage[cell.words][cell.head] = f"{result.of_pool:.1f} / {result.of_training:.1f}"
    lines = []
    for cell in transform_cells:
        values = np.array(results[cell].shares)
        lines.append((cell.transform, format_mean_sd(values.mean(), values.std(ddof=1))))
    return [
        TitledTable(
            "95% intervals that hold what is left of the pool / of the training set",
            _frame("Percent", coverage),
        ),
        TitledTable(
            f"{residues[-1]}: {transform_cells[0].head}",
            pd.DataFrame(lines, columns=["Done to every answer", "share [%]"]),
        ),
    ]


def _frame(name: str, lines: dict[str, dict[str, str]]) -> pd.DataFrame:
    """Make a table whose first column, called `name`, contains the keys of `lines`."""
    return pd.DataFrame([{name: words, **line} for words, line in lines.items()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gauntlet", description=__doc__)
    parser.add_argument("what", choices=["flags", "shares"])
    parser.add_argument("--audits", type=int, default=30, help="simulated audits per cell")
    parser.add_argument("--pairs", type=int, nargs="+", default=[3, 4, 8])
    parser.add_argument("--pools", type=int, nargs="+", default=[216], help="samples in a pool")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    settings = (given.pools, given.pairs, given.audits, given.jobs)
    if given.what == "flags":
        results = all_flags(*settings)
        tables = flags_tables(results)
        # The file belongs to the package, so it gets no checksum.
        with atomic(POWER) as file:
            file.write_text(power_frame(results).to_csv(index=False))
    else:
        tables = shares_tables(*settings)
    sizes = f"--pairs {' '.join(map(str, given.pairs))} --pools {' '.join(map(str, given.pools))}"
    command = f"python -m benchmarks.gauntlet {given.what} --audits {given.audits} {sizes}"
    name = "gauntlet.md" if given.what == "flags" else "gauntlet-shares.md"
    write_text(given.folder / name, f"`{command}`\n\n{render(tables, 'markdown')}")
