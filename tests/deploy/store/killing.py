"""Kills a writer again and again, and counts what is lost: `python -m tests.deploy.store.killing KILLS SEED FOLDER`.

A forked child opens the memory and runs random operations; it announces each on a pipe and acknowledges it there. It is
killed either by its parent after a random time, or by itself at a random write, sync or transaction. A reader that was
open all the time must see nothing whose deletion was acknowledged. Then the memory is opened: it must be what was
acknowledged, with the operation under way done wholly or not at all.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from munkey.deploy.store import disk, ledger
from munkey.deploy.store.matrices import NAMES
from munkey.deploy.store.rows import RECORD
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import add, content, create, expected, raw, sources

LOG = -1  # stands in a model of the memory, beside the ids, for its log of deletions
LIKELY = {
    "add": 3,
    "delete": 4,
    "batch": 2,
    "request": 1,
    "settle": 1,
    "purge": 1,
    "compact": 1,
    "close": 1,
}


DELETIONS = {"delete", "batch", "request"}  # the last one of no row: its number alone is recorded


def counted(step: Callable[..., object], fuse: list[int]) -> Callable[..., object]:
    """The same, and kills this process before it when the fuse has burned down."""

    def killing(*arguments: object) -> object:
        fuse[0] -= 1
        if fuse[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*arguments)

    return killing


def arm(events: int) -> None:
    """Kill this process at so many writes, cuts, syncs and ends of transactions from now."""
    fuse = [events]
    for name in ("write", "truncate", "sync", "sync_folder"):
        setattr(disk, name, counted(getattr(disk, name), fuse))
    for name in ("delete", "record_zeros", "switch_generation", "vacuum", "empty_wal"):
        setattr(ledger.Ledger, name, counted(getattr(ledger.Ledger, name), fuse))


def work(
    folder: Path, say: Callable[[dict[str, object]], None], random: np.random.Generator
) -> None:
    """Random operations without end."""
    names, weights = list(LIKELY), np.array(list(LIKELY.values())) / sum(LIKELY.values())
    store = opened(folder, say)
    while True:
        step, held = str(random.choice(names, p=weights)), sorted(content(store))
        count = min(len(held), {"delete": 1, "batch": int(random.integers(2, 30))}.get(step, 0))
        ids = random.choice(held, count, replace=False).tolist() if count else []
        seed = int(random.integers(1 << 30)) if len(held) < 400 else None
        request = (
            f"request {random.integers(1 << 40)}"
            if step == "request" or random.integers(2)
            else None
        )
        say({"step": step, "ids": ids, "seed": seed, "request": request})
        if step == "add" and seed is not None:
            add(store, seed % 40, seed)
        elif step in DELETIONS:
            store.delete(ids, request=request, block_return=bool(random.integers(2)))
        elif step in {"settle", "purge", "compact", "close"}:
            getattr(store, step)()
        say({"done": step})
        if step == "close":
            store = opened(folder, say)


def state(store: Store) -> dict[int, bytes]:
    """The rows by id, and the log. `verify` compares it with what is blocked."""
    return content(store) | {
        LOG: json.dumps([[len(it.sequences), it.request] for it in store.log()]).encode()
    }


def opened(folder: Path, say: Callable[[dict[str, object]], None]) -> Store:
    say({"step": "open"})
    return Store.open(folder, writer=True)


def recover_only(
    folder: Path, say: Callable[[dict[str, object]], None], _: np.random.Generator
) -> None:
    opened(folder, say)
    os.kill(os.getpid(), signal.SIGKILL)


Work = Callable[[Path, Callable[[dict[str, object]], None], np.random.Generator], None]


def watched_until_killed(
    folder: Path, random: np.random.Generator
) -> tuple[list[dict[str, object]], dict[int, bytes]]:
    """What a child said until it was killed, and what a reader that was open all the time sees then."""
    (waiting, going), reader = os.pipe(), []

    def work_when_read(*arguments: Any) -> None:
        os.read(waiting, 1)  # SQLite must not be open across a fork: the reader opens after it
        work(*arguments)

    def read() -> None:
        reader.append(Store.open(folder))
        os.write(going, b"!")

    said = killed_at_random(folder, work_when_read, 80, random, read)
    os.close(waiting)
    os.close(going)
    with reader[0]:
        return said, state(reader[0])


def killed_at_random(
    folder: Path,
    work: Work,
    events: int,
    random: np.random.Generator,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[dict[str, object]]:
    """What a child said until it was killed, by itself after at most so many events, or after up to 40 ms."""
    reading, writing = os.pipe()
    by_itself, seed, fuse = (
        bool(random.integers(2)),
        int(random.integers(1 << 30)),
        int(random.integers(1, events)),
    )
    if (child := os.fork()) == 0:
        try:
            if by_itself:
                arm(fuse)
            work(
                folder,
                lambda said: os.write(writing, json.dumps(said).encode() + b"\n"),
                np.random.default_rng(seed),
            )
        finally:
            os._exit(1)  # it failed
    os.close(writing)
    meanwhile()
    if not by_itself:
        time.sleep(random.uniform(0, 0.04))
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().splitlines()
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, "the child failed by itself"
    return [json.loads(line) for line in lines]


def applied(model: dict[int, bytes], said: dict[str, object]) -> dict[int, bytes]:
    """The memory after an operation."""
    after = dict(model)
    if said["step"] == "add" and said["seed"] is not None:
        after |= expected(*raw(said["seed"] % 40, said["seed"]))
    if said["step"] in DELETIONS and (said["ids"] or said["request"]):
        for i in said["ids"]:
            del after[i]
        after[LOG] = json.dumps(
            [*json.loads(after[LOG]), [len(said["ids"]), said["request"]]]
        ).encode()
    return after


def check(folder: Path, allowed: list[dict[int, bytes]]) -> dict[int, bytes]:
    """Open the memory, which must be one of the allowed ones and hold nothing that was deleted."""
    with Store.open(folder, writer=True) as store:
        now, view = state(store) if LOG in allowed[0] else content(store), store.view
        assert now in allowed, "neither before nor after"
        assert not (folder / "store.db-wal").stat().st_size, (
            "the log of the killed writer is left, names in it"
        )
        assert not any(
            part[~view.live].view("u1").any() for part in view.take_rows(np.arange(len(view.live)))
        ), "not zero"
        live = np.flatnonzero(view.live)
        assert store.read_sources(live) == sources(view.ids[live]), (
            "a file or unit is missing, or another row's"
        )
        report = store.verify()  # no source file belongs to any other row
        assert report.sound, str(report)
        generations = [path.name for path in folder.glob("generation-*")]
        assert generations == [f"generation-{view.generation}"], "a generation is left"
        sizes = {path.name: path.stat().st_size for path in folder.glob("generation-*/*")}
        assert sizes["live"] == len(view.live) and sizes["records"] == RECORD.itemsize * len(
            view.live
        ), "a tail is left"
        assert {path.name for path in store.folder.glob("generation-*/*")} == {*NAMES}, (
            "a file is left"
        )
    return now


def main(kills: int, seed: int, folder: Path) -> dict[str, int]:
    """How many kills hit each operation, and how many operations had been acknowledged."""
    random, hits = np.random.default_rng(seed), Counter[str]()
    with create(folder, 60) as store:
        model = state(store)
    while hits.total() - hits["acknowledged"] < kills:
        allowed = [model]
        said, seen = watched_until_killed(folder, random)
        for one in said:
            allowed = [allowed[-1]] if "done" in one else [allowed[0], applied(allowed[0], one)]
        before, after = (allowed[0].items(), allowed[-1].items())
        assert before & after <= seen.items() <= before | after, (
            "an open reader sees what is not, or not what is"
        )
        hits["acknowledged"] += sum("done" in one for one in said)
        hits[next((str(one["step"]) for one in reversed(said) if "step" in one), "start")] += 1
        while random.integers(2):
            killed_at_random(folder, recover_only, 16, random)
            hits["recovery"] += 1
        model = check(folder, allowed)
    return dict(sorted(hits.items()))


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
