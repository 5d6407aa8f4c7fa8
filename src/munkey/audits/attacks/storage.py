"""Storage: do the shipped files still contain a deleted key or token, or list its id?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from munkey.audits.evidence import ShippedFiles
from munkey.audits.packed_files import UNREADABLE, unpack
from munkey.audits.registry import Finding, NoFinding, audit

NUMBERS = 8  # consecutive numbers of a row that serve as its trace
# Different numbers, not 0, that a trace should have, so that it occurs nowhere by chance.
TELLING = 5
CHUNK = 1 << 22  # bytes read at a time
# Multiplicative hashing (Knuth): 2^64 / golden ratio; the upper 64 - 44 = 20 bits are the hash.
MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(44)


@dataclass(frozen=True)
class StorageFinding(Finding):
    """The deleted rows and ids that files still contain.

    Attributes
    ----------
    rows
        The number of deleted rows that were found, of `of`.
    places
        The files that they are in.
    ids
        The deleted ids that the memory still lists.
    """

    rows: int
    of: int
    ids: tuple[int, ...]
    places: tuple[str, ...]


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
    """Search files for deleted rows, and for remaining rows as the control: they must be found.

    A row is found if 8 of its numbers are, in one of four precisions, by row or by column. A
    deleted row that equals a remaining one, as for a picture that is there twice, is not counted.
    Raises FileNotFoundError for a missing file.
    """
    deleted_ids = set(shipped.deleted_ids.tolist())
    listed_ids = set(shipped.listed_ids.tolist())
    # Stored by column, a matrix has as many numbers between two of a row as it has rows.
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
            f"{missing_count} of {len(remaining_traces)} rows that were kept are not found in these"
            " files either, so this search proves nothing: are they stored in a form that is not"
            " looked for?"
        )
    unique_traces = []
    for row in deleted_traces:
        if row[0] not in all_remaining_traces:  # otherwise it equals a remaining row
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
    """Return the bytes of 8 consecutive numbers of a row as float32, as float64, then in half precisions.

    The first of the 8 is not 0, and at least 5 different ones are not 0. A row without such a run,
    a very sparse one, gets the run with most different numbers, and no trace in half precision.
    Raises ValueError for a row without two different numbers that are not 0.
    """
    exact = np.asarray(row, "<f4")
    starts = exact[: 1 - NUMBERS]
    if not starts.any() or _count_different_numbers(exact) < 2:
        raise ValueError(
            f"a row of {len(row)} numbers has no {NUMBERS} in a row by which it could be recognized"
        )
    bits = exact.view("<u4")
    truncated_bfloat16 = (bits >> 16).astype("<u2")
    # Round to nearest, ties to even: add just under half a unit, and the lowest bit that stays.
    rounded_bfloat16 = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
    with np.errstate(over="ignore"):
        float16 = exact.astype("<f2").view("<u2")
    single = _find_best_run(bits)
    double = single.view("<f4").astype("<f8")
    parts = [single.tobytes(), double.tobytes()]
    for half in (float16, truncated_bfloat16, rounded_bfloat16):
        run = _find_best_run(half)
        if _count_different_numbers(run) >= TELLING:
            parts.append(run.tobytes())
    return parts


def _find_best_run(words: np.ndarray) -> np.ndarray:
    """Return the first run of 8 with enough different numbers, or else the one with most."""
    runs = sliding_window_view(words, NUMBERS)
    # Sorted and with 0 in front, each step up is a different number that is not 0.
    different = np.count_nonzero(np.diff(np.sort(runs), prepend=0), axis=1)
    different = different * (runs[:, 0] != 0)
    # Ratios above TELLING are no better, and argmax takes the first of several that tie.
    return runs[np.argmax(np.minimum(different, TELLING))]


def _count_different_numbers(part: np.ndarray) -> int:
    """Count the different values besides 0."""
    return len(set(part.tolist()) - {0})


def list_files(paths: tuple[Path, ...]) -> list[Path]:
    """Return all files among and below these paths, each once. Raises FileNotFoundError."""
    files: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(
                f"{path}: not found; the storage audit needs the files that are shipped"
            )
        if path.is_dir():
            files.update(file for file in path.rglob("*") if file.is_file())
        elif path.is_file():
            files.add(path)
    return sorted(files)


def search_file(path: Path, traces: set[bytes], columns: Iterable[int] = ()) -> set[bytes]:
    """Return the traces that are in a file, or packed in it, at any offset. Raises ValueError.

    Parameters
    ----------
    columns
        The numbers of rows of matrices in which traces with enough different numbers are also
        searched for by column.
    """
    kinds: list[tuple[int, int, set[bytes]]] = []  # bytes of a number, distance in numbers, traces
    for size in (2, 4, 8):
        traces_of_size = set()
        telling_traces = set()
        for trace in traces:
            if len(trace) != size * NUMBERS:
                continue
            traces_of_size.add(trace)
            if _count_different_numbers(np.frombuffer(trace, f"<u{size}")) >= TELLING:
                telling_traces.add(trace)
        kinds.append((size, 1, traces_of_size))
        for distance in set(columns) - {0, 1}:
            kinds.append((size, distance, telling_traces))
    overlap = max(size * distance * NUMBERS for size, distance, _ in kinds)
    matches: set[bytes] = set()
    tail = b""  # of the blocks before, since a trace may cross their border
    try:
        with path.open("rb") as file:
            for part in unpack(file):
                for chunk in _read_chunks(part):
                    block = tail + chunk
                    for size, distance, kind_traces in kinds:
                        if kind_traces:
                            matches.update(_find_traces(block, size, distance, kind_traces))
                    tail = block[-overlap:]
    except UNREADABLE as error:
        raise ValueError(f"{path}: cannot be read, so its content is not known: {error}") from error
    return matches


def _read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of a file, CHUNK bytes at a time."""
    while True:
        chunk = file.read(CHUNK)
        if not chunk:
            return
        yield chunk


def _find_traces(block: bytes, size: int, distance: int, traces: set[bytes]) -> Iterator[bytes]:
    """Yield the traces in a block.

    Parameters
    ----------
    size
        The bytes of a number.
    distance
        The distance to the next number of a trace, in numbers.
    """
    # The first 8 bytes of a trace, its head, are looked for everywhere. A sieve by a hash of 20
    # bits rules out nearly all places before heads, and then whole traces, are compared.
    heads = np.unique(np.frombuffer(b"".join(trace[:8] for trace in traces), "<u8"))
    may_be_head = np.zeros(1 << 20, bool)
    may_be_head[heads * MIX >> SHIFT] = True
    for offset in range(size):  # of the numbers in the file
        words = np.frombuffer(block[offset:], f"<u{size}", (len(block) - offset) // size)
        count = max(len(words) - distance * (NUMBERS - 1), 0)
        starts_with = np.zeros(count, "<u8")  # the 8 bytes that a trace from here would start with
        for number in range(8 // size):
            word = words[number * distance :][:count].astype("<u8")
            starts_with |= word << np.uint64(8 * size * number)
        starts = np.flatnonzero(may_be_head[starts_with * MIX >> SHIFT])
        starts = starts[np.isin(starts_with[starts], heads)]
        candidates = {words[start::distance][:NUMBERS].tobytes() for start in starts}
        yield from candidates & traces
