"""Kills the writer of a model again and again: `python -m tests.deploy.killing KILLS SEED DIRECTORY`.

What is left must be what was acknowledged, with the operation under way done wholly or not at all, and the source file
of each sample that is held and of no other: for whoever opens it next, a reader or a writer.
"""

import json
import sys
from pathlib import Path

import numpy as np

from munkey.deploy.model.predictor import Predictor
from tests.deploy.store.inputs import numbers
from tests.deploy.store.killing import killed_at_random

LIKELY = {"forget": 4, "files": 4, "add": 2, "purge": 1, "compact": 1}


def file_of(one: int) -> str:
    return f"pets/{one}.png"


def work(directory: Path, say, random: np.random.Generator) -> None:
    """Forget by id and by file, remember, purge and compact, without end."""
    names, weights = list(LIKELY), np.array(list(LIKELY.values())) / sum(LIKELY.values())
    with Predictor.load(directory, writer=True) as model:
        while True:
            step, held = str(random.choice(names, p=weights)), model.ids
            ids = random.choice(held, min(len(held), int(random.integers(1, 4))), replace=False).tolist()
            if step == "add":
                ids = (1000 + random.choice(1 << 40, 8, replace=False)).tolist()
            say({"step": step, "ids": ids})
            if step == "forget":
                model.forget(ids)
            elif step == "files":
                model.forget_files([file_of(one) for one in ids])
            elif step == "add":  # as `Predictor.add` does after the encoder
                rows = (numbers(len(ids), ids[0], width) for width in (model.store.state.key_width, 5))
                model.store.add(ids, *rows, [0] * len(ids), list(map(file_of, ids)))
            else:
                getattr(model, step)()
            say({"done": step})


def after(held: frozenset[int], said: dict) -> frozenset[int]:
    if said["step"] in {"purge", "compact"}:
        return held
    return held | set(said["ids"]) if said["step"] == "add" else held - set(said["ids"])


def held_by(directory: Path, writer: bool) -> frozenset[int]:
    """The samples of a model, which must be sound and name the source files of exactly these."""
    with Predictor.load(directory, writer=writer) as model:
        report = model.verify()
        assert report.sound, str(report)
        view = model.store.view
        rows = np.flatnonzero(view.live)
        ids = view.ids[rows].tolist()
        assert model.store.files_of(rows) == list(map(file_of, ids)), "a source file is missing, or another sample's"
        return frozenset(ids)


def main(kills: int, seed: int, directory: Path) -> dict[str, int]:
    """How many kills left the operation under way undone, and how many left it done."""
    random, held = np.random.default_rng(seed), held_by(directory, writer=True)
    hits = {"undone": 0, "done": 0}
    for number in range(kills):
        before = then = held
        for said in killed_at_random(directory, work, 60, random):
            before, then = (then, then) if "done" in said else (then, after(then, said))
        held = held_by(directory, writer=bool(number % 2))
        assert held in {before, then}, "neither before nor after"
        if before != then:
            hits["done" if held == then else "undone"] += 1
    return hits


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
