"""Audits of single systems of the main run: attacks on logits, and a search of files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict

from munkey.audits.attacks.storage import NUMBERS, storage
from munkey.audits.evidence import Predictions, ShippedFiles
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
Row = dict[str, object]


class MemoryFiles(TypedDict):
    """A system with a memory in the plan (munkey.studies.audits.plan).

    Attributes
    ----------
    key
        Its dataset, rate, seed, method and title.
    files
        The files of its original and of the system itself.
    forget
        Its forget set file.
    """

    key: Mapping[str, object]
    files: Sequence[str]
    forget: str


def make_attack_rows(run: Evaluation) -> list[Row]:
    """Make a row for each attack on logits: AUROC and TPR at 1% with intervals, in percent.

    Numbers are missing from a row if the system diverged, or if there are too few test samples.
    """
    attacks = [entry for entry in AUDITS.values() if entry.needs == "logits"]
    arrays = read_npz(run.logits)
    if explain_divergence(arrays):
        return [run.key | {"attack": attack.name} for attack in attacks]
    forget = np.isin(arrays["ids"], forget_sets.read(run.forget))
    predictions = Predictions(
        logits=arrays["logits"],
        labels=arrays["labels"],
        retain=(arrays["splits"] == "train") & ~forget,
        forget=forget,
        test=arrays["splits"] == "test",
    )
    stage = Stage(run.seed, run.dataset, "attacks", run.rate, run.method)
    rows = []
    for attack in attacks:
        finding = attack.run(predictions, (stage / attack.name).numpy_generator())
        row: Row = run.key | {"attack": attack.name}
        for number in ("auroc", "tpr_1"):
            estimate = getattr(finding, number, None)
            if isinstance(estimate, Estimate):  # otherwise, there are too few test samples
                row |= estimate.make_columns(number)
        rows.append(row)
    return rows


def make_storage_rows(system: MemoryFiles) -> list[Row]:
    """Make a row for each of the two files: how many deleted ids, keys and tokens it contains.

    The original's file is the control and must contain all of them. If the search proves nothing,
    `why` has the reason. Tokens that consist of few numbers, such as labels, are not searched for,
    because they do not identify a row. Diverged systems have no memory to search. `deletion` is the
    result of `describe_exactness`.
    """
    forgotten = forget_sets.read(system["forget"])
    try:
        systems = [_load_system(file) for file in system["files"]]
    except DivergedError:
        cells_if_diverged: Row = {"ids_of": len(forgotten), "rows_of": 0, "why": DIVERGED}
        return [{**system["key"], "file": kind, **cells_if_diverged} for kind in FILES]
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

    rows = []
    for kind, file, memory in zip(FILES, system["files"], memories, strict=True):
        shipped = ShippedFiles((Path(file),), deleted, remaining, forgotten, memory.ids.numpy())
        finding = storage(shipped)
        cells: Row = {"ids_of": len(forgotten), "rows_of": len(deleted)}
        cells["deletion"] = describe_exactness(systems[0])
        if isinstance(finding, NoFinding):
            cells["why"] = finding.why
        else:
            cells |= {"ids": len(finding.ids), "rows": finding.rows, "rows_of": finding.of}
        rows.append({**system["key"], "file": kind, **cells})
    return rows


def describe_exactness(system: System) -> str | None:
    """Describe whether deleting rows gives the oracle, bit for bit.

    Returns `exact`, or `exact given CONSTANTS` if the system has constants that deletions do not
    change. Returns None if its weights retain what they learned from the rows.
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
