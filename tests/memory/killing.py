"""Kills writers again and again, and counts lost changes: `python -m tests.memory.killing KILLS SEED FOLDER`.

A forked child opens the memory and changes it at random; it announces each change on a pipe and
acknowledges it there. It dies in one of three ways: its parent kills it after a random time; it
kills itself before a random statement of SQL; or the kernel kills it in the middle of a write that
makes a file longer than a random limit, which hits every frame of the log, every page of a
checkpoint, and every part of a purge. A reader that was open all the time must see each
acknowledged change, with the change under way done wholly or not at all. Then the memory is opened again:
it must be sound, and the same, or have the whole change that the reader did not see yet.
"""

import json
import os
import resource
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from munkey.memory.memory_file import MemoryFile
from tests.memory.inputs import add, content, create, raw

LOG = -1  # stands in a model of the memory, beside the ids, for its log of deletions
LIKELY = {"add": 3, "delete": 4, "batch": 2, "request": 1, "empty": 1, "purge": 2, "close": 1}
DELETIONS = {"delete", "batch", "request"}  # the last one of no row: its number alone is recorded
MAX_ROWS = 400

Model = dict[int, bytes]
Say = Callable[[dict[str, object]], None]


def state(file: MemoryFile) -> Model:
    """The rows by id, and the log of deletions."""
    log = [[len(receipt.sequences), receipt.request] for receipt in file.log()]
    return content(file) | {LOG: json.dumps(log).encode()}


