"""Storage: do the shipped files still contain a deleted key or token, or list its id?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from munkey.audits.evidence import ShippedFiles
from munkey.audits.packed_files import UNREADABLE, unpack
from munkey.audits.registry import Finding, NoFinding, audit

NUMBERS = 8  # how many consecutive numbers of a row serve as its trace
# How many distinct nonzero numbers a trace should have, so that it does not occur by chance.
MIN_DISTINCT = 5
CHUNK = 1 << 22  # bytes read at a time
# Multiplicative hashing (Knuth): multiply by 2^64 / golden ratio, and keep the upper bits.
HASH_BITS = 20
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
HASH_SHIFT = np.uint64(64 - HASH_BITS)


@dataclass(frozen=True)
class StorageFinding(Finding):
    """The deleted rows and ids that files still contain.

    Attributes
    ----------
    rows
        Number of deleted rows that were found, out of `of`.
    places
        The files that contain them.
    ids
        Deleted ids that the memory still lists.
    """

    rows: int
    of: int
    ids: tuple[int, ...]
    places: tuple[str, ...]


class TraceLayout(NamedTuple):
    """How the numbers of traces lie in a file.

    Attributes
    ----------
    size
        Bytes per number.
    distance
        The distance from one number of a trace to the next, in numbers. It is 1 if a matrix is
        stored by row, and its row count if it is stored by column.
    traces
        The traces to search for in this layout.
    """

    size: int
    distance: int
    traces: set[bytes]


@audit(
    "storage",
    title="Storage",
    needs="models",
    definition=(
        "deleted ids, keys and tokens in files: floats, by row or column, also in zip, gzip,"
        " bzip2, xz, zlib"
    ),
    source="ours",
)
def storage(
    shipped: ShippedFiles, _: np.random.Generator | None = None
) -> StorageFinding | NoFinding:
    """Search files for deleted rows. As a control, all remaining rows must be found.

    A row counts as found if a file contains 8 of its consecutive numbers as float16, bfloat16,
    float32 or float64, stored by row or by column. A deleted row that equals a remaining one, such
    as the key of a duplicate picture, is not counted.

    Returns NoFinding if a file cannot be read, a row has no trace, or a remaining row is not found.
    Raises FileNotFoundError if a file does not exist.
    """
    deleted_ids = set(shipped.deleted_ids.tolist())
    listed_ids = set(shipped.listed_ids.tolist())
    # In column-major order, consecutive numbers of a row are as far apart as the matrix has rows.
    row_counts = {len(deleted_ids), len(listed_ids - deleted_ids), len(deleted_ids | listed_ids)}
    try:
        deleted_traces = [extract_traces(row) for row in shipped.deleted]
        remaining_traces = [extract_traces(row) for row in shipped.remaining]
        all_remaining_traces = set().union(*remaining_traces)
        all_traces = all_remaining_traces.union(*deleted_traces)
        traces_by_file = {}
        for path in list_files(shipped.files):
            traces_by_file[path] = search_file(path, all_traces, row_counts)
    except ValueError as error:
        return NoFinding(str(error))
    traces_in_files = set().union(*traces_by_file.values())
    missing_count = sum(traces_in_files.isdisjoint(row) for row in remaining_traces)
    if missing_count or not remaining_traces:
        return NoFinding(
            f"{missing_count} of {len(remaining_traces)} remaining rows were not found in these"
            " files either, so this search proves nothing: they may be stored in a format that it"
            " does not know"
        )
    unique_traces = []
    for row in deleted_traces:
        if row[0] not in all_remaining_traces:  # otherwise, it equals a remaining row
            unique_traces.append(set(row) - all_remaining_traces)
    all_unique_traces = set().union(*unique_traces)
    places = []
    for path, traces in traces_by_file.items():
        if traces & all_unique_traces:
            places.append(str(path))
    return StorageFinding(
        rows=sum(not row.isdisjoint(traces_in_files) for row in unique_traces),
        of=len(unique_traces),
        ids=tuple(sorted(deleted_ids & listed_ids)),
        places=tuple(places),
    )


def extract_traces(row: np.ndarray) -> list[bytes]:
    """Return the bytes of 8 consecutive numbers of a row in float32, float64 and half precision.

    There are up to three traces in half precision: float16, and bfloat16 truncated and rounded.

    The first of the 8 numbers is nonzero, and at least 5 are distinct and nonzero. If a very sparse
    row has no such run, the run with the most distinct numbers is returned in float32 and float64,
    but none in half precision. Raises ValueError if a row does not have two distinct nonzero
    numbers.
    """
    numbers = np.asarray(row, "<f4")
    starts = numbers[: 1 - NUMBERS]
    if not starts.any() or _count_distinct(numbers) < 2:
        raise ValueError(
            f"a row of {len(row)} numbers has no {NUMBERS} consecutive numbers that identify it"
        )
    bits = numbers.view("<u4")
    truncated_bfloat16 = (bits >> 16).astype("<u2")
    # Round to nearest, ties to even: add just under half a unit, plus the lowest remaining bit.
    rounded_bfloat16 = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
    with np.errstate(over="ignore"):
        float16 = numbers.astype("<f2").view("<u2")
    single = _find_best_run(bits)
    double = single.view("<f4").astype("<f8")
    traces = [single.tobytes(), double.tobytes()]
    for half in (float16, truncated_bfloat16, rounded_bfloat16):
        run = _find_best_run(half)
        if _count_distinct(run) >= MIN_DISTINCT:
            traces.append(run.tobytes())
    return traces


def _find_best_run(words: np.ndarray) -> np.ndarray:
    """Return the first run of 8 numbers with MIN_DISTINCT distinct ones, or the run with the most.

    Only nonzero numbers count, and a run starts with one.
    """
    runs = sliding_window_view(words, NUMBERS)
    # In a sorted run with 0 prepended, each increase is a distinct nonzero number.
    distinct_counts = np.count_nonzero(np.diff(np.sort(runs), prepend=0), axis=1)
    distinct_counts = distinct_counts * (runs[:, 0] != 0)
    # Counts above MIN_DISTINCT are no better, and argmax returns the first of several ties.
    return runs[np.argmax(np.minimum(distinct_counts, MIN_DISTINCT))]


def _count_distinct(numbers: np.ndarray) -> int:
    """Count the distinct nonzero numbers."""
    return len(set(numbers.tolist()) - {0})


def list_files(paths: tuple[Path, ...]) -> list[Path]:
    """Return all files among these paths and in the folders, sorted and without duplicates.

    Raises FileNotFoundError if a path does not exist.
    """
    files: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path}: not found; the storage audit needs the shipped files")
        if path.is_dir():
            files.update(file for file in path.rglob("*") if file.is_file())
        elif path.is_file():
            files.add(path)
    return sorted(files)


def search_file(path: Path, traces: set[bytes], row_counts: Iterable[int] = ()) -> set[bytes]:
    """Return the traces that a file contains, at any offset, including in compressed content.

    Parameters
    ----------
    row_counts
        The row counts of matrices that may be stored by column. Only traces with enough distinct
        numbers are also searched for in that order.

    Raises
    ------
    ValueError
        If the file cannot be read.
    """
    layouts = _group_traces(traces, row_counts)
    overlap = max(layout.size * layout.distance * NUMBERS for layout in layouts)
    matches: set[bytes] = set()
    tail = b""  # the end of the previous block, because a trace may cross the boundary
    try:
        with path.open("rb") as file:
            for content in unpack(file):
                for chunk in _read_chunks(content):
                    block = tail + chunk
                    for layout in layouts:
                        if layout.traces:
                            matches.update(_find_traces(block, layout))
                    tail = block[-overlap:]
    except UNREADABLE as error:
        raise ValueError(f"{path}: cannot be read, so its content is unknown: {error}") from error
    return matches


def _group_traces(traces: set[bytes], row_counts: Iterable[int]) -> list[TraceLayout]:
    """Group traces by how their numbers may lie in a file, for the parameters of `search_file`."""
    layouts = []
    for size in (2, 4, 8):
        traces_of_size = set()
        distinctive_traces = set()
        for trace in traces:
            if len(trace) != size * NUMBERS:
                continue
            traces_of_size.add(trace)
            if _count_distinct(np.frombuffer(trace, f"<u{size}")) >= MIN_DISTINCT:
                distinctive_traces.add(trace)
        layouts.append(TraceLayout(size, 1, traces_of_size))
        for row_count in set(row_counts) - {0, 1}:
            layouts.append(TraceLayout(size, row_count, distinctive_traces))
    return layouts


def _read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of a file, CHUNK bytes at a time."""
    while True:
        chunk = file.read(CHUNK)
        if not chunk:
            return
        yield chunk


