"""Storage: are the bytes of a deleted key or token, or its id, still in what is shipped?"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from munkey.audits.evidence import Shipped
from munkey.audits.registry import Finding, Refused, audit

FLOATS = 8  # numbers in a row that are taken as its trace: 32 bytes, which no two rows share by chance
CHUNK = 1 << 24  # bytes read at a time


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
    definition="deleted keys, tokens and ids that are found in the files that are shipped",
    source="this project",
)
def storage(shipped: Shipped, _: np.random.Generator | None = None) -> StorageFinding | Refused:
    """A row counts as found if 8 of its numbers are, stored as float32. Kept rows are the control: they must be found.

    Deleted rows that equal a kept one, as the keys of a picture that is there twice, tell nothing and are left out.
    Raises FileNotFoundError for a file that is not there.
    """
    try:
        deleted, kept = ([trace(row) for row in rows] for rows in (shipped.deleted, shipped.kept))
    except ValueError as error:
        return Refused(str(error))
    known = set(kept)
    deleted = [each for each in deleted if each not in known]
    found = {path: search(path, {*deleted, *kept}) for path in files_of(shipped.files)}
    everywhere = set().union(*found.values())
    missing = sum(each not in everywhere for each in kept)
    if missing or not kept:
        return Refused(
            f"{missing} of {len(kept)} rows that were kept are not found in these files either, so this search proves"
            " nothing: are the files compressed, or of another precision than float32?"
        )
    places = tuple(sorted(str(path) for path, traces in found.items() if traces & set(deleted)))
    ids = np.intersect1d(shipped.deleted_ids, shipped.listed_ids)
    return StorageFinding(sum(each in everywhere for each in deleted), len(deleted), tuple(ids.tolist()), places)


def trace(row: np.ndarray) -> bytes:
    """The bytes of 8 numbers in a row that could not stand anywhere: the first is not 0, and several differ.

    Taken where 4 that are not 0 differ first, or else as many as there are, one in a very sparse key. Raises ValueError
    for a row in which no 2 numbers that are not 0 differ.
    """
    numbers = np.asarray(row, dtype="<f4")
    parts = [numbers[start : start + FLOATS] for start in np.flatnonzero(numbers[: max(len(numbers) - FLOATS + 1, 0)])]
    best = next((part for part in parts if _telling(part) >= 4), None)  # in most rows the first
    if best is None:
        best = max(parts, key=_telling, default=None)
    if best is None or _telling(numbers) < 2:
        raise ValueError(f"a row of {len(numbers)} numbers has no {FLOATS} in a row by which it could be recognized")
    return best.tobytes()


def _telling(part: np.ndarray) -> int:
    """How many numbers that are not 0 differ."""
    return len(np.unique(part[part != 0]))


def files_of(paths: tuple[Path, ...]) -> list[Path]:
    """All files of these files and folders, each once. Raises FileNotFoundError for what is not there."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path}: not found; the storage audit needs the files that are shipped")
    inside = [each for path in paths for each in (path.rglob("*") if path.is_dir() else [path])]
    return sorted({each for each in inside if each.is_file()})


def search(path: Path, traces: set[bytes]) -> set[bytes]:
    """Which of the traces, of 32 bytes each, are in the file at any offset."""
    heads = np.unique([np.frombuffer(each[:4], "<u4")[0] for each in traces]) if traces else np.zeros(0, "<u4")
    return {
        part
        for block in blocks(path)
        for shift in range(4)
        for start in 4 * np.flatnonzero(np.isin(words(block, shift), heads)) + shift
        if (part := block[start : start + 4 * FLOATS]) in traces
    }


def blocks(path: Path) -> Iterator[bytes]:
    """The file in chunks that overlap by a trace less one byte, so that none is cut in two."""
    overlap = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            block = overlap + chunk
            yield block
            overlap = block[-(4 * FLOATS - 1) :]


def words(block: bytes, shift: int) -> np.ndarray:
    """The block from `shift` on as 32-bit words."""
    return np.frombuffer(block, "<u4", count=max(len(block) - shift, 0) // 4, offset=min(shift, len(block)))
