"""Storage in the main run: what an unlearned system's file holds of what it deleted, and its original's."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from munkey.audits.attacks.storage import storage
from munkey.audits.evidence import Shipped
from munkey.audits.registry import Refused
from munkey.data import forget_sets

if TYPE_CHECKING:
    from munkey.memory.exemplars import ExemplarMemory

COLUMNS = ("dataset", "rate", "seed", "method", "title", "file", "ids", "ids_of", "rows", "rows_of", "why")


class Held(TypedDict):
    """A system with a memory as the plan lists it (munkey.experiment.plan.audits).

    key: dataset, rate, seed, method, title. files: its original's, then its own. forget: the file of its forget set.
    """

    key: Mapping[str, object]
    files: Sequence[str]
    forget: str


def searched(held: Held) -> list[dict[str, object]]:
    """A line for each of both files: how many of the deleted ids it lists, and of the deleted keys and tokens it holds.

    In the original's file all must be found: it is the control. Where the search proves nothing, `why` says so.
    """
    forgotten, (original, unlearned) = forget_sets.read(held["forget"]), map(_memory, held["files"])
    gone = np.isin(original.ids.numpy(), forgotten)
    lines = []
    for kind, file, memory in zip(("original", "unlearned"), held["files"], (original, unlearned), strict=True):
        shipped = Shipped((Path(file),), _rows(original, gone), _rows(original, ~gone), forgotten, memory.ids.numpy())
        found = storage(shipped)
        numbers: dict[str, object] = {"ids_of": len(forgotten), "rows_of": len(shipped.deleted)}
        if isinstance(found, Refused):
            numbers["why"] = found.why
        else:
            numbers |= {"ids": len(found.ids), "rows": found.rows, "rows_of": found.of}
        lines.append({**held["key"], "file": kind, **numbers})
    return lines


def _memory(path: str) -> "ExemplarMemory":
    from munkey.models import system

    memory = system.load(path).memory
    assert memory is not None
    return memory


def _rows(memory: "ExemplarMemory", members: np.ndarray) -> list[np.ndarray]:
    """The keys and the tokens of some members."""
    return [*memory.keys.numpy()[members], *memory.tokens.numpy()[members]]
