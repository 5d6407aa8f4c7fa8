"""The durable memory: `python -m benchmarks.memory` makes memories of 10,000 and 100,000 rows x 768 and measures them.

`--sizes 1000000` measures a large one, which takes 3.8 GB of disk in `--folder`. Wall time hangs on what a sync costs,
and on a virtual machine that may be anything: read it beside the bare sync of 4 KiB of the same rounds, and CPU time.
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
BLOCK = 50_000  # rows that are made at a time


def rows(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(len(ids))
    keys, tokens = (
        generator.standard_normal((len(ids), width), dtype=np.float32) for width in WIDTHS
    )
    return ids, keys, tokens


def made(folder: Path, count: int, name: str | None = None) -> None:
    """A memory of `count` rows. name: of their source files, with a place for the id; None: they have none."""

    def names(ids: np.ndarray) -> list[str | None]:
        return [name and name.format(i) for i in ids.tolist()]

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
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        self.wall.append(1e3 * (time.perf_counter() - wall))
        self.cpu.append(1e3 * (time.process_time() - cpu))


def reported(name: str, values: Sequence[float], unit: str = "ms") -> list[Result]:
    """Median with quartiles, printed; of a hundred values or more the 99th percentile is printed too."""
    result = summary(name, values, unit)
    if len(values) >= 100:
        print(f"{f'{name}, p99':58} {np.percentile(values, 99):12.4g} {unit:12} n = {len(values)}")
    return [result]


def one_by_one(store: Store, ids: np.ndarray, scratch: int, name: str) -> list[Result]:
    """Deletions of one row each, acknowledged or settled too, alternately with a bare write and sync of 4 KiB."""
    acknowledged, settled, syncs = Times(), Times(), Times()

    def sync() -> None:
        disk.write(scratch, b"x" * 4096, 0)
        disk.sync(scratch)

    def settle(i: int) -> None:
        store.delete([i])
        store.settle()

    for one, other in zip(ids[::2].tolist(), ids[1::2].tolist(), strict=True):
        acknowledged.of(partial(store.delete, [one]))
        store.settle()  # so that the next one waits for its own zeros only
        settled.of(partial(settle, other))
        syncs.of(sync)
    return [
        *reported(f"{name}: one deletion, acknowledged", acknowledged.wall),
        *reported(f"{name}: its CPU", acknowledged.cpu),
        *reported(f"{name}: one deletion, zeros synced too", settled.wall),
        *reported(f"{name}: its CPU, zeros synced too", settled.cpu),
        *reported(f"{name}: a bare sync", syncs.wall),
    ]


def measured(folder: Path, count: int, deletions: int, opens: int) -> list[Result]:
    """One size of memory; its name stands in each line."""
    name, ids, times = f"{count:,} rows", np.random.default_rng(0).permutation(count), Times()
    made(folder / "memory", count)
    opening, reading = Times(), Times()
    for _ in range(opens):
        opening.of(lambda: Store.open(folder / "memory", writer=True).close())
        reading.of(lambda: Store.open(folder / "memory").close())
    scratch = os.open(folder / "scratch", os.O_RDWR | os.O_CREAT)
    with Store.open(folder / "memory", writer=True) as store:
        results = one_by_one(store, ids[: 2 * deletions], scratch, name)
        times.of(lambda: store.delete(ids[2 * deletions : 2 * deletions + count // 10]))
        batch = f"{name}: deletion of {count // 10:,}"
        results += [
            *reported(f"{batch}, acknowledged", times.wall),
            *reported(f"{batch}, CPU", times.cpu),
        ]
        times = Times()
        times.of(store.settle)
        results += reported(f"{batch}, then overwritten and synced", times.wall)
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
    """A purge of rows that all have the name of a source file, a tenth of them deleted: SQLite writes its file anew."""
    made(folder / "named", count, "train/class/{:08}.jpg")
    times = Times()
    with Store.open(folder / "named", writer=True) as store:
        store.delete(np.random.default_rng(0).permutation(count)[: count // 10])
        store.settle()
        times.of(store.purge)
    name = f"{count:,} rows with names: purge, a tenth of them deleted"
    return [*reported(name, times.wall), *reported(f"{name}, CPU", times.cpu)]


def memory(device: str, rounds: int) -> list[Result]:
    """For `make bench`: three sizes, and how the time of a deletion grows with them."""
    results: list[Result] = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            results += measured(Path(folder), size, 100 * rounds, rounds)
    for what in ("one deletion, acknowledged", "its CPU"):
        medians = [
            result["median"] for result in results if result["name"].endswith(f" rows: {what}")
        ]
        slope = float(np.polyfit(np.log10(SIZES), medians, 1)[0])
        results.append(summary(f"{what}: for ten times as many rows", [slope], "ms more"))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--deletions", type=int, default=300, help="of one row each")
    parser.add_argument("--opens", type=int, default=5)
    parser.add_argument(
        "--folder",
        type=Path,
        help="on the disk to be measured; default: the system's temporary one",
    )
    arguments = parser.parse_args()
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            measured(Path(folder), size, arguments.deletions, arguments.opens)
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            purged(Path(folder), size)


if __name__ == "__main__":
    main()
