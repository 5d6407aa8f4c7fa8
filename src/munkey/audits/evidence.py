"""What the pipeline hands an audit. Models 2p and 2p + 1 are the partners of pair p."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.audits.margins import below, normal_scores

CUTS_DIFFER = 20  # of a pool as large, no two cuts are the same by chance


@dataclass(frozen=True)
class Halves:
    """Who saw what, (S, N) bool each. deleted: what a model was trained on and then forgot; absent: what it never saw.

    test: (N,) bool; units: (N,) codes of persons, classes, …, each of which is in one half: what is left is then asked
    of each as a whole; None: of each sample. Raises ValueError where partners do not swap the halves of one pool that
    all models share, where the pool holds test samples, where a half holds a part of a unit, and where two pairs cut
    the pool alike: one was copied.
    """

    deleted: np.ndarray
    absent: np.ndarray
    test: np.ndarray
    units: np.ndarray | None = None

    def __post_init__(self) -> None:
        first, second = self.deleted[::2], self.deleted[1::2]
        if len(first) != len(second) or not len(first):
            raise ValueError(f"{len(self.deleted)} models are not pairs")
        if not (np.array_equal(first, self.absent[1::2]) and np.array_equal(second, self.absent[::2])):
            raise ValueError("what a model deleted is what its partner never saw, and the other way round")
        if (first & second).any() or ((first | second) != self.pool).any():
            raise ValueError("the halves of every pair must part the same pool")
        if (self.pool & self.test).any():
            raise ValueError(f"{(self.pool & self.test).sum()} samples of the pool are test samples")
        if not (first.any(axis=1) & second.any(axis=1)).all():
            raise ValueError("both halves of every pair need samples")
        if not np.array_equal(self.first[:, self.unit_of], self.deleted[::2, self.pool]):
            raise ValueError("a unit is in both halves of a pair")
        cuts = np.unique([np.packbits(half == half[0]) for half in self.first], axis=0)
        if self.first.shape[1] >= CUTS_DIFFER and len(cuts) < len(first):
            raise ValueError("two pairs cut the pool alike: a copied pair tells nothing that the first did not")

    @property
    def pool(self) -> np.ndarray:
        """(N,) bool."""
        return np.asarray(self.deleted.any(axis=0))

    @cached_property
    def unit_of(self) -> np.ndarray:
        """(m,) of the samples of the pool: the number of its unit, 0 to n - 1, or its own."""
        if self.units is None:
            return np.arange(self.pool.sum())
        return np.unique(self.units[self.pool], return_inverse=True)[1]

    @property
    def first(self) -> np.ndarray:
        """(P, n) bool over samples, or units, of the pool: whether model 2p deleted it; where not, model 2p + 1 did."""
        return np.asarray(self.deleted[::2, self.pool][:, np.unique(self.unit_of, return_index=True)[1]])

    def of_units(self, values: np.ndarray) -> np.ndarray:
        """(S, n): means over the samples of each unit, of values (S, m) over the samples of the pool."""
        if self.units is None:
            return values
        sizes = np.bincount(self.unit_of)
        return np.stack([np.bincount(self.unit_of, row) / sizes for row in values])


@dataclass(frozen=True)
class Pairs:
    """Models trained in pairs, on one path.

    margins: (S, N) float64, as munkey.audits.margins makes them; audits put them into units, not the caller.
    nothing: the same for doing nothing on the deployed path, of which the residual share is a share; None for doing
    nothing itself.
    """

    margins: np.ndarray
    halves: Halves
    nothing: "Pairs | None" = None

    def __post_init__(self) -> None:
        if self.margins.shape != self.halves.deleted.shape:
            raise ValueError(f"margins of shape {self.margins.shape} for halves of {self.halves.deleted.shape}")

    @property
    def count(self) -> int:
        """Number of pairs, P."""
        return len(self.margins) // 2

    @property
    def alike(self) -> bool:
        """Whether partners answer alike, to the bit, in the pool and in test."""
        margins = self.margins[:, self.halves.pool | self.halves.test]
        return np.array_equal(margins[::2], margins[1::2])

    @cached_property
    def below(self) -> np.ndarray:
        """(S, n): of each sample of the pool, how many of the model's test samples have a smaller margin.

        Of a unit, the mean over its samples.
        """
        counted = self.halves.pool | self.halves.test
        counts = below(self.margins[:, counted], self.halves.test[counted])[:, self.halves.pool[counted]]
        return self.halves.of_units(counts)

    @cached_property
    def scores(self) -> np.ndarray:
        """(S, n): margins of the pool as normal scores among each model's own test samples."""
        return normal_scores(self.below, int(self.halves.test.sum()))

    @cached_property
    def apart(self) -> np.ndarray:
        """(P, n): scores of model 2p less those of its partner, with their mean over the pool taken out."""
        apart = self.scores[::2] - self.scores[1::2]
        return np.asarray(apart - apart.mean(axis=1, keepdims=True))


