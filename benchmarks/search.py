"""Search over a durable memory of a million rows x 768: exact against faiss, approximate, and the memory that it takes.

Keys are 2,000 directions with noise, in a spectrum that falls as real encoders' does: coordinate i has the standard
deviation 1 / sqrt(i), of directions and noise alike. How many lists must be looked at depends on that.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.measuring import Result, ratios, seconds_of, summary
from munkey.deploy.search import exact
from munkey.deploy.search.search import Search
from munkey.deploy.store.store import Store
from munkey.settings import LookupSettings

ROWS, WIDTH, TOKEN = 1_000_000, 768, 128
BLOCK = 50_000  # rows that are made at a time
DIRECTIONS, DEPTH = 2_000, 4
EXACT, APPROXIMATE = 256, 1024  # queries
LOOKUP = LookupSettings(approximate_from=1, lists=1000, probes=30)


def keys(count: int, seed: int) -> np.ndarray:
    """(count, WIDTH) float32 of unit norm. The directions are the same for every seed."""
    spread = (np.arange(1, WIDTH + 1) ** -0.5).astype(np.float32)
    directions = np.random.default_rng(0).standard_normal((DIRECTIONS, WIDTH), dtype=np.float32)
    random = np.random.default_rng((1, seed))
    vectors = directions[random.integers(DIRECTIONS, size=count)]
    vectors = spread * (vectors + random.standard_normal(vectors.shape, dtype=np.float32))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def made(folder: Path) -> Store:
    store = Store.create(folder, np.zeros(0, int), np.zeros((0, WIDTH), "f4"), np.zeros((0, TOKEN), "f4"))
    for start in range(0, ROWS, BLOCK):
        ids = np.arange(start, min(start + BLOCK, ROWS))
        store.add(ids, keys(len(ids), start + 1), np.zeros((len(ids), TOKEN), np.float32))
    return store


def search(device: str, rounds: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder, made(Path(folder) / "memory") as store:
        return [*against_faiss(store, rounds), *by_lists(store, rounds), *resident(store.folder)]


def against_faiss(store: Store, rounds: int) -> list[Result]:
    """The same queries, alternately; faiss has its own copy of all keys."""
    import faiss

    view, index = store.view, faiss.IndexFlatIP(WIDTH)
    index.add(np.asarray(view.keys))
    results = []
    for count in (EXACT, 1):
        queries = keys(count, ROWS + 2)
        sides: dict[str, Callable[[], object]] = {
            "ours": partial(exact.nearest, view, queries, DEPTH),
            "faiss": partial(index.search, queries, DEPTH),
        }
        seconds, name = seconds_of(sides, rounds, "cpu"), f"exact search, {count} queries in {ROWS:,} x {WIDTH}"
        results += [
            summary(name, [count / s for s in seconds["ours"]], "queries/s"),
            summary(f"{name}: time of faiss / ours", ratios(seconds["faiss"], seconds["ours"]), "x"),
        ]
    return results


def by_lists(store: Store, rounds: int) -> list[Result]:
    """Batches, and one query at a time, through an index whose centroids are means of other keys."""
    found, queries = Search(store, LOOKUP), keys(APPROXIMATE, ROWS + 3)
    name = f"approximate search in {ROWS:,} x {WIDTH}"
    others = keys(40 * LOOKUP.lists, ROWS + 4)
    built = seconds_of({"build": partial(found.build, others)}, 1, "cpu")["build"]
    sides: dict[str, Callable[[], object]] = {
        "batch": partial(found.nearest, queries, DEPTH),
        "one": lambda: [found.nearest(queries[i : i + 1], DEPTH) for i in range(8)],
    }
    seconds = seconds_of(sides, rounds, "cpu")
    ours, all_of_them = found.nearest(queries, DEPTH).rows, exact.nearest(store.view, queries, DEPTH).rows
    recall = [np.isin(mine, theirs).mean() for mine, theirs in zip(ours, all_of_them, strict=True)]
    return [
        summary(f"{name}: the index is built", built, "s"),
        summary(f"{name}, {APPROXIMATE} queries at once", [APPROXIMATE / s for s in seconds["batch"]], "queries/s"),
        summary(f"{name}, one query at a time", [8 / s for s in seconds["one"]], "queries/s"),
        summary(f"{name}: recall@{DEPTH}", [float(np.mean(recall))], "of 1"),
    ]


def resident(folder: Path) -> list[Result]:
    """Anonymous memory of a process of its own that searches, exactly and by lists: beyond the page cache."""
    ran = [sys.executable, "-m", "benchmarks.search", str(folder)]
    grown = float(subprocess.run(ran, capture_output=True, text=True, check=True).stdout)
    return [summary(f"a process that searches {ROWS:,} rows, beyond the page cache", [grown], "MB")]


def serve(folder: Path) -> None:
    """Print this process's anonymous memory in MB after searches."""
    with Store.open(folder) as reader:
        queries = keys(APPROXIMATE, ROWS + 3)
        exact.nearest(reader.view, queries[:EXACT], DEPTH)
        Search(reader, LOOKUP).nearest(queries, DEPTH)
        status = Path("/proc/self/status").read_text()
    print(next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) / 1000)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
