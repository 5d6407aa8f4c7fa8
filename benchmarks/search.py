"""Exact search over a memory: milliseconds per query, and the RAM that a process needs.

Keys have 768 coordinates and consist of one of 2,000 directions plus noise. Their spectrum falls
like that of real encoders: the standard deviation of coordinate i is 1 / sqrt(i), for directions
and noise alike.
"""

import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.measuring import Result, seconds_of, summary
from munkey.deploy.model.retrieval import find_nearest
from munkey.memory.memory_file import MemoryFile

SIZES = 10_000, 100_000, 1_000_000  # rows
WIDTH = 768  # numbers in a key
TOKEN = 128  # numbers in a token
BLOCK = 50_000  # rows that are generated at a time
DIRECTIONS = 2_000
DEPTH = 4  # neighbors per query
BATCH = 256  # queries in a batch


def keys(count: int, seed: int) -> np.ndarray:
    """Generate keys (count, WIDTH) float32 of unit norm.

    The directions are the same for every seed.
    """
    deviations = (np.arange(1, WIDTH + 1) ** -0.5).astype(np.float32)
    directions = np.random.default_rng(0).standard_normal((DIRECTIONS, WIDTH), dtype=np.float32)
    random = np.random.default_rng((1, seed))
    vectors = directions[random.integers(DIRECTIONS, size=count)]
    vectors = deviations * (vectors + random.standard_normal(vectors.shape, dtype=np.float32))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def create_memory(path: Path, rows: int) -> MemoryFile:
    """Create a memory with this number of rows, block by block to save RAM."""
    file = MemoryFile.create(
        path, np.zeros(0, int), np.zeros((0, WIDTH), "f4"), np.zeros((0, TOKEN), "f4")
    )
    for start in range(0, rows, BLOCK):
        ids = np.arange(start, min(start + BLOCK, rows))
        file.add(ids, keys(len(ids), start + 1), np.zeros((len(ids), TOKEN), np.float32))
    return file


def search(device: str, rounds: int) -> list[Result]:
    """Measure batches and single queries at each size, before and after a tenth is deleted.

    At the largest size, also measure the RAM of a process.
    """
    results = []
    for rows in SIZES:
        with (
            tempfile.TemporaryDirectory() as folder,
            create_memory(Path(folder) / "memory.db", rows) as file,
        ):
            results += time_queries(file, f"in {rows:,} x {WIDTH}", rounds)
            file.delete(np.arange(0, rows, 10))
            results += time_queries(file, f"in {rows:,} x {WIDTH}, a tenth deleted", rounds)
            if rows == SIZES[-1]:
                results += resident(file.path, rows)
    return results


def time_queries(file: MemoryFile, where: str, rounds: int) -> list[Result]:
    """Measure milliseconds per query, alternately in batches and for single queries.

    Parameters
    ----------
    where
        A phrase that describes the memory, for the names of the results.
    """
    queries = keys(BATCH, SIZES[-1] + 2)
    batch = partial(find_nearest, file.snapshot().memory, queries, DEPTH)
    single = partial(find_nearest, file.snapshot().memory, queries[:1], DEPTH)
    seconds = seconds_of({"batch": batch, "single": single}, rounds, "cpu")
    return [
        summary(
            f"{BATCH} queries {where}", [1e3 * s / BATCH for s in seconds["batch"]], "ms a query"
        ),
        summary(f"one query {where}", [1e3 * s for s in seconds["single"]], "ms a query"),
    ]


def resident(path: Path, rows: int) -> list[Result]:
    """Measure the memory of a separate process that searches, without the page cache."""
    command = [sys.executable, "-m", "benchmarks.search", str(path)]
    megabytes = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [summary(f"a process that searches {rows:,} x {WIDTH}", [megabytes], "MB")]


def serve(path: Path) -> None:
    """Print this process's anonymous memory in MB after a search."""
    with MemoryFile.open(path) as reader:
        find_nearest(reader.snapshot().memory, keys(BATCH, SIZES[-1] + 2), DEPTH)
        status = Path("/proc/self/status").read_text()
    for line in status.splitlines():
        if line.startswith("RssAnon"):
            kilobytes = int(line.split()[1])
            print(kilobytes / 1000)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
