"""Exact search: reduced products choose candidates, float64 puts them in order, a bound certifies that none is missing.

With q' and k' the rounded query and key, u the unit roundoff of the reduced numbers and T the worst candidate's
product, every other row has q.k <= T + u|T| + |k| (|q - q'| + (u + 2^-23 d) |q'|): rounding to the nearest is monotone,
|k - k'| <= u |k|, and d terms are summed in float32. Where that is not below the last neighbor's cosine, all rows are
looked at again in float32 and those that may be as near are put in order too.
"""

import time
import warnings
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from munkey.core.ids import NOBODY
from munkey.deploy.search.ranking import NearestRows, nobody, ranked
from munkey.deploy.store.matrices import MemoryView

if TYPE_CHECKING:
    import torch
    from torch import Tensor

QUERIES = 256  # at once
BLOCK = 16_384  # rows at once
FEW_QUERIES = 8  # queries that wait for the keys to be read rather than for the products
FULL = ("none", "ieee")  # torch's words for products of float32 numbers that are not rounded first
TINY = 1e-30  # far above what flushed denormals may take away


class Candidates(NamedTuple):
    """rows: for each query, (C,); limit: (Q,), below which the cosines of all other live rows lie, -inf: no others."""

    rows: list[np.ndarray]
    limit: np.ndarray


def nearest(view: MemoryView, queries: np.ndarray, depth: int, first: int = 0) -> NearestRows:
    """The nearest of the live rows from number `first` on, whatever their number; cosines in float64."""
    found = nobody(view, len(queries), depth)
    for start in range(0, len(queries), QUERIES):
        places = np.arange(start, min(start + QUERIES, len(queries)))
        found.put(places, certified(view, queries[places], depth, first))
    return found


def certified(view: MemoryView, queries: np.ndarray, depth: int, first: int) -> NearestRows:
    """The nearest rows, after a second look where the first cannot be certain."""
    candidates = scan(view, queries, 2 * depth + 48, first)
    found = ranked(view, queries, candidates.rows, depth)
    doubtful = np.flatnonzero(~((candidates.limit < found.last) | (candidates.limit == -np.inf)))
    while doubtful.size:
        last = found.last[doubtful]
        rows = within(view, queries[doubtful], last, first)
        found.put(doubtful, ranked(view, queries[doubtful], rows, depth))
        doubtful = doubtful[found.last[doubtful] < last]  # some of these were deleted meanwhile
    return found


def scan(view: MemoryView, queries: np.ndarray, count: int, first: int) -> Candidates:
    """The `count` live rows of the largest reduced products with each query."""
    import torch

    reduced = first_look() if len(queries) > FEW_QUERIES else torch.float32
    best = torch.full((len(queries), count), -torch.inf)
    rows, reach = torch.full(best.shape, NOBODY), 0.0
    for start, keys, live in blocks(view, first):
        reach = max(reach, reach_of(view, start, keys))
        scores = products(queries, keys, reduced)
        if not live.all():
            scores[:, torch.from_numpy(~live)] = -torch.inf
        top = scores.topk(min(count, len(keys)))
        best, chosen = torch.cat([best, top.values.float()], 1).topk(count)
        rows = torch.cat([rows, top.indices + start], 1).gather(1, chosen)
    worst = best[:, -1].double().numpy()
    unit = torch.finfo(reduced).eps / 2
    limit = worst * (1 + unit * np.sign(worst)) + reach * rounding(queries, reduced) + TINY
    return Candidates([line[line != NOBODY] for line in rows.numpy()], np.where(worst == -np.inf, worst, limit))


def first_look() -> "torch.dtype":
    """What many products are computed in before the best are computed again."""
    import torch

    return torch.bfloat16 if multiplies_bfloat16() else torch.float32


@cache
def multiplies_bfloat16() -> bool:
    """Whether products of bfloat16 numbers, rounding included, are faster on this machine than those of float32.

    Timed once: on some processors that have such products they are slower. Others do not have them at all, and torch
    would emulate them, hundreds of times slower.
    """
    import torch

    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    queries, keys = np.ones((QUERIES, 256), np.float32), np.ones((BLOCK, 256), np.float32)
    seconds: dict[torch.dtype, list[float]] = {torch.float32: [], torch.bfloat16: []}
    for reduced in [*seconds] * 3:
        started = time.perf_counter()
        products(queries, keys, reduced)
        seconds[reduced].append(time.perf_counter() - started)
    return min(seconds[torch.bfloat16]) < min(seconds[torch.float32])


def within(view: MemoryView, queries: np.ndarray, last: np.ndarray, first: int) -> list[np.ndarray]:
    """For each query, all live rows whose cosines may be as large as `last` (Q,): whatever float32 does not exclude."""
    import torch

    near: list[list[np.ndarray]] = [[] for _ in queries]
    for start, keys, live in blocks(view, first):
        least = last - reach_of(view, start, keys) * rounding(queries, torch.float32) - TINY
        excluded = products(queries, keys, torch.float32).numpy() < least[:, None]
        for mine, line in zip(near, ~excluded & live, strict=True):
            mine.append(start + np.flatnonzero(line))
    return [np.concatenate(mine) for mine in near]


def blocks(view: MemoryView, first: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """From where on, the keys, and a copy of `live`, of BLOCK rows after another."""
    for start in range(first, len(view.live), BLOCK):
        yield start, np.asarray(view.keys[start : start + BLOCK]), np.array(view.live[start : start + BLOCK])


def products(queries: np.ndarray, keys: np.ndarray, reduced: "torch.dtype") -> "Tensor":
    """(Q, N) in reduced numbers, summed in float32 whatever precision torch is set to.

    By torch where possible: a product by numpy between others by torch waits for torch's threads, five times as long.
    """
    import torch

    if reduced == torch.float32 and torch.backends.mkldnn.matmul.fp32_precision not in FULL:  # type: ignore[attr-defined]
        with np.errstate(over="ignore", invalid="ignore"):
            return torch.from_numpy(queries @ keys.T)
    return tensor(queries).to(reduced) @ tensor(keys).to(reduced).T


def tensor(array: np.ndarray) -> "Tensor":
    """A tensor over an array that may be read-only, e.g. a map of a file: it must only be read."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def reach_of(view: MemoryView, start: int, keys: np.ndarray) -> float:
    """No key of a block is longer than this. Computed once for a view, whose keys can only be zeroed: it takes longer
    than the products of one query.
    """
    block = start, len(keys)
    if block not in view.lengths:
        view.lengths[block] = longest(keys)
    return view.lengths[block]


def longest(keys: np.ndarray) -> float:
    """No key is longer than this."""
    return 1.001 * tensor(keys).norm(dim=1).max().item()


def rounding(queries: np.ndarray, reduced: "torch.dtype") -> np.ndarray:
    """How far a reduced product may be from the exact one, (Q,), for keys of length 1."""
    import torch

    rounded = tensor(queries).to(reduced).double().numpy()
    unit = torch.finfo(reduced).eps / 2 + queries.shape[1] * 2.0**-23
    lost = np.linalg.norm(queries - rounded, axis=1)
    return lost + unit * np.linalg.norm(rounded, axis=1)
