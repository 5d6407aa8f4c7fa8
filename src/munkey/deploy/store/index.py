"""The index file of a generation: which rows lie near which centroid. It holds no key, and answers never rest on it.

SHA-256 of what follows, then safetensors: the names of store, generation and head of the chain when it was written;
`centroids`; `rows`, grouped by the nearest of them; `ends` of the groups. A row that is deleted stays listed, by its
number alone, until a purge or compaction. Whoever reads an index filters by `live`.
"""

import hashlib
import operator
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.deploy.store import disk
from munkey.deploy.store.ledger import Ledger

NAME, UNFINISHED = "index", "index.new"  # in the folder of a generation
DIGEST = 32  # bytes


class UnreadableIndexError(ValueError):
    """An index is damaged, or of another memory. The memory itself is not affected."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path}: {why}. The memory itself is not affected: purge removes this index, and the search is exact"
            " until Search.build makes another"
        )


class Moment(NamedTuple):
    """When an index was made. store: the memory's name; head: of its chain, after the deletion number `sequence`."""

    store: bytes
    generation: int
    sequence: int
    head: bytes


@dataclass(frozen=True)
class Index:
    """Rows by lists. covered: all live rows below this number are listed, and none from it on.

    centroids: (L, d) float32; rows: (M,) int32, list after list; ends: (L,) int64, where each list ends in `rows`.
    """

    moment: Moment
    covered: int
    centroids: np.ndarray
    rows: np.ndarray
    ends: np.ndarray

    def members(self, number: int) -> np.ndarray:
        """The rows of a list."""
        return self.rows[self.ends[number - 1] if number else 0 : self.ends[number]]

    def without(self, gone: np.ndarray, moment: Moment) -> "Index":
        """Without the rows where gone (N,) is true."""
        kept = ~gone[self.rows]
        ends = np.concatenate([[0], np.cumsum(kept)])[self.ends]
        return replace(self, moment=moment, rows=self.rows[kept], ends=ends)

    def compacted(self, kept: np.ndarray, moment: Moment) -> "Index":
        """After only the rows `kept`, ascending, were copied to a new generation."""
        gone = np.ones(max(self.covered, int(kept.max(initial=0)) + 1), dtype=bool)
        gone[kept] = False
        less = self.without(gone, moment)
        rows, covered = np.searchsorted(kept, less.rows), np.searchsorted(kept, self.covered)
        return replace(less, rows=rows.astype(np.int32), covered=int(covered))

    def write(self, folder: Path) -> None:
        """Write it into the folder of a generation, where it takes the place of an older one, whole."""
        from safetensors.numpy import save

        numbers = np.array([self.covered, self.moment.generation, self.moment.sequence])
        names = {"store": np.frombuffer(self.moment.store, "u1"), "head": np.frombuffer(self.moment.head, "u1")}
        content = save(names | {"numbers": numbers, "centroids": self.centroids, "rows": self.rows, "ends": self.ends})
        file = disk.open_file(folder / UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            disk.write(file, hashlib.sha256(content).digest() + content, 0)
            disk.sync(file)
        finally:
            os.close(file)
        (folder / UNFINISHED).replace(folder / NAME)
        disk.sync_folder(folder)


def now(ledger: Ledger) -> Moment:
    state, last = ledger.state(), ledger.last()
    return Moment(state.store, state.generation, last.sequence, last.head)


def read_index(folder: Path, ledger: Ledger) -> Index | None:
    """The index of a generation; None where there is none.

    Raises UnreadableIndexError where it is damaged, or was made from another memory, generation or chain of deletions.
    """
    path = folder / NAME
    try:
        with os.fdopen(disk.open_file(path, os.O_RDONLY), "rb") as file:
            index = parsed(path, file.read())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableIndexError(path, f"cannot be read ({error.strerror})") from error
    state, moment = ledger.state(), index.moment
    if (moment.store, moment.generation) != (state.store, state.generation):
        raise UnreadableIndexError(path, "made from another memory, or from another generation of this one")
    if ledger.head_at(moment.sequence) != moment.head:
        raise UnreadableIndexError(path, "made from a memory with other deletions, e.g. from a newer copy of this one")
    if index.covered > state.rows or index.centroids.shape[1] != state.key_width:
        raise UnreadableIndexError(path, "it does not fit this memory's rows")
    return index


def trim(folder: Path, ledger: Ledger, live: np.ndarray) -> None:
    """Take deleted rows out of the index of a generation. One that cannot be read, or is unfinished, is removed."""
    (folder / UNFINISHED).unlink(missing_ok=True)
    try:
        index = read_index(folder, ledger)
    except UnreadableIndexError:
        if not (folder / NAME).is_dir():  # that is somebody else's
            (folder / NAME).unlink()
            disk.sync_folder(folder)
        return
    if index is not None and not live[index.rows].all():
        index.without(~live, now(ledger)).write(folder)


def carry(source: Path, target: Path, ledger: Ledger, kept: np.ndarray, generation: int) -> None:
    """Write an index for a new generation, of only the rows `kept`. One that cannot be read stays behind."""
    with suppress(UnreadableIndexError):
        if (index := read_index(source, ledger)) is not None:
            index.compacted(kept, now(ledger)._replace(generation=generation)).write(target)


def parsed(path: Path, content: bytes) -> Index:
    """An index whose lists and centroids make sense."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if hashlib.sha256(content[DIGEST:]).digest() != content[:DIGEST]:
        raise UnreadableIndexError(path, "damaged: it is not what was written")
    try:
        parts = load(content[DIGEST:])
        covered, generation, sequence = map(operator.index, parts["numbers"].tolist())
        moment = Moment(parts["store"].tobytes(), generation, sequence, parts["head"].tobytes())
        index = Index(moment, covered, parts["centroids"], parts["rows"], parts["ends"])
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise UnreadableIndexError(path, f"damaged ({error})") from error
    if not sensible(index):
        raise UnreadableIndexError(path, "its lists make no sense")
    return index


def sensible(index: Index) -> bool:
    """Whether each row stands in one list at most, and centroids are finite."""
    centroids, rows, ends = index.centroids, index.rows, index.ends
    forms = [(part.dtype.name, part.ndim) for part in (centroids, rows, ends)]
    if forms != [("float32", 2), ("int32", 1), ("int64", 1)] or not len(centroids) == len(ends) > 0:
        return False
    steps = np.diff(ends, prepend=0)
    within = rows.min(initial=0) >= 0 and rows.max(initial=-1) < index.covered
    once = len(np.unique(rows)) == len(rows)
    return bool(within and once and steps.min() >= 0 and ends[-1] == len(rows) and np.isfinite(centroids).all())