def _find_traces(block: bytes, layout: TraceLayout) -> Iterator[bytes]:
    """Yield the traces of a layout that a block contains."""
    size, distance, traces = layout
    # First look for the head of each trace, its first 8 bytes. A table of hashes rules out nearly
    # all positions. The others are compared with the heads, and then with whole traces.
    heads = np.unique(np.frombuffer(b"".join(trace[:8] for trace in traces), "<u8"))
    may_be_head = np.zeros(1 << HASH_BITS, bool)
    may_be_head[heads * HASH_FACTOR >> HASH_SHIFT] = True
    for offset in range(size):  # numbers may start at any byte
        words = np.frombuffer(block[offset:], f"<u{size}", (len(block) - offset) // size)
        count = max(len(words) - distance * (NUMBERS - 1), 0)
        starts_with = np.zeros(count, "<u8")  # the 8 bytes of a trace that would start here
        for number in range(8 // size):
            word = words[number * distance :][:count].astype("<u8")
            starts_with |= word << np.uint64(8 * size * number)
        starts = np.flatnonzero(may_be_head[starts_with * HASH_FACTOR >> HASH_SHIFT])
        starts = starts[np.isin(starts_with[starts], heads)]
        candidates = {words[start::distance][:NUMBERS].tobytes() for start in starts}
        yield from candidates & traces
