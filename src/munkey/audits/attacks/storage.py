"""Storage: are the numbers of a deleted key or token, or its id, still in what is shipped?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from munkey.audits.evidence import Shipped
from munkey.audits.registry import Finding, Refused, audit
from munkey.audits.unpacked import UNREADABLE, unpacked

NUMBERS, TELLING = 8, 5  # numbers in a row that are taken as its trace, and how many of them should differ
CHUNK = 1 << 22  # bytes read at a time
MIX, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(44)


@dataclass(frozen=True)
class StorageFinding(Finding):
    """rows: how many of the deleted rows were found, of how many; ids: the deleted ids that the memory still lists.

    places: the files that hold any of the rows.
    """

    rows: int
    of: int
    ids: tuple[int, ...]
    places: tuple[str, ...]


@audit(
    "storage",
    title="Storage",
    needs="models",
    definition="deleted ids, keys and tokens in files: floats, by row or column, also in zip, gzip, bzip2, xz, zlib",
    source="this project",
)
def storage(shipped: Shipped, _: np.random.Generator | None = None) -> StorageFinding | Refused:
    """A row counts as found if 8 of its numbers are, in any of four precisions, by row or by column, packed or not.

    Kept rows are the control: they must be found. Deleted rows that equal a kept one, as the keys of a picture that is
    there twice, tell nothing and are left out. Raises FileNotFoundError for a file that is not there.
    """
    gone, listed = set(shipped.deleted_ids.tolist()), set(shipped.listed_ids.tolist())
    columns = {len(gone), len(listed - gone), len(gone | listed)}
    try:
        deleted, kept = ([traces(row) for row in rows] for rows in (shipped.deleted, shipped.kept))
        known = set().union(*kept)
        found = {path: search(path, known.union(*deleted), columns) for path in files_of(shipped.files)}
    except ValueError as error:
        return Refused(str(error))
    everywhere = set().union(*found.values())
    missing = sum(everywhere.isdisjoint(each) for each in kept)
    if missing or not kept:
        return Refused(
            f"{missing} of {len(kept)} rows that were kept are not found in these files either, so this search proves"
            " nothing: are they stored in a form that is not looked for?"
        )
    leaks = [set(each) - known for each in deleted if each[0] not in known]
    rows = sum(not each.isdisjoint(everywhere) for each in leaks)
    places = tuple(str(path) for path, held in found.items() if held & set().union(*leaks))
    return StorageFinding(rows, len(leaks), tuple(sorted(gone & listed)), places)


def traces(row: np.ndarray) -> list[bytes]:
    """The bytes of 8 numbers in a row that could not stand anywhere: float32, float64, then half precisions.

    The first is not 0, and 5 that are not 0 differ. Where no 8 are like that, half precision is left out, and the rest
    is taken where most differ, one in a very sparse key. Raises ValueError for a row in which no 2 that are not 0 do.
    """
    exact = np.asarray(row, "<f4")
    if not exact[: 1 - NUMBERS].any() or _telling(exact) < 2:
        raise ValueError(f"a row of {len(row)} numbers has no {NUMBERS} in a row by which it could be recognized")
    bits = exact.view("<u4")
    brains = [(each >> 16).astype("<u2") for each in (bits, bits + 0x7FFF + (bits >> 16 & 1))]  # cut off, or rounded
    with np.errstate(over="ignore"):
        single, *halves = map(_best, (bits, exact.astype("<f2").view("<u2"), *brains))
    telling = [half for half in halves if _telling(half) >= TELLING]
    return [each.tobytes() for each in (single, single.view("<f4").astype("<f8"), *telling)]


def _best(words: np.ndarray) -> np.ndarray:
    """The first 8 in a row, from one that is not 0 on, that tell enough, or else those that tell most."""
    runs = sliding_window_view(words, NUMBERS)
    telling = np.count_nonzero(np.diff(np.sort(runs), prepend=0), axis=1) * (runs[:, 0] != 0)
    return runs[np.argmax(np.minimum(telling, TELLING))]


def _telling(part: np.ndarray) -> int:
    """How many numbers that are not 0 differ."""
    return len({*part.tolist()} - {0})


def files_of(paths: tuple[Path, ...]) -> list[Path]:
    """All files of these files and folders, each once. Raises FileNotFoundError for what is not there."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path}: not found; the storage audit needs the files that are shipped")
    inside = [each for path in paths for each in (path.rglob("*") if path.is_dir() else [path])]
    return sorted({each for each in inside if each.is_file()})


def search(path: Path, traces: set[bytes], columns: Iterable[int] = ()) -> set[bytes]:
    """Which of the traces are in the file, or packed in it, at any offset. Raises ValueError where it cannot be read.

    columns: numbers of rows; traces that tell enough are also looked for by column, in matrices of so many rows.
    """
    sought = []
    for size in 2, 4, 8:  # bytes of a number
        rows = {each for each in traces if len(each) == size * NUMBERS}
        telling = {each for each in rows if _telling(np.frombuffer(each, f"<u{size}")) >= TELLING}
        sought += [(size, 1, rows), *((size, apart, telling) for apart in {*columns} - {0, 1})]
    overlap = max(size * apart * NUMBERS for size, apart, _ in sought)
    found, last = set(), b""
    try:
        with path.open("rb") as file:
            for part in unpacked(file):
                while chunk := part.read(CHUNK):
                    found |= {each for kind in sought if kind[-1] for each in _inside(last + chunk, *kind)}
                    last = (last + chunk)[-overlap:]
    except UNREADABLE as error:
        raise ValueError(f"{path}: cannot be read, so what it holds is not known: {error}") from error
    return found


def _inside(block: bytes, size: int, apart: int, traces: set[bytes]) -> Iterator[bytes]:
    """Those of the traces, numbers of `size` bytes, whose numbers are in the block, each `apart` from the next."""
    heads = np.unique(np.frombuffer(b"".join(each[:8] for each in traces), "<u8"))
    likely = np.zeros(1 << 20, bool)  # a sieve, by a hash of 20 bits: hardly any place has the head of a trace
    likely[heads * MIX >> SHIFT] = True
    for words in (np.frombuffer(block[shift:], f"<u{size}", (len(block) - shift) // size) for shift in range(size)):
        count = max(len(words) - apart * (NUMBERS - 1), 0)
        found = np.zeros(count, "<u8")
        for number in range(8 // size):
            found |= words[number * apart :][:count].astype("<u8") << np.uint64(8 * size * number)
        starts = np.flatnonzero(likely[found * MIX >> SHIFT])
        yield from {words[at::apart][:NUMBERS].tobytes() for at in starts[np.isin(found[starts], heads)]} & traces
