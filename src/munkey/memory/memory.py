"""The memory as an immutable value: one row per sample, sorted by id.

Dropping rows copies a mask of one byte per row, and adding rows appends to arrays with spare room.
So neither copies the keys: of 1,000,000 rows x 384, they take 1.5 GB.
"""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from munkey.core.ids import NO_LABEL, NO_NEIGHBOR
from munkey.memory.rows import DIGEST, copy_first_halves

PACK_SHARE = 10  # a memory is packed when one of so many rows is dead


class Columns(NamedTuple):
    """The columns of N rows.

    Attributes
    ----------
    ids : ndarray of int64, shape (N,)
        Ids of the samples.
    keys, tokens : ndarray of float32, shape (N, d) and (N, m)
        Key and token of each row.
    labels : ndarray of int64, shape (N,)
        The class index of each row, or NO_LABEL.
    units, files : ndarray of object, shape (N,)
        The unit of each row, such as a person, and its source file. None for a row without one.
    contents : ndarray of uint8, shape (N, 16)
        Digests that are equal for identical contents.
    added : ndarray of int64, shape (N,)
        When each row was added, in microseconds since 1970, UTC.
    numbers : ndarray of int64, shape (N,)
        Row numbers. No other row ever gets the number of a deleted row.
    """

    ids: np.ndarray
    keys: np.ndarray
    tokens: np.ndarray
    labels: np.ndarray
    units: np.ndarray
    files: np.ndarray
    contents: np.ndarray
    added: np.ndarray
    numbers: np.ndarray

    def take(self, rows: np.ndarray | slice) -> "Columns":
        """Return some rows: a copy for an array of positions, a view for a slice."""
        return Columns(*(column[rows] for column in self))


def make_columns(  # noqa: PLR0913  # the columns of a row
    ids: np.ndarray,
    keys: np.ndarray,
    tokens: np.ndarray,
    labels: np.ndarray | None = None,
    units: np.ndarray | None = None,
    files: np.ndarray | None = None,
    contents: np.ndarray | None = None,
    added: np.ndarray | None = None,
    numbers: np.ndarray | None = None,
) -> Columns:
    """Return the columns of rows, with defaults for those that are None.

    Raises ValueError if their lengths differ.
    """
    count = len(ids)
    columns = Columns(
        ids=ids,
        keys=keys,
        tokens=tokens,
        labels=np.full(count, NO_LABEL) if labels is None else labels,
        units=np.full(count, None) if units is None else units,
        files=np.full(count, None) if files is None else files,
        contents=np.zeros((count, DIGEST), np.uint8) if contents is None else contents,
        added=np.zeros(count, np.int64) if added is None else added,
        numbers=np.arange(1, count + 1) if numbers is None else numbers,
    )
    lengths = {name: len(column) for name, column in columns._asdict().items()}
    if set(lengths.values()) != {count}:
        raise ValueError(f"the memory's columns need one value for each of {count} ids: {lengths}")
    return columns


def make_room(count: int, key_width: int, token_width: int) -> Columns:
    """Return uninitialized columns for `count` rows and a quarter more.

    The operating system provides the spare memory only when rows are written there.
    """
    size = count + count // 4 + 64
    return Columns(
        ids=np.empty(size, np.int64),
        keys=np.empty((size, key_width), np.float32),
        tokens=np.empty((size, token_width), np.float32),
        labels=np.empty(size, np.int64),
        units=np.empty(size, object),
        files=np.empty(size, object),
        contents=np.empty((size, DIGEST), np.uint8),
        added=np.empty(size, np.int64),
        numbers=np.empty(size, np.int64),
    )


