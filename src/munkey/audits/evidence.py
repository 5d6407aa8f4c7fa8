"""The evidence that audits use. Models 2p and 2p + 1 are the partners of pair p."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.audits.margins import compute_normal_scores, count_below

# From this pool size on, two pairs practically never have the same halves by chance.
LARGE_POOL = 20


@dataclass(frozen=True)
class Halves:
    """Which of N samples each of S models deleted, or never saw.

    Parameters
    ----------
    deleted : ndarray of bool, shape (S, N)
        Samples that a model was trained on and then deleted.
    absent : ndarray of bool, shape (S, N)
        Samples that a model never saw.
    test : ndarray of bool, shape (N,)
        Test samples.
    units : ndarray, shape (N,), optional
        The unit of each sample, such as a person. The audit then counts units, not samples.

    Raises
    ------
    ValueError
        If the models do not form pairs, if partners do not swap two nonempty halves of a pool that
        all models share, if the pool contains test samples, if a unit is in both halves, or if two
        pairs have the same halves of a large pool, so that one must be a copy.
    """

    deleted: np.ndarray
    absent: np.ndarray
    test: np.ndarray
    units: np.ndarray | None = None

    def __post_init__(self) -> None:
        first = self.deleted[::2]
        second = self.deleted[1::2]
        if len(first) != len(second) or not len(first):
            raise ValueError(f"{len(self.deleted)} models cannot be split into pairs")
        absent_from_first = self.absent[::2]
        absent_from_second = self.absent[1::2]
        if not np.array_equal(first, absent_from_second) or not np.array_equal(
            second, absent_from_first
        ):
            raise ValueError("each model must have deleted exactly what its partner never saw")
        if (first & second).any() or ((first | second) != self.pool).any():
            raise ValueError("the halves of every pair must partition the same pool")
        if (self.pool & self.test).any():
            raise ValueError(
                f"{(self.pool & self.test).sum()} samples of the pool are test samples"
            )
        if not (first.any(axis=1) & second.any(axis=1)).all():
            raise ValueError("both halves of every pair need samples")
        if not np.array_equal(self.first[:, self.unit_index], self.deleted[::2, self.pool]):
            raise ValueError("a unit is in both halves of a pair")
        # The order of the two halves does not matter, so compare the half with the first sample.
        splits = np.unique([np.packbits(half == half[0]) for half in self.first], axis=0)
        if self.first.shape[1] >= LARGE_POOL and len(splits) < len(first):
            raise ValueError("two pairs have the same halves: a copied pair adds no information")

    @property
    def pool(self) -> np.ndarray:
        """Whether each sample is in the pool, (N,) bool."""
        return np.asarray(self.deleted.any(axis=0))

    @cached_property
    def unit_index(self) -> np.ndarray:
        """The index, 0 to n - 1, of each pool sample's unit, (m,). Without units, n equals m."""
        if self.units is None:
            return np.arange(self.pool.sum())
        return np.unique(self.units[self.pool], return_inverse=True)[1]

    @property
    def first(self) -> np.ndarray:
        """Which of the pool's n samples, or units, model 2p of each of P pairs deleted, (P, n)."""
        _, one_of_each_unit = np.unique(self.unit_index, return_index=True)
        return np.asarray(self.deleted[::2, self.pool][:, one_of_each_unit])

    def average_units(self, values: np.ndarray) -> np.ndarray:
        """Average values (S, m) of the pool's samples over each unit: (S, n)."""
        if self.units is None:
            return values
        sizes = np.bincount(self.unit_index)
        return np.stack([np.bincount(self.unit_index, row) / sizes for row in values])


@dataclass(frozen=True)
class Pairs:
    """Margins of models that were trained in pairs, on one path.

    Attributes
    ----------
    margins
        The margins (S, N) of S models for N samples (`compute_margins`), float64.
    nothing
        The pairs of doing nothing on the deployed path, the reference of the residual share; None
        for doing nothing itself.

    Raises
    ------
    ValueError
        If the margins and the halves have different shapes.
    """

    margins: np.ndarray
    halves: Halves
    nothing: "Pairs | None" = None

    def __post_init__(self) -> None:
        if self.margins.shape != self.halves.deleted.shape:
            raise ValueError(
                f"margins of shape {self.margins.shape} for halves of {self.halves.deleted.shape}"
            )

    @property
    def count(self) -> int:
        """Number of pairs, P."""
        return len(self.margins) // 2

    @property
    def partners_agree(self) -> bool:
        """Whether partners have exactly equal margins on the pool and on test samples."""
        margins = self.margins[:, self.halves.pool | self.halves.test]
        return np.array_equal(margins[::2], margins[1::2])

    @cached_property
    def pool_counts(self) -> np.ndarray:
        """For each pool sample, how many of the model's test samples have a smaller margin, (S, n).

        Ties count as half. The count of a unit is the mean over its samples.
        """
        pool = self.halves.pool
        test = self.halves.test
        is_used = pool | test
        counts = count_below(self.margins[:, is_used], test[is_used])
        return self.halves.average_units(counts[:, pool[is_used]])

    @cached_property
    def scores(self) -> np.ndarray:
        """Normal scores (S, n) of the pool's margins among each model's own test samples."""
        return compute_normal_scores(self.pool_counts, int(self.halves.test.sum()))

    @cached_property
    def differences(self) -> np.ndarray:
        """The scores of model 2p minus those of its partner, centered over the pool, (P, n)."""
        differences = self.scores[::2] - self.scores[1::2]
        return np.asarray(differences - differences.mean(axis=1, keepdims=True))


