"""Speed of the memory in one file.

`python -m benchmarks.memory_file` measures 10,000 and 100,000 rows x 384. `--sizes 1000000`
measures a larger memory, which takes 6 GB of disk space in `--folder`. Wall time depends on the
cost of a sync, which varies widely on virtual machines. Compare it with the bare sync of 4 KiB in
the same rounds, and with CPU time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.measuring import Result, summary
from munkey.memory.memory_file import MemoryFile

WIDTH = 384  # numbers in a key; a token is the class, as for LDA and KNN
SIZES = 10_000, 100_000, 1_000_000  # rows, for `make bench`
BLOCK = 50_000  # rows that are generated at a time
SHARED = Path("/dev/shm")
OPENED = 12_000, 1_280  # rows and width of the memory whose opening is measured


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


def rows(ids: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids, and random keys and tokens for them."""
    keys = np.random.default_rng(len(ids)).standard_normal((len(ids), width), dtype=np.float32)
    return ids, keys, np.zeros((len(ids), 1), np.float32)


def make_file(path: Path, count: int, width: int) -> None:
    """Create a memory of `count` rows."""
    first, *others = np.split(np.arange(count), range(BLOCK, count, BLOCK))
    with MemoryFile.create(path, *rows(first, width)) as file:
        for ids in others:
            file.add(*rows(ids, width))


def read_all(path: Path) -> None:
    """Open a memory, and read all keys."""
    with MemoryFile.open(path) as file:
        file.snapshot()


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


def delete_one_by_one(
    file: MemoryFile, ids: list[int], process: subprocess.Popen[str], name: str
) -> list[Result]:
    """Delete single rows, and look at each deletion in this process and in another one.

    They alternate with a bare write and sync of 4 KiB.
    """
    deleting = Times()
    syncs = Times()
    following = Times()
    elsewhere: list[float] = []
    emptied = 0
    scratch = os.open(file.path.with_name("scratch"), os.O_RDWR | os.O_CREAT)

    def sync() -> None:
        os.pwrite(scratch, b"x" * 4096, 0)
        os.fdatasync(scratch)

    for row_id in ids:
        deleting.of(partial(file.delete, [row_id]))
        emptied += not Path(f"{file.path}-wal").stat().st_size
        following.of(file.snapshot)
        elsewhere.append(ask(process, row_id))
        syncs.of(sync)
    os.close(scratch)
    print(f"{name}: the log was empty after {emptied} of {len(ids)} deletions")
    return [
        *reported(f"{name}: one deletion, acknowledged", deleting.wall),
        *reported(f"{name}: its CPU", deleting.cpu),
        *reported(f"{name}: a bare sync", syncs.wall),
        *reported(f"{name}: next snapshot in this process", following.wall),
        *reported(f"{name}: next snapshot in another process", elsewhere),
    ]


def delete_tenths(
    file: MemoryFile, batches: list[list[int]], process: subprocess.Popen[str], name: str
) -> list[Result]:
    """Delete a tenth of the rows at once, and look at it in another process."""
    deleting = Times()
    elsewhere = []
    for batch in batches:
        deleting.of(partial(file.delete, batch))
        elsewhere.append(ask(process, batch[0]))
    what = f"{name}: deletion of {len(batches[0]):,}"
    return [
        *reported(f"{what}, acknowledged", deleting.wall),
        *reported(f"{what}, CPU", deleting.cpu),
        *reported(f"{what}, next snapshot in another process", elsewhere),
    ]


def measured(folder: Path, count: int, deletions: int, rounds: int) -> list[Result]:
    """Measure a memory of one size, which is part of each result's name."""
    name = f"{count:,} rows"
    path = folder / "memory.db"
    parts = {part: Times() for part in ("create", "open and read", "add one row", "purge")}
    parts |= {part: Times() for part in ("copy", "verify")}
    parts["create"].of(partial(make_file, path, count, WIDTH))
    print(f"{name}: file {path.stat().st_size / 1e6:,.0f} MB")
    for _ in range(rounds):
        parts["open and read"].of(partial(read_all, path))
    ids = np.random.default_rng(0).permutation(count).tolist()
    first_in_batch = range(deletions, deletions + min(rounds, 3) * (count // 10), count // 10)
    batches = [ids[start : start + count // 10] for start in first_in_batch]
    with MemoryFile.open(path) as file:
        file.snapshot()
        with follower(path) as process:
            assert process.stdout is not None
            own_memory = process.stdout.readline().split()[1]
            results = reported(f"{name}: memory of a process", [float(own_memory)], "MB")
            results += delete_one_by_one(file, ids[:deletions], process, name)
            results += delete_tenths(file, batches, process, name)
        for new_id in range(2 * count, 2 * count + max(deletions // 4, 1)):
            parts["add one row"].of(partial(file.add, *rows(np.array([new_id]), WIDTH)))
        parts["purge"].of(file.purge)
        parts["copy"].of(partial(file.copy, folder / "copy.db"))
        parts["verify"].of(partial(require_sound, file))
    print(f"{name}: this process: {resident(os.getpid())}")
    for what, times in parts.items():
        results += reported(f"{name}: {what}", times.wall)
        results += reported(f"{name}: {what}, CPU", times.cpu)
    return results


def require_sound(file: MemoryFile) -> None:
    report = file.verify()
    assert report.sound, str(report)


def opened(folder: Path, rounds: int) -> list[Result]:
    """Measure how long it takes to open a memory of pictures' keys, and to read all of them."""
    count, width = OPENED
    make_file(folder / "memory.db", count, width)
    times = Times()
    for _ in range(rounds):
        times.of(partial(read_all, folder / "memory.db"))
    name = f"{count:,} x {width:,}"
    return [
        *reported(f"{name}: open and read", times.wall),
        *reported(f"{name}: open and read, CPU", times.cpu),
    ]


def on_a_disk(folder: Path, count: int, deletions: int) -> list[Result]:
    """Measure deletions on a disk, whose syncs take most of their time."""
    name = f"{count:,} rows on a disk"
    ids = np.random.default_rng(0).permutation(count)[:deletions].tolist()
    make_file(folder / "memory.db", count, WIDTH)
    with MemoryFile.open(folder / "memory.db") as file, follower(file.path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return delete_one_by_one(file, ids, process, name)


def memory(device: str, rounds: int) -> list[Result]:
    """Measure memories of three sizes, and how the time of a deletion grows with their size.

    They are in RAM if there is room for files there, so that syncs cost nothing. One is on a disk.
    """
    results: list[Result] = []
    in_ram = SHARED if SHARED.is_dir() else None
    for size in SIZES:
        with tempfile.TemporaryDirectory(dir=in_ram) as folder:
            results += measured(Path(folder), size, min(100 * rounds, size // 10), rounds)
    with tempfile.TemporaryDirectory(dir=in_ram) as folder:
        results += opened(Path(folder), 4 * rounds)
    with tempfile.TemporaryDirectory() as folder:
        results += on_a_disk(Path(folder), SIZES[1], 50 * rounds)
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