class _Shared:
    """Columns with spare room, which all memories share that were derived from one another.

    A row that a memory has is never changed. Of the memories that share the columns, only the
    newest can append rows to them.
    """

    def __init__(self, columns: Columns, count: int) -> None:
        """columns: from `make_room`, whose first `count` rows were written."""
        self.columns = columns
        self.count = count
        # The positions of the rows in the order of their numbers.
        self.by_number = np.empty(len(columns.ids), np.int64)
        self.by_number[:count] = np.argsort(columns.numbers[:count], kind="stable")
        self._lock = threading.Lock()
        self._longest_key = 0.0
        self._measured_count = 0  # rows whose keys `_longest_key` covers

    def append(self, rows: Columns, start: int) -> bool:
        """Append rows, sorted by id, after the first `start` rows.

        Their numbers must be larger than all others. Returns False, and does nothing, if the rows
        have no room here.
        """
        stop = start + len(rows.ids)
        with self._lock:
            if self.count != start or stop > len(self.columns.ids):
                return False
            if start and len(rows.ids) and rows.ids[0] <= self.columns.ids[start - 1]:
                return False
            for column, added in zip(self.columns, rows, strict=True):
                column[start:stop] = added
            order = np.argsort(rows.numbers, kind="stable")
            self.by_number[start:stop] = start + order
            self.count = stop
            return True

    def bound_keys(self) -> float:
        """Return an upper bound on the norms of all keys."""
        with self._lock:
            new_keys = self.columns.keys[self._measured_count : self.count]
            self._longest_key = max(self._longest_key, bound_length(new_keys))
            self._measured_count = self.count
            return self._longest_key


