"""Speed of the memory in one file, beside that of the store of four mapped matrices.

`python -m benchmarks.memory_file` measures 10,000 and 100,000 rows x 384. `--sizes 1000000`
measures a larger memory, which takes 8 GB of disk space in `--folder`. Wall time depends on the
cost of a sync, so both engines and a bare sync of 4 KiB take turns.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.measuring import Result, ratios
from benchmarks.memory import Times, reported
from munkey.deploy.store import disk
from munkey.deploy.store.store import Store
from munkey.memory.memory_file import MemoryFile

WIDTH = 384  # numbers in a key; a token is the class, as for LDA and KNN
BLOCK = 50_000  # rows that are generated at a time
OPENED = 12_000, 1_280  # rows and width of the memory whose opening is measured


def rows(ids: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids, and random keys and tokens for them."""
    keys = np.random.default_rng(len(ids)).standard_normal((len(ids), width), dtype=np.float32)
    return ids, keys, np.zeros((len(ids), 1), np.float32)


def blocks(count: int, width: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for ids in np.split(np.arange(count), range(BLOCK, count, BLOCK)):
        yield rows(ids, width)


def make_file(path: Path, count: int, width: int = WIDTH) -> None:
    first, *others = blocks(count, width)
    with MemoryFile.create(path, *first) as file:
        for block in others:
            file.add(*block)


def make_store(folder: Path, count: int, width: int = WIDTH) -> None:
    first, *others = blocks(count, width)
    with Store.create(folder, *first) as store:
        for block in others:
            store.add(*block)


def read_all(path: Path) -> None:
    """Open a memory, and read all keys."""
    with MemoryFile.open(path) as file:
        file.snapshot()


def read_all_of_store(folder: Path) -> None:
    with Store.open(folder) as store:
        np.array(store.view.keys)


# A second process that reads while the first one deletes


def follow(path: Path) -> None:
    """Look at the memory for each line of the input, which is an id that was deleted.

    Prints the milliseconds that the snapshot took.
    """
    with MemoryFile.open(path) as file:
        file.snapshot()
        print(resident(os.getpid()), flush=True)
        for line in sys.stdin:
            start = time.perf_counter()
            memory = file.snapshot().memory
            milliseconds = 1e3 * (time.perf_counter() - start)
            assert memory.find_rows(np.array([int(line)]))[0] < 0, "a deleted row is found"
            print(milliseconds, flush=True)


@contextmanager
def follower(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.memory_file", "--follow", str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def ask(process: subprocess.Popen[str], row_id: int) -> float:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{row_id}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def resident(process: int) -> str:
    """Return the MB of a process that are its own, those of files, and its peak."""
    values = {}
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in {"RssAnon", "RssFile", "VmHWM"}:
            values[name] = int(value.split()[0]) // 1000
    return " ".join(f"{name} {value} MB" for name, value in values.items())


# Measurements


class Engines:
    """Both engines with the same rows, which take turns."""

    def __init__(self, folder: Path, count: int) -> None:
        self.name = f"{count:,} rows"
        self.folder = folder
        self.count = count
        self.path = folder / "memory.db"
        self.results: list[Result] = []
        self.take_turns(
            "create",
            partial(make_file, self.path, count),
            partial(make_store, folder / "store", count),
        )
        print(f"{self.name}: file {self.path.stat().st_size / 1e6:,.0f} MB")
        self.ids = np.random.default_rng(0).permutation(count).tolist()
        self.file = MemoryFile.open(self.path)
        self.store = Store.open(folder / "store")

    def report(self, what: str, times: Times) -> None:
        self.results += reported(f"{self.name}: {what}", times.wall)
        self.results += reported(f"{self.name}: {what}, CPU", times.cpu)

    def take_turns(
        self, what: str, file: Callable[[], object], store: Callable[[], object], rounds: int = 1
    ) -> None:
        """Measure one operation of both engines."""
        times = {"file": Times(), "store": Times()}
        for _ in range(rounds):
            times["file"].of(file)
            times["store"].of(store)
        for engine, measured_times in times.items():
            self.report(f"{what}, {engine}", measured_times)

    def delete_one_by_one(self, process: subprocess.Popen[str], deletions: int) -> None:
        """Delete single rows, and look at each deletion in this process and in another one."""
        scratch = os.open(self.folder / "scratch", os.O_RDWR | os.O_CREAT)

        def sync() -> None:
            disk.write(scratch, b"x" * 4096, 0)
            disk.sync(scratch)

        times = {part: Times() for part in ("file", "store", "sync", "own")}
        elsewhere = Times()
        emptied = 0
        for row_id in [self.ids.pop() for _ in range(deletions)]:
            times["file"].of(partial(self.file.delete, [row_id]))
            emptied += not Path(f"{self.path}-wal").stat().st_size
            times["own"].of(self.file.snapshot)
            elsewhere.wall.append(ask(process, row_id))
            times["store"].of(partial(self.store.delete, [row_id]))
            times["sync"].of(sync)
        os.close(scratch)
        print(f"{self.name}: the log was empty after {emptied} of {deletions} deletions")
        self.report("one deletion, log emptied", times["file"])
        self.report("one deletion, store", times["store"])
        relative = ratios(times["file"].wall, times["store"].wall)
        self.results += reported(f"{self.name}: one deletion, file / store", relative, "")
        self.report("a bare sync", times["sync"])
        self.report("next snapshot in this process", times["own"])
        self.results += reported(f"{self.name}: refresh elsewhere", elsewhere.wall)

    def delete_tenths(self, process: subprocess.Popen[str], rounds: int) -> None:
        times = {"file": Times(), "store": Times()}
        refreshes = []
        for _ in range(rounds):
            batch = [self.ids.pop() for _ in range(self.count // 10)]
            times["file"].of(partial(self.file.delete, batch))
            refreshes.append(ask(process, batch[0]))
            times["store"].of(partial(self.store.delete, batch))
            self.store.settle()
        self.report("a tenth", times["file"])
        self.report("a tenth, store (not yet zero)", times["store"])
        self.results += reported(f"{self.name}: refresh elsewhere after a tenth", refreshes)

    def add_one_by_one(self, additions: int) -> None:
        new_ids = iter(range(2 * self.count, 2 * self.count + 2 * additions))
        self.take_turns(
            "add one row",
            lambda: self.file.add(*rows(np.array([next(new_ids)]), WIDTH)),
            lambda: self.store.add(*rows(np.array([next(new_ids)]), WIDTH)),
            additions,
        )

    def close(self) -> None:
        self.file.close()
        self.store.close()


def measured(folder: Path, count: int, deletions: int, rounds: int) -> list[Result]:
    """Measure a memory of one size with both engines, which take turns."""
    engines = Engines(folder, count)
    file, store = engines.file, engines.store
    opening = Times()
    for _ in range(rounds):
        opening.of(partial(read_all, engines.path))
    engines.report("open and read", opening)
    file.snapshot()
    with follower(engines.path) as process:
        assert process.stdout is not None
        print(f"{engines.name}: memory of a reader: {process.stdout.readline().strip()}")
        engines.delete_one_by_one(process, deletions)
        engines.delete_tenths(process, min(rounds, 3))
    engines.add_one_by_one(deletions // 4)
    engines.take_turns("purge", file.purge, store.purge)
    engines.take_turns(
        "copy", lambda: file.copy(folder / "copy.db"), lambda: store.copy(folder / "copied")
    )
    engines.take_turns("verify", lambda: _require_sound(file), lambda: _require_sound(store))
    print(f"{engines.name}: this process, both engines: {resident(os.getpid())}")
    engines.close()
    return engines.results


def _require_sound(memory: MemoryFile | Store) -> None:
    report = memory.verify()
    assert report.sound, str(report)


def opened(folder: Path, rounds: int) -> list[Result]:
    """Measure how long it takes to open a memory and to read all keys."""
    count, width = OPENED
    make_file(folder / "memory.db", count, width)
    make_store(folder / "store", count, width)
    times = {part: Times() for part in ("file", "store")}
    for _ in range(rounds):
        times["file"].of(partial(read_all, folder / "memory.db"))
        times["store"].of(partial(read_all_of_store, folder / "store"))
    name = f"{count:,} x {width:,}"
    return [
        *reported(f"{name}: open and read", times["file"].wall),
        *reported(f"{name}: open and read, CPU", times["file"].cpu),
        *reported(f"{name}: open and read, store", times["store"].wall),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--deletions", type=int, default=200, help="of one row each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure")
    parser.add_argument("--follow", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.follow:
        follow(arguments.follow)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        opened(Path(folder), 4 * arguments.rounds)
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            measured(Path(folder), size, arguments.deletions, arguments.rounds)


if __name__ == "__main__":
    main()
