"""From the files of an audit to its evidence: margins of every model by path, model by model."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict

from munkey.audits.evidence import Halves
from munkey.audits.family_audit import DEPLOYED, AuditedSystem, FamilyAudit, Role
from munkey.audits.margins import margins
from munkey.core.files import read_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets


class PlannedSystem(TypedDict):
    """A system as the plan lists it (munkey.experiment.plan.audits). logits: files, a model each."""

    name: str
    title: str
    role: Role
    family: str
    paths: list[str]
    logits: list[str]


def family_audits(
    systems: Sequence[PlannedSystem], halves: Sequence[str | Path], stage: Stage
) -> Iterator[FamilyAudit]:
    """An audit for each family. halves: files of what each seed forgets."""
    forgotten, units = [forget_sets.read(path) for path in halves], forget_sets.read_units(halves[:2])
    for family in dict.fromkeys(system["family"] for system in systems):
        own = [system for system in systems if system["family"] == family]
        read = [_audited_system(system, forgotten[0]) for system in own]
        seen = halves_of(own[0]["logits"][0], forgotten, units)
        yield FamilyAudit(family, read, seen, (stage / family).numpy_generator())


def halves_of(logits: str, forgotten: Sequence[np.ndarray], units: Mapping[int, str]) -> Halves:
    """Who saw what. logits: a file with the samples' ids and splits; forgotten: what each seed forgets.

    units: by id, of what is in a half as a whole; else empty.
    """
    arrays = read_npz(logits, "ids", "splits")
    deleted = np.stack([np.isin(arrays["ids"], ids) for ids in forgotten])
    absent = deleted.reshape(-1, 2, deleted.shape[1])[:, ::-1].reshape(deleted.shape)
    of = np.array([units.get(one, "") for one in arrays["ids"].tolist()]) if units else None
    return Halves(deleted, absent, arrays["splits"] == "test", of)


def path_margins(arrays: Mapping[str, np.ndarray], path: str) -> np.ndarray:
    """(N,): the margins of a model asked on a path. arrays: as `munkey.evaluation.predict` makes them."""
    return margins(arrays["logits" if path == DEPLOYED else f"path_{path}"], arrays["labels"])


def _audited_system(system: PlannedSystem, forgotten: np.ndarray) -> AuditedSystem:
    phi: dict[str, list[np.ndarray]] = {path: [] for path in system["paths"]}
    logits: list[np.ndarray] = []
    for number, file in enumerate(system["logits"]):
        arrays = read_npz(file)
        for path, rows in phi.items():
            rows.append(path_margins(arrays, path))
        if number == 0 or system["role"] == "oracle":
            logits.append(arrays["logits"][np.isin(arrays["ids"], forgotten)])
    stacked = {path: np.stack(rows) for path, rows in phi.items()}
    return AuditedSystem(system["name"], system["title"], system["role"], stacked, np.stack(logits))
