"""Audits of the main run's systems, each by itself: attacks on its answers, and a search of its files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import TypedDict

from munkey.audits.attacks.storage import NUMBERS, storage
from munkey.audits.evidence import Answers, Shipped
from munkey.audits.registry import AUDITS, Estimate, Refused
from munkey.core.diverged import DIVERGED, DivergedError, why_diverged
from munkey.core.files import read_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.evaluation.records import Evaluation

if TYPE_CHECKING:
    from munkey.memory.exemplars import ExemplarMemory

STORAGE_COLUMNS = ("dataset", "rate", "seed", "method", "title", "file", "ids", "ids_of", "rows", "rows_of", "why")
Line = dict[str, object]


class MemoryFiles(TypedDict):
    """A system with a memory as the plan lists it (munkey.experiment.plan.audits).

    key: dataset, rate, seed, method, title. files: its original's, then its own. forget: the file of its forget set.
    """

    key: Mapping[str, object]
    files: Sequence[str]
    forget: str


def attack_lines(run: Evaluation) -> list[Line]:
    """What each attack finds that needs nothing but logits, percent: AUROC and TPR with their intervals.

    Of a system that diverged, lines without numbers.
    """
    attacks = [entry for entry in AUDITS.values() if entry.needs == "logits"]
    arrays = read_npz(run.logits)
    if why_diverged(arrays):
        return [run.key | {"attack": attack.name} for attack in attacks]
    forget = np.isin(arrays["ids"], forget_sets.read(run.forget))
    train, test = arrays["splits"] == "train", arrays["splits"] == "test"
    answers = Answers(arrays["logits"], arrays["labels"], train & ~forget, forget, test)
    stage, lines = Stage(run.seed, run.dataset, "attacks", run.rate, run.method), []
    for attack in attacks:
        finding = attack.run(answers, (stage / attack.name).numpy_generator())
        line: Line = run.key | {"attack": attack.name}
        for number in ("auroc", "tpr_1"):
            estimate = getattr(finding, number, None)  # none where it refused
            line |= estimate.columns(number) if isinstance(estimate, Estimate) else {}
        lines.append(line)
    return lines


def storage_lines(system: MemoryFiles) -> list[Line]:
    """A line for each of both files: how many of the deleted ids it lists, and of the deleted keys and tokens it holds.

    In the original's file all must be found: it is the control. Where the search proves nothing, `why` says so. Tokens
    that are labels are not looked for: they tell no rows apart. What diverged has no memory to search.
    """
    forgotten = forget_sets.read(system["forget"])
    try:
        original, unlearned = map(_memory, system["files"])
    except DivergedError:
        none: Line = {"ids_of": len(forgotten), "rows_of": 0, "why": DIVERGED}
        return [{**system["key"], "file": kind, **none} for kind in ("original", "unlearned")]
    gone, lines = np.isin(original.ids.numpy(), forgotten), []
    held = [original.keys.numpy(), *[original.tokens.numpy()] * (original.tokens.shape[1] >= NUMBERS)]
    deleted, kept = ([row for rows in held for row in rows[of]] for of in (gone, ~gone))
    for kind, file, memory in zip(("original", "unlearned"), system["files"], (original, unlearned), strict=True):
        stored = storage(Shipped((Path(file),), deleted, kept, forgotten, memory.ids.numpy()))
        numbers: Line = {"ids_of": len(forgotten), "rows_of": len(deleted)}
        if isinstance(stored, Refused):
            numbers["why"] = stored.why
        else:
            numbers |= {"ids": len(stored.ids), "rows": stored.rows, "rows_of": stored.of}
        lines.append({**system["key"], "file": kind, **numbers})
    return lines


def _memory(path: str) -> "ExemplarMemory":
    from munkey.models import system

    memory = system.load(path).memory
    assert memory is not None
    return memory