class Roles(NamedTuple):
    """A value for every pair and sample of the pool, (P, n) each: of the partner that deleted it, and of the other."""

    deleted: np.ndarray
    absent: np.ndarray


def roles(values: np.ndarray, first: np.ndarray) -> Roles:
    """Values (S, n) of all models on the pool, sorted by what each model was to the sample. first: as Halves.first."""
    one, other = values[::2], values[1::2]
    return Roles(np.where(first, one, other), np.where(first, other, one))


def of_other_fold(values: np.ndarray) -> np.ndarray:
    """(P, n): for each pair, the mean of values (P, n) over the pairs of the other fold: by it, samples are chosen.

    The folds are the first half of the pairs and the rest. Were all other pairs to choose for each, any two pairs would
    choose for each other by much the same values, and intervals over pairs would be too narrow.
    """
    folds = np.array_split(values, 2)
    return np.concatenate([np.broadcast_to(folds[1 - i].mean(axis=0), own.shape) for i, own in enumerate(folds)])


def random_halves(members: np.ndarray, test: np.ndarray, pairs: int, generator: np.random.Generator) -> Halves:
    """A random half of `members` for every pair, as if it had deleted it. members, test: (N,) bool.

    For samples that no model saw: those of a sham pool, or what oracles were trained without.
    """
    rows = np.flatnonzero(members)
    deleted = np.zeros((2 * pairs, len(members)), dtype=bool)
    for pair in range(pairs):
        mixed = generator.permutation(rows)
        deleted[2 * pair, mixed[: len(rows) // 2]] = True
        deleted[2 * pair + 1, mixed[len(rows) // 2 :]] = True
    absent = deleted.reshape(pairs, 2, -1)[:, ::-1].reshape(deleted.shape)
    return Halves(deleted, absent, test)


def sham(pairs: Pairs, generator: np.random.Generator) -> Pairs:
    """The same models with a sham pool: test samples, which none of them saw, with random halves.

    It is as large as the pool, but takes no more than half of the test samples; the rest stay test samples.
    """
    test = np.flatnonzero(pairs.halves.test)
    size = min(int(pairs.halves.pool.sum()), len(test) // 2)
    members = np.zeros_like(pairs.halves.test)
    members[generator.choice(test, size=size, replace=False)] = True
    halves = random_halves(members, pairs.halves.test & ~members, pairs.count, generator)
    return Pairs(pairs.margins, halves, pairs.nothing or pairs)


@dataclass(frozen=True)
class Compared:
    """Logits on one forget set, samples in one order. unlearned: (M, n, C) of M models; oracles: (O, n, C)."""

    unlearned: np.ndarray
    oracles: np.ndarray


@dataclass(frozen=True)
class Answers:
    """One model's logits (N, C) and labels (N,); retain, forget, test: (N,) bool, which samples are which set."""

    logits: np.ndarray
    labels: np.ndarray
    retain: np.ndarray
    forget: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Curves:
    """A number after each of `steps` (T,), which ascend. system, oracle: (S, T) of S seeds, under the same steps."""

    steps: np.ndarray
    system: np.ndarray
    oracle: np.ndarray


@dataclass(frozen=True)
class Shipped:
    """What leaves the house. files: files, or folders with all that is in them.

    deleted, kept: float32 rows, keys or tokens, that must not, and that must, be in there.
    deleted_ids: sample ids; listed_ids: those that the shipped memory lists, as its reader says. An id of 8 bytes
    stands in any file by chance, so ids are not searched for as bytes.
    """

    files: tuple[Path, ...]
    deleted: Sequence[np.ndarray]
    kept: Sequence[np.ndarray]
    deleted_ids: np.ndarray
    listed_ids: np.ndarray
