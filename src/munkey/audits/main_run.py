"""Audits of single systems of the main run: attacks on answers, and a search of files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict

from munkey.audits.attacks.storage import NUMBERS, storage
from munkey.audits.evidence import Answers, ShippedFiles
from munkey.audits.registry import AUDITS, Estimate, NoFinding
from munkey.core.diverged import DIVERGED, DivergedError, explain_divergence
from munkey.core.files import read_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.evaluation.records import Evaluation
from munkey.models.family import FAMILIES, FittedFamily, System

STORAGE_COLUMNS = (
    "dataset",
    "rate",
    "seed",
    "method",
    "title",
    "file",
    "ids",
    "ids_of",
    "rows",
    "rows_of",
    "deletion",
    "why",
)
FILES = ("original", "unlearned")
Line = dict[str, object]


class MemoryFiles(TypedDict):
    """A system with a memory in the plan (munkey.experiment.plan.audits).

    Attributes
    ----------
    key
        Its dataset, rate, seed, method and title.
    files
        The files of its original and of itself.
    forget
        The file of its forget set.
    """

    key: Mapping[str, object]
    files: Sequence[str]
    forget: str


def make_attack_lines(run: Evaluation) -> list[Line]:
    """Return a line for each attack on logits: AUROC and TPR with intervals, in percent.

    Lines of a system that diverged have no numbers.
    """
    attacks = [entry for entry in AUDITS.values() if entry.needs == "logits"]
    arrays = read_npz(run.logits)
    if explain_divergence(arrays):
        return [run.key | {"attack": attack.name} for attack in attacks]
    forget = np.isin(arrays["ids"], forget_sets.read(run.forget))
    answers = Answers(
        logits=arrays["logits"],
        labels=arrays["labels"],
        retain=(arrays["splits"] == "train") & ~forget,
        forget=forget,
        test=arrays["splits"] == "test",
    )
    stage = Stage(run.seed, run.dataset, "attacks", run.rate, run.method)
    lines = []
    for attack in attacks:
        finding = attack.run(answers, (stage / attack.name).numpy_generator())
        line: Line = run.key | {"attack": attack.name}
        for number in ("auroc", "tpr_1"):
            estimate = getattr(finding, number, None)
            if isinstance(estimate, Estimate):  # not refused
                line |= estimate.columns(number)
        lines.append(line)
    return lines


def make_storage_lines(system: MemoryFiles) -> list[Line]:
    """Return a line for each of the two files: how many deleted ids, keys and tokens it contains.

    The original's file is the control: it must contain all. If the search proves nothing, `why`
    says so. It does not look for tokens that are labels, which do not identify a row, nor in
    systems that diverged, which have no memory. `deletion` says how exact it is, by `describe_exactness`.
    """
    forgotten = forget_sets.read(system["forget"])
    try:
        systems = [_load_system(file) for file in system["files"]]
    except DivergedError:
        nothing_found: Line = {"ids_of": len(forgotten), "rows_of": 0, "why": DIVERGED}
        return [{**system["key"], "file": kind, **nothing_found} for kind in FILES]
    memories = [loaded.require_memory() for loaded in systems]
    original = memories[0]
    matrices = [original.keys.numpy()]
    if original.tokens.shape[1] >= NUMBERS:
        matrices.append(original.tokens.numpy())
    is_deleted = np.isin(original.ids.numpy(), forgotten)
    deleted: list[np.ndarray] = []
    remaining: list[np.ndarray] = []
    for matrix in matrices:
        deleted.extend(matrix[is_deleted])
        remaining.extend(matrix[~is_deleted])

    lines = []
    for kind, file, memory in zip(FILES, system["files"], memories, strict=True):
        shipped = ShippedFiles((Path(file),), deleted, remaining, forgotten, memory.ids.numpy())
        finding = storage(shipped)
        cells: Line = {"ids_of": len(forgotten), "rows_of": len(deleted)}
        cells["deletion"] = describe_exactness(systems[0])
        if isinstance(finding, NoFinding):
            cells["why"] = finding.why
        else:
            cells |= {"ids": len(finding.ids), "rows": finding.rows, "rows_of": finding.of}
        lines.append({**system["key"], "file": kind, **cells})
    return lines


def describe_exactness(system: System) -> str | None:
    """Describe whether deleting rows of a system gives the oracle: `exact`, or `exact given` constants.

    No deletion changes these constants. None for a system whose weights keep what they learned from
    the rows.
    """
    family = FAMILIES[system.family]
    if not isinstance(family, FittedFamily) or not family.exact:
        return None
    constants = family.list_constants(family.get_settings(system))
    if not constants:
        return "exact"
    return f"exact given {' and '.join(constants)}"


def _load_system(path: str) -> System:
    from munkey.models import system

    return system.load(path)