@dataclass(frozen=True, eq=False)
class Memory:
    """One row per sample, sorted by id. It never changes: its methods return another memory.

    Its columns may still contain dead rows, which were dropped: `live` is false for them. All
    methods take and return positions in the columns. `pack` returns a memory without dead rows.

    Attributes
    ----------
    columns : Columns
        All rows, live and dead, by ascending id. They can only be read.
    live : ndarray of bool, shape (N,)
        Whether each row is in the memory.
    next_number : int
        The number of the next row that is added without one.
    """

    _shared: _Shared
    columns: Columns
    live: np.ndarray
    next_number: int
    _live_count: int

    @classmethod
    def create(cls, columns: Columns, next_number: int = 1) -> Self:
        """Return a memory of some rows, in any order.

        Raises ValueError if an id occurs more than once.
        """
        count = len(columns.ids)
        room = make_room(count, columns.keys.shape[1], columns.tokens.shape[1])
        order: np.ndarray | slice = slice(None)  # needs no further copy
        if not _is_ascending(columns.ids):
            order = np.argsort(columns.ids, kind="stable")
        for column, values in zip(room, columns.take(order), strict=True):
            column[:count] = values
        return cls.adopt(room, count, next_number)

    @classmethod
    def adopt(cls, room: Columns, count: int, next_number: int = 1) -> Self:
        """Return a memory of the first `count` rows of columns from `make_room`, without a copy.

        Raises ValueError unless they are sorted by id, and every id occurs once.
        """
        ids = room.ids[:count]
        if not _is_ascending(ids):
            repeated = np.sort(ids)[:-1][np.diff(np.sort(ids)) == 0]
            raise ValueError(f"these ids occur more than once: {np.unique(repeated)[:10].tolist()}")
        last_number = int(room.numbers[:count].max(initial=0))
        next_number = max(next_number, last_number + 1)
        return cls._of(_Shared(room, count), np.ones(count, bool), next_number)

    @classmethod
    def _of(cls, shared: _Shared, live: np.ndarray, next_number: int) -> Self:
        """Return the first rows of shared columns as a memory. live: (N,) bool."""
        # Views that cannot be written, of exactly this memory's rows.
        columns = Columns(*(_freeze(column[: len(live)]) for column in shared.columns))
        return cls(shared, columns, _freeze(live), next_number, int(np.count_nonzero(live)))

    def __len__(self) -> int:
        return self._live_count

    @property
    def ids(self) -> np.ndarray:
        """Ids of all rows, live and dead: (N,) int64, ascending."""
        return self.columns.ids

    @property
    def keys(self) -> np.ndarray:
        """Keys of all rows, live and dead: (N, d) float32."""
        return self.columns.keys

    @property
    def tokens(self) -> np.ndarray:
        """Tokens of all rows, live and dead: (N, m) float32."""
        return self.columns.tokens

    @property
    def labels(self) -> np.ndarray:
        """Class indices of all rows, live and dead: (N,) int64."""
        return self.columns.labels

    @property
    def longest_key(self) -> float:
        """An upper bound on the norms of the keys."""
        return self._shared.bound_keys()

    @cached_property
    def live_rows(self) -> np.ndarray:
        """Positions of the live rows, ascending."""
        return np.flatnonzero(self.live)

    # Finding rows

    def find_rows(self, ids: np.ndarray) -> np.ndarray:
        """Return the live row of each id (any shape), or NO_NEIGHBOR for an unknown id."""
        positions = np.searchsorted(self.ids, ids)
        return self._select_known(positions, self.ids, ids)

    def find_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """Return the live row with each row number (M,), or NO_NEIGHBOR if there is none."""
        order = self._shared.by_number[: len(self.live)]
        places = np.searchsorted(self.columns.numbers, numbers, sorter=order)
        positions = np.take(order, places, mode="clip") if len(order) else places
        return self._select_known(positions, self.columns.numbers, numbers)

    def _select_known(
        self, positions: np.ndarray, column: np.ndarray, wanted: np.ndarray
    ) -> np.ndarray:
        """Return the positions where a live row has the wanted value, and NO_NEIGHBOR elsewhere."""
        if not len(column):
            return np.full(np.shape(wanted), NO_NEIGHBOR)
        positions = np.minimum(positions, len(column) - 1)
        is_known = (column[positions] == wanted) & self.live[positions]
        return np.where(is_known, positions, NO_NEIGHBOR)

    def find_contents(self, contents: np.ndarray) -> np.ndarray:
        """Return the live rows whose content is one of these (M, 16), ascending."""
        # Compare the first 8 bytes as integers first: a millisecond for N = 10^6 and M = 1.
        halves = self.columns.contents.view("<u8")[:, 0]
        candidates = np.flatnonzero(np.isin(halves, copy_first_halves(contents)) & self.live)
        contents_to_find = {content.tobytes() for content in contents}
        candidate_contents = self.columns.contents[candidates]
        is_same = [content.tobytes() in contents_to_find for content in candidate_contents]
        return candidates[np.array(is_same, dtype=bool)]

    def find_copies(self, rows: np.ndarray) -> np.ndarray:
        """Return other live rows that have the content of any of these rows, ascending."""
        return np.setdiff1d(self.find_contents(self.columns.contents[rows]), rows)

    def find_units(self, units: Collection[str]) -> np.ndarray:
        """Return the live rows of these units, ascending."""
        return self._find_texts(self.columns.units, units)

    def find_files(self, files: Collection[str]) -> np.ndarray:
        """Return the live rows from these source files, ascending."""
        return self._find_texts(self.columns.files, files)

    def _find_texts(self, column: np.ndarray, texts: Collection[str]) -> np.ndarray:
        is_found = np.zeros(len(column), dtype=bool)
        if len(texts) == 1:
            [text] = texts
            is_found = column == text
        elif texts:
            texts_to_find = set(texts)
            is_found = np.fromiter((text in texts_to_find for text in column), bool, len(column))
        return np.flatnonzero(is_found & self.live)

    # Changing rows

    def drop(self, rows: np.ndarray) -> "Memory":
        """Return a memory without these rows, which shares the columns of this one.

        It is packed if a tenth of its rows is dead.
        """
        live = self.live.copy()
        live[rows] = False
        # Counting all rows would take twice as long as the copy.
        dropped_count = int(np.count_nonzero(self.live[np.unique(rows)]))
        remaining = replace(self, live=_freeze(live), _live_count=len(self) - dropped_count)
        dead_count = len(live) - len(remaining)
        if dead_count * PACK_SHARE > len(live):
            return remaining.pack()
        return remaining

    def add(self, rows: Columns) -> "Memory":
        """Return a memory with these rows as well, in any order.

        The rows share the columns of this memory if their ids and numbers are larger than all
        others. Raises ValueError if an id is already in the memory, or occurs more than once.
        """
        order = np.argsort(rows.ids, kind="stable")
        rows = rows.take(order)
        if not _is_ascending(rows.ids):
            raise ValueError("an id occurs more than once among the rows to add")
        is_present = self.find_rows(rows.ids) != NO_NEIGHBOR
        if is_present.any():
            present_ids = rows.ids[is_present].tolist()
            raise ValueError(f"these ids are already in the memory: {present_ids[:10]}")
        start = len(self.live)
        last_number = int(rows.numbers.max(initial=self.next_number - 1))
        has_new_numbers = int(rows.numbers.min(initial=self.next_number)) >= self.next_number
        if has_new_numbers and self._shared.append(rows, start):
            live = np.ones(start + len(rows.ids), dtype=bool)
            live[:start] = self.live
            return Memory._of(self._shared, live, last_number + 1)
        parts = zip(self.columns.take(self.live_rows), rows, strict=True)
        merged = Columns(*(np.concatenate(columns) for columns in parts))
        return Memory.create(merged, last_number + 1)

    def pack(self) -> "Memory":
        """Return the same memory without dead rows. It copies the columns if there are any."""
        if len(self) == len(self.live):
            return self
        room = make_room(len(self), self.keys.shape[1], self.tokens.shape[1])
        for column, values in zip(room, self.columns, strict=True):
            # "clip" writes directly into the room; the rows are in range.
            np.take(values, self.live_rows, axis=0, out=column[: len(self)], mode="clip")
        return Memory.adopt(room, len(self), self.next_number)

    def find_changes(self, earlier: "Memory") -> tuple[np.ndarray, np.ndarray]:
        """Compare this memory with an earlier one.

        Returns
        -------
        dropped : ndarray of int64
            Live rows of `earlier` that this memory lacks, as positions in `earlier`.
        added : ndarray of int64
            Live rows of this memory that `earlier` lacks.
        """
        if self._shared is earlier._shared:
            count = min(len(self.live), len(earlier.live))
            dropped = np.flatnonzero(earlier.live[:count] & ~self.live[:count])
            added = np.flatnonzero(self.live[:count] & ~earlier.live[:count])
            dropped_tail = count + np.flatnonzero(earlier.live[count:])
            added_tail = count + np.flatnonzero(self.live[count:])
            return np.append(dropped, dropped_tail), np.append(added, added_tail)
        return _list_missing(earlier, self), _list_missing(self, earlier)

    def __reduce__(self) -> tuple[Callable[..., "Memory"], tuple[Any, ...]]:
        # Pickles contain neither dead rows nor the spare room.
        packed = self.pack()
        return Memory.create, (Columns(*map(np.array, packed.columns)), self.next_number)


def _list_missing(memory: Memory, other: Memory) -> np.ndarray:
    """Return the live rows of a memory whose numbers another memory lacks."""
    rows = memory.live_rows
    return rows[other.find_numbers(memory.columns.numbers[rows]) == NO_NEIGHBOR]


def _is_ascending(values: np.ndarray) -> bool:
    return bool((values[1:] > values[:-1]).all())


def _freeze(array: np.ndarray) -> np.ndarray:
    """Return a view of an array that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def bound_length(keys: np.ndarray) -> float:
    """Return an upper bound on the Euclidean norms of keys (N, d)."""
    if not len(keys):
        return 0.0
    with np.errstate(over="ignore"):
        squares = np.einsum("nd,nd->n", keys, keys)
    # The margin of 1% covers float32 rounding, and 1e-17 covers squares that underflow to zero.
    return 1.01 * float(np.sqrt(squares.max())) + 1e-17
