"""From the files of an audit to its evidence: margins of every model by path, model by model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict

from munkey.audits.attacks.residual_share import Share, residual_share
from munkey.audits.evidence import Halves, Pairs
from munkey.audits.family_audit import DEPLOYED, AuditedSystem, FamilyAudit, Role
from munkey.audits.margins import margins
from munkey.audits.registry import Estimate
from munkey.core.diverged import DIVERGED, why_diverged
from munkey.core.files import read_json, read_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared


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
    reasons: list[str] = []
    for number, file in enumerate(system["logits"]):
        arrays = read_npz(file)
        why = why_diverged(arrays)
        if why:
            reasons.append(f"seed {number}: {why}")
            continue
        for path, rows in phi.items():
            rows.append(path_margins(arrays, path))
        if number == 0 or system["role"] == "oracle":
            logits.append(arrays["logits"][np.isin(arrays["ids"], forgotten)])
    facts = system["name"], system["title"], system["role"]
    if reasons:
        return AuditedSystem(*facts, {}, np.empty(0), "; ".join(reasons))
    stacked = {path: np.stack(rows) for path, rows in phi.items()}
    return AuditedSystem(*facts, stacked, np.stack(logits))


@dataclass(frozen=True)
class TriedByAudit:
    """A candidate of a search. share: residual, percent; drop: largest loss of validation accuracy."""

    settings: Mapping[str, object]
    share: Estimate
    drop: float

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        share = f"residual share {self.share.value:.1f} [{self.share.low:.0f}, {self.share.high:.0f}] %"
        return f"{settings}: {share}, drop {self.drop:.1f}"


def by_audit(folder: Path, drop: float) -> Iterator[str]:
    """A block of lines per method, from the searches in an audit: which candidate leaves least of what was deleted.

    folder: of a data set's searches; drop: points of the original's validation accuracy that a setting may lose; those
    that lose more come last. Raises FileNotFoundError where there are no searches of an audit.
    """
    root, dataset = folder.parents[1], prepared.load(folder.parents[1] / "data" / folder.name)
    place = f"{folder.name}/audit/pool"
    paths = (root / "search" / place).glob("seed*/rate*/*/search.json")
    found = sorted(paths, key=lambda path: (int(path.parts[-4].removeprefix("seed")), str(path)))
    if not found:
        raise FileNotFoundError(f"{root / 'search' / place}: no searches; `make audits` with search: true makes them")
    seeds = sorted({int(path.parts[-4].removeprefix("seed")) for path in found})
    forgotten = [forget_sets.read(root / f"audit/{folder.name}/halves/seed{seed}.csv") for seed in seeds]
    for method in sorted({path.parent.name for path in found}):
        searches = [read_json(path) for path in found if path.parent.name == method]
        systems = [path.parent for path in found if path.parent.name == method]
        if len(searches) != len(seeds):
            yield f"{method}: searched with {len(searches)} of {len(seeds)} models; `make audits` goes on"
            continue
        tried = []
        for number, candidate in enumerate(searches[0]["candidates"]):
            if any(DIVERGED in each["candidates"][number] for each in searches):
                yield f"  {candidate['settings']}: {DIVERGED}"
                continue
            files = [each / f"{number}/system.safetensors" for each in systems]
            share = _share(dataset, files, [root / f"logits/{place}/seed{seed}/full" for seed in seeds], forgotten)
            drops = (each["original_val_accuracy"] - each["candidates"][number]["val_accuracy"] for each in searches)
            tried.append(TriedByAudit(candidate["settings"], share, max(drops)))
        yield f"{method} (n = {len(searches)} models)"
        yield from (f"  {each}" for each in sorted(tried, key=lambda each: (each.drop > drop, abs(each.share.value))))


def _share(
    dataset: prepared.Dataset, files: Sequence[Path], originals: Sequence[Path], forgotten: Sequence[np.ndarray]
) -> Estimate:
    """What is left after a method with some settings, of all models, in percent."""
    from munkey.data.image_set import image_set
    from munkey.models import system as systems
    from munkey.models.family import FAMILIES
    from munkey.settings import DataSettings

    answered, before = list[np.ndarray](), list[np.ndarray]()
    for file, folder in zip(files, originals, strict=True):
        left = systems.load(file)
        family, settings = FAMILIES[left.family], read_json(file.with_name("record.json"))["settings"]
        arrays = read_npz(folder / f"{family.original}.npz")
        samples = image_set(dataset, arrays["ids"])
        logits = family.logits(left, samples, DataSettings.model_validate(settings["data"]), "cpu", None)
        answered.append(margins(logits, samples.labels))
        before.append(margins(arrays["logits"], arrays["labels"]))
        halves = halves_of(str(folder / f"{family.original}.npz"), forgotten, {})
    share = residual_share(Pairs(np.stack(answered), halves, Pairs(np.stack(before), halves)))
    assert isinstance(share, Share)
    return share.share
