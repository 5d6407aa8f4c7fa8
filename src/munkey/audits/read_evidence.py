"""Read the evidence of audits from files: the margins of every model, by path."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict

from munkey.audits.attacks.residual_share import Share, residual_share
from munkey.audits.evidence import Halves, Pairs, swap_partners
from munkey.audits.family_audit import AuditedSystem, FamilyAudit, Role
from munkey.audits.margins import compute_margins
from munkey.audits.registry import Estimate
from munkey.core.diverged import DIVERGED, explain_divergence
from munkey.core.files import read_json, read_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared
from munkey.evaluation.records import DEPLOYED


class PlannedSystem(TypedDict):
    """A system in the plan (munkey.studies.audits.plan).

    Attributes
    ----------
    logits
        The logit files, one per model.
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
    """Read the evidence for the audit of each family.

    Parameters
    ----------
    halves
        The forget set files, one per seed.
    stage
        The random stage of the audits.
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
            # All systems are evaluated on the same samples, so any file has the ids and splits.
            halves=read_halves(family_systems[0]["logits"][0], forgotten, units),
            generator=(stage / family).numpy_generator(),
        )


def read_halves(
    logits_path: str | Path, forgotten_ids: Sequence[np.ndarray], units: Mapping[int, str]
) -> Halves:
    """Read sample ids and splits from a file of logits, and mark the halves of an audit.

    Parameters
    ----------
    logits_path
        A file of any model's logits, with the ids and splits of all samples.
    forgotten_ids
        For each seed, the ids that its model forgets.
    units
        The unit of each id, if the halves consist of whole units; otherwise empty.
    """
    arrays = read_npz(logits_path, "ids", "splits")
    deleted = np.stack([np.isin(arrays["ids"], ids) for ids in forgotten_ids])
    unit_names = None
    if units:
        unit_names = np.array([units.get(sample_id, "") for sample_id in arrays["ids"].tolist()])
    return Halves(
        deleted=deleted,
        absent=swap_partners(deleted),  # each model never sees what its partner forgets
        test=arrays["splits"] == "test",
        units=unit_names,
    )


def read_path_margins(arrays: Mapping[str, np.ndarray], path: str) -> np.ndarray:
    """Compute a model's margins (N,) on a path, from the arrays of its logit file."""
    name = "logits" if path == DEPLOYED else f"path_{path}"
    return compute_margins(arrays[name], arrays["labels"])


def _read_system(system: PlannedSystem, forgotten: np.ndarray) -> AuditedSystem:
    """Read the margins of a system's models.

    Parameters
    ----------
    forgotten
        The ids that model 0 forgets.
    """
    rows_by_path: dict[str, list[np.ndarray]] = {path: [] for path in system["paths"]}
    logits: list[np.ndarray] = []
    reasons: list[str] = []
    for number, file in enumerate(system["logits"]):
        arrays = read_npz(file)
        why = explain_divergence(arrays)
        if why:
            reasons.append(f"seed {number}: {why}")
            continue
        for path, rows in rows_by_path.items():
            rows.append(read_path_margins(arrays, path))
        if number == 0 or system["role"] == "oracle":
            logits.append(arrays["logits"][np.isin(arrays["ids"], forgotten)])
    if reasons:
        margins = {}
        forget_logits = np.empty(0)
    else:
        margins = {path: np.stack(rows) for path, rows in rows_by_path.items()}
        forget_logits = np.stack(logits)
    return AuditedSystem(
        name=system["name"],
        title=system["title"],
        role=system["role"],
        margins=margins,
        logits=forget_logits,
        diverged="; ".join(reasons),
    )


@dataclass(frozen=True)
class AuditedCandidate:
    """A candidate of a search, with its residual share in percent.

    Attributes
    ----------
    drop
        The largest loss of validation accuracy over all models, in percentage points.
    """

    settings: Mapping[str, object]
    share: Estimate
    drop: float

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        share = self.share
        interval = f"[{share.low:.0f}, {share.high:.0f}]%"
        return f"{settings}: residual share {share.value:.1f} {interval}, drop {self.drop:.1f}"


def describe_searches(folder: Path, drop: float) -> Iterator[str]:
    """Yield lines that list the search candidates of each method, smallest residual share first.

    Parameters
    ----------
    folder
        The folder of a data set's searches, ROOT/search/DATASET.
    drop
        The loss of validation accuracy, in points, that a candidate may have. Candidates with a
        larger loss come last.

    Raises
    ------
    FileNotFoundError
        If the folder contains no searches.
    """
    root = folder.parents[1]  # the folder is ROOT/search/DATASET
    dataset = prepared.load(root / "data" / folder.name)
    place = f"{folder.name}/audit/pool"  # where the audit's files are, in several folders of ROOT
    paths = list((root / "search" / place).glob("seed*/rate*/*/search.json"))
    if not paths:
        raise FileNotFoundError(
            f"{root / 'search' / place}: no searches; run `make audits` with search: true"
        )
    paths.sort(key=lambda path: (_parse_seed(path), str(path)))
    seeds = sorted({_parse_seed(path) for path in paths})
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
                " `make audits` continues"
            )
            continue
        candidates = []
        for number, candidate in enumerate(searches[0]["candidates"]):
            if any(DIVERGED in search["candidates"][number] for search in searches):
                yield f"  {candidate['settings']}: {DIVERGED}"
                continue
            files = [path.parent / f"{number}/system.safetensors" for path in method_paths]
            share = _measure_share(dataset, files, originals, forgotten)
            drops = []
            for search in searches:
                val_accuracy = search["candidates"][number]["val_accuracy"]
                drops.append(search["original_val_accuracy"] - val_accuracy)
            candidates.append(AuditedCandidate(candidate["settings"], share, max(drops)))
        yield f"{method} (n = {len(searches)} models)"
        # False comes before True: eligible candidates first, then by the size of the share.
        candidates.sort(key=lambda audited: (audited.drop > drop, abs(audited.share.value)))
        for audited in candidates:
            yield f"  {audited}"


def _parse_seed(search: Path) -> int:
    """Return the seed in the path of a search, seedSEED/rateRATE/METHOD/search.json."""
    return int(search.parts[-4].removeprefix("seed"))


def _measure_share(
    dataset: prepared.Dataset,
    files: Sequence[Path],
    originals: Sequence[Path],
    forgotten: Sequence[np.ndarray],
) -> Estimate:
    """Return the residual share of a candidate over all models.

    Parameters
    ----------
    files
        The candidate's system files, one per model.
    originals
        The folders with the original logits, one per model.
    forgotten
        The ids that each model forgets.
    """
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
        after.append(compute_margins(logits, samples.labels))
        before.append(compute_margins(arrays["logits"], arrays["labels"]))
    # All originals are evaluated on the same samples, so any file has the ids and splits.
    halves = read_halves(original_file, forgotten, units={})
    nothing = Pairs(np.stack(before), halves)
    share = residual_share(Pairs(np.stack(after), halves, nothing))
    assert isinstance(share, Share), "the residual share could not be measured"
    return share.share
