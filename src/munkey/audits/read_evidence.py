"""Reads the evidence of audits from their files: margins of every model, by path."""

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
from munkey.core.diverged import DIVERGED, explain_divergence
from munkey.core.files import read_json, read_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared


class PlannedSystem(TypedDict):
    """A system in the plan (munkey.experiment.plan.audits).

    Attributes
    ----------
    logits
        A file for each model.
    """

    name: str
    title: str
    role: Role
    family: str
    paths: list[str]
    logits: list[str]


def read_audits(
    systems: Sequence[PlannedSystem], halves: Sequence[str | Path], stage: Stage
) -> Iterator[FamilyAudit]:
    """Read the evidence of the audit of each family.

    Parameters
    ----------
    halves
        A forget set file for each seed.
    """
    forgotten = [forget_sets.read(path) for path in halves]
    units = forget_sets.read_units(halves[:2])
    by_family: dict[str, list[PlannedSystem]] = {}
    for system in systems:
        by_family.setdefault(system["family"], []).append(system)
    for family, family_systems in by_family.items():
        yield FamilyAudit(
            family,
            systems=[_read_system(system, forgotten[0]) for system in family_systems],
            # All systems answer the same samples, so any of their files tells ids and splits.
            halves=read_halves(family_systems[0]["logits"][0], forgotten, units),
            generator=(stage / family).numpy_generator(),
        )


def read_halves(logits: str, forgotten: Sequence[np.ndarray], units: Mapping[int, str]) -> Halves:
    """Return the halves of an audit.

    Parameters
    ----------
    forgotten
        Ids of the forget set of each seed.
    logits
        A file with ids and splits of all samples.
    units
        By id, if halves are of whole units; otherwise empty.
    """
    arrays = read_npz(logits, "ids", "splits")
    deleted = np.stack([np.isin(arrays["ids"], ids) for ids in forgotten])
    absent = deleted.reshape(-1, 2, deleted.shape[1])[:, ::-1].reshape(deleted.shape)
    unit_names = None
    if units:
        unit_names = np.array([units.get(sample_id, "") for sample_id in arrays["ids"].tolist()])
    return Halves(deleted, absent, arrays["splits"] == "test", unit_names)


def read_path_margins(arrays: Mapping[str, np.ndarray], path: str) -> np.ndarray:
    """Return the margins (N,) of a model on a path.

    Parameters
    ----------
    arrays
        Its predictions.
    """
    name = "logits" if path == DEPLOYED else f"path_{path}"
    return margins(arrays[name], arrays["labels"])


def _read_system(system: PlannedSystem, forgotten: np.ndarray) -> AuditedSystem:
    phi: dict[str, list[np.ndarray]] = {path: [] for path in system["paths"]}
    logits: list[np.ndarray] = []
    reasons: list[str] = []
    for number, file in enumerate(system["logits"]):
        arrays = read_npz(file)
        why = explain_divergence(arrays)
        if why:
            reasons.append(f"seed {number}: {why}")
            continue
        for path, rows in phi.items():
            rows.append(read_path_margins(arrays, path))
        if number == 0 or system["role"] == "oracle":
            logits.append(arrays["logits"][np.isin(arrays["ids"], forgotten)])
    system_margins: dict[str, np.ndarray] = {}
    forget_logits = np.empty(0)
    if not reasons:  # no model diverged
        system_margins = {path: np.stack(rows) for path, rows in phi.items()}
        forget_logits = np.stack(logits)
    return AuditedSystem(
        name=system["name"],
        title=system["title"],
        role=system["role"],
        margins=system_margins,
        logits=forget_logits,
        diverged="; ".join(reasons),
    )


@dataclass(frozen=True)
class AuditedCandidate:
    """A candidate of a search.

    Attributes
    ----------
    drop
        The largest loss of validation accuracy.
    """

    settings: Mapping[str, object]
    share: Estimate
    drop: float

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        share = self.share
        interval = f"[{share.low:.0f}, {share.high:.0f}] %"
        return f"{settings}: residual share {share.value:.1f} {interval}, drop {self.drop:.1f}"