def arm(random: np.random.Generator, path: Path) -> None:
    """Let this process die at a random statement, or in the middle of a random write."""
    if random.integers(2):
        fuse = [int(random.integers(1, 120))]

        class Mortal(sqlite3.Connection):
            def execute(self, *arguments):
                fuse[0] -= 1
                if fuse[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().execute(*arguments)

            def executemany(self, *arguments):
                self.execute("SELECT 1")
                return super().executemany(*arguments)

        connect = sqlite3.connect
        sqlite3.connect = lambda *a, **k: connect(*a, **k, factory=Mortal)
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        # The first pages of the file, the whole log, or, in a purge, a longer log than ever before.
        largest = (60_000, 250_000, 2 * path.stat().st_size)[random.integers(3)]
        limit = int(random.integers(33_000, largest))  # SQLite's -shm has 32 KiB
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def work(path: Path, say: Say, random: np.random.Generator) -> None:
    """Change the memory without end."""
    names = list(LIKELY)
    weights = np.array(list(LIKELY.values())) / sum(LIKELY.values())
    say({"step": "open"})
    file = MemoryFile.open(path)
    while True:
        step = str(random.choice(names, p=weights))
        row_ids = sorted(content(file))
        counts = {"delete": 1, "batch": int(random.integers(2, 30))}
        ids = random.choice(row_ids, min(len(row_ids), counts.get(step, 0)), replace=False).tolist()
        seed = int(random.integers(1 << 30))
        if step == "add" and len(row_ids) > MAX_ROWS:
            continue
        request = None
        if step == "request" or random.integers(2):
            request = f"request {random.integers(1 << 40)}"
        say({"step": step, "ids": ids, "seed": seed, "request": request})
        if step == "add":
            add(file, seed % 40, seed)
        elif step in DELETIONS:
            file.delete(ids, request=request, block_return=bool(random.integers(2)))
        elif step == "empty":
            file.empty_log()
        elif step == "purge":
            file.purge()
        elif step == "close":
            file.close()
        say({"done": step})
        if step == "close":
            say({"step": "open"})
            file = MemoryFile.open(path)


def watch_until_killed(path: Path, random: np.random.Generator) -> tuple[list[dict], Model]:
    """Return the messages of a child until it was killed, and the memory that an open reader sees then."""
    reading, writing = os.pipe()
    waiting, going = os.pipe()
    by_itself = bool(random.integers(4))
    seed = int(random.integers(1 << 30))
    child = os.fork()
    if child == 0:
        try:
            os.read(waiting, 1)  # the reader is open then
            own_random = np.random.default_rng(seed)
            if by_itself:
                arm(own_random, path)
            work(
                path,
                lambda said: os.write(writing, json.dumps(said).encode() + b"\n"),
                own_random,
            )
        except BaseException as error:
            os.write(2, f"the child failed: {error!r}\n".encode())
        finally:
            os._exit(1)
    os.close(writing)
    with MemoryFile.open(path) as reader:
        os.write(going, b"!")
        # A child that reaches none of its limits is killed by its parent in the end.
        seconds = 0.5 if by_itself else random.uniform(0, 0.06)
        deadline = time.monotonic() + seconds
        status = None
        while status is None and time.monotonic() < deadline:
            content(reader)  # refreshed by its difference, again and again
            if by_itself:
                time.sleep(0.002)
            ended, wait_status = os.waitpid(child, os.WNOHANG)
            status = wait_status if ended else None
        if status is None:
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
        with os.fdopen(reading, "rb") as pipe:
            lines = pipe.read().splitlines()
        assert os.WTERMSIG(status) in {signal.SIGKILL, signal.SIGXFSZ}, "the child failed by itself"
        model_seen = state(reader)
    for descriptor in (waiting, going):
        os.close(descriptor)
    return [json.loads(line) for line in lines], model_seen


def apply(model: Model, change: dict) -> Model:
    """Return the memory after a change."""
    after = dict(model)
    if change["step"] == "add":
        ids, keys, tokens = raw(change["seed"] % 40, change["seed"])
        after |= expected(ids, keys, tokens)
    if change["step"] in DELETIONS and (change["ids"] or change["request"]):
        for row_id in change["ids"]:
            del after[row_id]
        log = [*json.loads(after[LOG]), [len(change["ids"]), change["request"]]]
        after[LOG] = json.dumps(log).encode()
    return after


def expected(ids: np.ndarray, keys: np.ndarray, tokens: np.ndarray) -> Model:
    """What `content` must say of rows that `add` adds."""
    from munkey.memory.rows import digest_keys
    from tests.memory.inputs import files_of, units_of

    rows = {}
    for row_id, key, token, digest, file, unit in zip(
        ids.tolist(), keys, tokens, digest_keys(keys), files_of(ids), units_of(ids), strict=True
    ):
        names = f"{file} {unit} -1".encode()
        rows[row_id] = key.tobytes() + token.tobytes() + digest.tobytes() + names
    return rows


def check(path: Path, allowed: list[Model]) -> Model:
    """Open the memory, which must be one of the allowed ones, and sound."""
    with MemoryFile.open(path) as file:
        assert not Path(f"{path}-wal").stat().st_size, "the log of the killed writer is left"
        now = state(file)
        assert now in allowed, "neither before nor after"
        report = file.verify()
        assert report.sound, str(report)
    return now


def main(kills: int, seed: int, folder: Path) -> dict[str, int]:
    """Return how many kills hit each kind of change, and how many changes were acknowledged."""
    random = np.random.default_rng(seed)
    hits = Counter[str]()
    path = folder / "memory.db"
    with create(path, 60) as file:
        model = state(file)
    for number in range(1, kills + 1):
        allowed = [model]
        changes, model_seen = watch_until_killed(path, random)
        for one in changes:
            if "done" in one:
                allowed = [allowed[-1]]
            else:
                allowed = [allowed[0], apply(allowed[0], one)]
        assert model_seen in allowed, "an open reader sees what is not, or not what is"
        hits["acknowledged"] += sum("done" in one for one in changes)
        steps = [str(one["step"]) for one in changes if "step" in one]
        hits[steps[-1] if steps else "start"] += 1
        model = check(path, allowed)
        # Others see a commit once the index of the log has it. Whoever opens the memory first makes a
        # new index, and finds the commit of a writer that was killed just before that.
        assert allowed.index(model) >= allowed.index(model_seen), (
            "what an open reader has seen is gone"
        )
        if number % 50 == 0:
            print(number, dict(hits), file=sys.stderr, flush=True)
    return dict(sorted(hits.items()))


if __name__ == "__main__":
    Path(sys.argv[3]).mkdir(parents=True, exist_ok=True)
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
