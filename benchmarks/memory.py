"""Speed of the durable memory.

`python -m benchmarks.memory` measures 10,000 and 100,000 rows x 768. `--sizes 1000000` measures a
larger memory, which takes 3.8 GB of disk space in `--folder`. Wall time depends on the cost of a
sync, which varies widely on virtual machines. Compare it with the bare sync of 4 KiB in the same
rounds, and with CPU time.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.measuring import Result, summary
from munkey.deploy.store import disk
from munkey.deploy.store.store import Store

WIDTHS = 768, 128  # numbers in a key and in a token
SIZES = 10_000, 100_000, 1_000_000  # rows, for `make bench`
BLOCK = 50_000  # rows that are generated at a time


def rows(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids, and random keys and tokens for them."""
    generator = np.random.default_rng(len(ids))
    keys, tokens = (
        generator.standard_normal((len(ids), width), dtype=np.float32) for width in WIDTHS
    )
    return ids, keys, tokens


def made(folder: Path, count: int, name: str | None = None) -> None:
    """Create a memory of `count` rows.

    Parameters
    ----------
    name
        The name of each row's source file, with a placeholder for the id. None if there are no
        files.
    """

    def names(ids: np.ndarray) -> list[str | None]:
        if name is None:
            return [None] * len(ids)
        return [name.format(row_id) for row_id in ids.tolist()]

    first, *others = np.split(np.arange(count), range(BLOCK, count, BLOCK))
    with Store.create(folder, *rows(first), files=names(first)) as store:
        for ids in others:
            store.add(*rows(ids), files=names(ids))


class Times:
    """Wall and CPU milliseconds of calls."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def of(self, call: Callable[[], object]) -> None:
        """Measure one call."""
        wall_start = time.perf_counter()
        cpu_start = time.process_time()
        call()
        self.wall.append(1e3 * (time.perf_counter() - wall_start))
        self.cpu.append(1e3 * (time.process_time() - cpu_start))


def reported(name: str, values: Sequence[float], unit: str = "ms") -> list[Result]:
    """Return a list with the median and quartiles of values, and print them.

    The 99th percentile of at least 100 values is printed as well.
    """
    result = summary(name, values, unit)
    if len(values) >= 100:
        print(f"{f'{name}, p99':58} {np.percentile(values, 99):12.4g} {unit:12} n = {len(values)}")
    return [result]


def one_by_one(store: Store, ids: np.ndarray, scratch: int, name: str) -> list[Result]:
    """Measure deletions of single rows until they are acknowledged, and until they are settled.

    They alternate with a bare write and sync of 4 KiB to the file descriptor `scratch`.
    """
    acknowledged = Times()
    settled = Times()
    syncs = Times()

    def sync() -> None:
        disk.write(scratch, b"x" * 4096, 0)
        disk.sync(scratch)

    def delete_and_settle(row_id: int) -> None:
        store.delete([row_id])
        store.settle()

    for first_id, second_id in zip(ids[::2].tolist(), ids[1::2].tolist(), strict=True):
        acknowledged.of(partial(store.delete, [first_id]))
        store.settle()  # so that the next deletion waits only for its own zeros
        settled.of(partial(delete_and_settle, second_id))
        syncs.of(sync)
    return [
        *reported(f"{name}: one deletion, acknowledged", acknowledged.wall),
        *reported(f"{name}: its CPU", acknowledged.cpu),
        *reported(f"{name}: one deletion, zeros synced too", settled.wall),
        *reported(f"{name}: its CPU, zeros synced too", settled.cpu),
        *reported(f"{name}: a bare sync", syncs.wall),
    ]


def measured(folder: Path, count: int, deletions: int, opens: int) -> list[Result]:
    """Measure a memory of one size, which is part of each result's name."""
    name = f"{count:,} rows"
    ids = np.random.default_rng(0).permutation(count)
    made(folder / "memory", count)
    opening = Times()
    reading = Times()
    for _ in range(opens):
        opening.of(lambda: Store.open(folder / "memory", writer=True).close())
        reading.of(lambda: Store.open(folder / "memory").close())
    scratch = os.open(folder / "scratch", os.O_RDWR | os.O_CREAT)
    with Store.open(folder / "memory", writer=True) as store:
        results = one_by_one(store, ids[: 2 * deletions], scratch, name)
        batch_ids = ids[2 * deletions : 2 * deletions + count // 10]
        batch = f"{name}: deletion of {count // 10:,}"
        deleting = Times()
        deleting.of(lambda: store.delete(batch_ids))
        results += [
            *reported(f"{batch}, acknowledged", deleting.wall),
            *reported(f"{batch}, CPU", deleting.cpu),
        ]
        settling = Times()
        settling.of(store.settle)
        results += reported(f"{batch}, then overwritten and synced", settling.wall)
    os.close(scratch)
    opening_after = Times()
    opening_after.of(lambda: Store.open(folder / "memory", writer=True).close())
    return [
        *results,
        *reported(f"{name}: open for writing and close", opening.wall),
        *reported(f"{name}: open for reading and close", reading.wall),
        *reported(f"{name}: open for writing and close, a tenth dead", opening_after.wall),
    ]


def purged(folder: Path, count: int) -> list[Result]:
    """Measure a purge after a tenth of the rows was deleted, in which SQLite rewrites its file.

    All rows have the name of a source file.
    """
    made(folder / "named", count, "train/class/{:08}.jpg")
    times = Times()
    with Store.open(folder / "named", writer=True) as store:
        store.delete(np.random.default_rng(0).permutation(count)[: count // 10])
        store.settle()
        times.of(store.purge)
    name = f"{count:,} rows with names: purge, a tenth of them deleted"
    return [*reported(name, times.wall), *reported(f"{name}, CPU", times.cpu)]


def memory(device: str, rounds: int) -> list[Result]:
    """Measure memories of three sizes, and how the time of a deletion grows with their size."""
    results: list[Result] = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            results += measured(Path(folder), size, 100 * rounds, rounds)
    for name in ("one deletion, acknowledged", "its CPU"):
        medians = [
            result["median"] for result in results if result["name"].endswith(f" rows: {name}")
        ]
        slope = float(np.polyfit(np.log10(SIZES), medians, 1)[0])
        results.append(summary(f"{name}: for ten times as many rows", [slope], "ms more"))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--deletions", type=int, default=300, help="of one row each")
    parser.add_argument("--opens", type=int, default=5)
    parser.add_argument(
        "--folder",
        type=Path,
        help="a folder on the disk to measure; by default, the system's temporary folder",
    )
    arguments = parser.parse_args()
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            measured(Path(folder), size, arguments.deletions, arguments.opens)
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            purged(Path(folder), size)


if __name__ == "__main__":
    main()