def describe_searches(folder: Path, drop: float) -> Iterator[str]:
    """Yield a block of lines per method, from the searches in an audit: candidates by residual share.

    Raises FileNotFoundError without searches.

    Parameters
    ----------
    folder
        Of a data set's searches.
    drop
        Points of the original's validation accuracy that a candidate may lose; those that lose
        more come last.
    """
    root = folder.parents[1]
    dataset = prepared.load(root / "data" / folder.name)
    place = f"{folder.name}/audit/pool"
    paths = list((root / "search" / place).glob("seed*/rate*/*/search.json"))
    if not paths:
        raise FileNotFoundError(
            f"{root / 'search' / place}: no searches; `make audits` with search: true makes them"
        )
    paths.sort(key=lambda path: (_seed(path), str(path)))
    seeds = sorted({_seed(path) for path in paths})
    halves = root / "audit" / folder.name / "halves"
    forgotten = [forget_sets.read(halves / f"seed{seed}.csv") for seed in seeds]
    originals = [root / f"logits/{place}/seed{seed}/full" for seed in seeds]
    paths_by_method: dict[str, list[Path]] = {}
    for path in paths:
        paths_by_method.setdefault(path.parent.name, []).append(path)
    for method, method_paths in sorted(paths_by_method.items()):
        searches = [read_json(path) for path in method_paths]
        if len(searches) != len(seeds):
            yield (
                f"{method}: searched with {len(searches)} of {len(seeds)} models;"
                " `make audits` goes on"
            )
            continue
        candidates = []
        for number, candidate in enumerate(searches[0]["candidates"]):
            if any(DIVERGED in search["candidates"][number] for search in searches):
                yield f"  {candidate['settings']}: {DIVERGED}"
                continue
            files = [path.parent / f"{number}/system.safetensors" for path in method_paths]
            share = _share(dataset, files, originals, forgotten)
            drops = []
            for search in searches:
                val_accuracy = search["candidates"][number]["val_accuracy"]
                drops.append(search["original_val_accuracy"] - val_accuracy)
            candidates.append(AuditedCandidate(candidate["settings"], share, max(drops)))
        yield f"{method} (n = {len(searches)} models)"
        candidates.sort(key=lambda each: (each.drop > drop, abs(each.share.value)))
        for each in candidates:
            yield f"  {each}"


def _seed(search: Path) -> int:
    """Return the seed in the path of a search."""
    return int(search.parts[-4].removeprefix("seed"))


def _share(
    dataset: prepared.Dataset,
    files: Sequence[Path],
    originals: Sequence[Path],
    forgotten: Sequence[np.ndarray],
) -> Estimate:
    """Return the residual share of a candidate, over all models."""
    from munkey.data.image_set import image_set
    from munkey.models import system as systems
    from munkey.models.family import FAMILIES
    from munkey.settings import DataSettings

    after: list[np.ndarray] = []
    before: list[np.ndarray] = []
    for file, folder in zip(files, originals, strict=True):
        unlearned = systems.load(file)
        family = FAMILIES[unlearned.family]
        settings = read_json(file.with_name("record.json"))["settings"]
        data = DataSettings.model_validate(settings["data"])
        original_file = folder / f"{family.original}.npz"
        arrays = read_npz(original_file)
        samples = image_set(dataset, arrays["ids"])
        logits = family.predict_logits(unlearned, samples, data, "cpu", None)
        after.append(margins(logits, samples.labels))
        before.append(margins(arrays["logits"], arrays["labels"]))
        halves = read_halves(str(original_file), forgotten, {})
    nothing = Pairs(np.stack(before), halves)
    share = residual_share(Pairs(np.stack(after), halves, nothing))
    assert isinstance(share, Share)
    return share.share