class Roles(NamedTuple):
    """Values (P, n) of the partner that deleted each sample, and of the one that never saw it."""

    deleted: np.ndarray
    absent: np.ndarray


def split_by_role(values: np.ndarray, first: np.ndarray) -> Roles:
    """Split values (S, n) of all models on the pool by each model's role.

    Parameters
    ----------
    first
        The samples (P, n) that model 2p deleted, as in `Halves.first`.
    """
    first_values = values[::2]
    second_values = values[1::2]
    return Roles(
        deleted=np.where(first, first_values, second_values),
        absent=np.where(first, second_values, first_values),
    )


def average_other_fold(values: np.ndarray) -> np.ndarray:
    """Return, for each pair, the mean of the values over the pairs of the other fold.

    Both arrays have shape (P, n). Use these means to select samples for a pair without looking at
    its own values. The folds are the first half of the pairs and the rest. With leave-one-out, the
    selections for any two pairs would depend on nearly the same values, so intervals over pairs
    would be too narrow.
    """
    first, second = np.array_split(values, 2)
    means_for_first = np.broadcast_to(second.mean(axis=0), first.shape)
    means_for_second = np.broadcast_to(first.mean(axis=0), second.shape)
    return np.concatenate([means_for_first, means_for_second])


def draw_halves(
    members: np.ndarray, test: np.ndarray, pairs: int, generator: np.random.Generator
) -> Halves:
    """Draw random halves of `members` for each pair, as if its models had deleted them.

    This is for samples that no model saw: a sham pool, or the forget set of oracles.

    Parameters
    ----------
    members, test
        Whether each sample is in the pool, and whether it is a test sample, (N,) bool.
    pairs
        The number of pairs.
    """
    rows = np.flatnonzero(members)
    deleted = np.zeros((2 * pairs, len(members)), dtype=bool)
    for pair in range(pairs):
        shuffled = generator.permutation(rows)
        deleted[2 * pair, shuffled[: len(rows) // 2]] = True
        deleted[2 * pair + 1, shuffled[len(rows) // 2 :]] = True
    return Halves(deleted, swap_partners(deleted), test)


def swap_partners(values: np.ndarray) -> np.ndarray:
    """Swap the values (S, N) of models 2p and 2p + 1, for each pair."""
    return values.reshape(-1, 2, values.shape[1])[:, ::-1].reshape(values.shape)


def draw_sham_pairs(pairs: Pairs, generator: np.random.Generator) -> Pairs:
    """Return the same models with a sham pool: random halves of test samples, which no model saw.

    The sham pool is as large as the real one, but contains at most half of the test samples. The
    others remain test samples.
    """
    test = np.flatnonzero(pairs.halves.test)
    size = min(int(pairs.halves.pool.sum()), len(test) // 2)
    members = np.zeros_like(pairs.halves.test)
    members[generator.choice(test, size=size, replace=False)] = True
    halves = draw_halves(members, pairs.halves.test & ~members, pairs.count, generator)
    return Pairs(pairs.margins, halves, pairs.nothing or pairs)


@dataclass(frozen=True)
class OracleComparison:
    """Logits on one forget set.

    Attributes
    ----------
    unlearned
        The logits (M, n, C) of M unlearned models.
    oracles
        The logits (O, n, C) of O oracles.
    """

    unlearned: np.ndarray
    oracles: np.ndarray


@dataclass(frozen=True)
class Predictions:
    """The predictions of one model.

    Parameters
    ----------
    logits : ndarray of float32, shape (N, C)
        Logits of N samples.
    labels : ndarray of int64, shape (N,)
        Their true classes.
    retain, forget, test : ndarray of bool, shape (N,)
        Whether a sample is in the retain, the forget or the test set.
    """

    logits: np.ndarray
    labels: np.ndarray
    retain: np.ndarray
    forget: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Curves:
    """A measurement of a system and of its oracle during further training.

    Attributes
    ----------
    steps
        The numbers of steps (T,) after which the two were measured, ascending.
    system, oracle
        The values (S, T) for S seeds.
    """

    steps: np.ndarray
    system: np.ndarray
    oracle: np.ndarray


@dataclass(frozen=True)
class ShippedFiles:
    """The shipped files of a system, and the rows that they must or must not contain.

    Ids are not searched for as bytes, because any file may contain their few bytes by chance.

    Attributes
    ----------
    files
        The paths of files or folders.
    deleted, remaining
        The float32 keys or tokens that the files must not contain, and those that they must.
    deleted_ids
        The ids of the deleted samples.
    listed_ids
        The ids in the shipped memory.
    """

    files: tuple[Path, ...]
    deleted: Sequence[np.ndarray]
    remaining: Sequence[np.ndarray]
    deleted_ids: np.ndarray
    listed_ids: np.ndarray
