"""From the files of an audit to its evidence: margins of every model by path, model by model."""

from collections.abc import Iterator, Sequence
from typing import TypedDict

import numpy as np

from munkey.audits.evidence import Halves
from munkey.audits.family_audit import DEPLOYED, Asked, FamilyAudit, Role
from munkey.audits.margins import margins
from munkey.core.files import read_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets


class Listed(TypedDict):
    """A system as the plan lists it (munkey.experiment.plan.audits). logits: files, a model each."""

    name: str
    title: str
    role: Role
    family: str
    paths: list[str]
    logits: list[str]


def family_audits(systems: Sequence[Listed], halves: Sequence[str], stage: Stage) -> Iterator[FamilyAudit]:
    """An audit for each family. halves: files of what each seed forgets."""
    forgotten = [forget_sets.read(path) for path in halves]
    for family in dict.fromkeys(system["family"] for system in systems):
        own = [system for system in systems if system["family"] == family]
        asked = [_asked(system, forgotten[0]) for system in own]
        known = halves_of(own[0]["logits"][0], forgotten)
        yield FamilyAudit(family, asked, known, (stage / family).numpy_generator())


def halves_of(logits: str, forgotten: Sequence[np.ndarray]) -> Halves:
    """Who saw what. logits: a file with the samples' ids and splits; forgotten: what each seed forgets."""
    kept = read_npz(logits, "ids", "splits")
    deleted = np.stack([np.isin(kept["ids"], ids) for ids in forgotten])
    absent = deleted.reshape(-1, 2, deleted.shape[1])[:, ::-1].reshape(deleted.shape)
    return Halves(deleted, absent, kept["splits"] == "test")


def _asked(system: Listed, forgotten: np.ndarray) -> Asked:
    phi: dict[str, list[np.ndarray]] = {path: [] for path in system["paths"]}
    logits: list[np.ndarray] = []
    for number, file in enumerate(system["logits"]):
        arrays = read_npz(file)
        for path, rows in phi.items():
            rows.append(margins(arrays["logits" if path == DEPLOYED else f"path_{path}"], arrays["labels"]))
        if number == 0 or system["role"] == "oracle":
            logits.append(arrays["logits"][np.isin(arrays["ids"], forgotten)])
    stacked = {path: np.stack(rows) for path, rows in phi.items()}
    return Asked(system["name"], system["title"], system["role"], stacked, np.stack(logits))
