"""The leaderboard of docs/leaderboard.md: a table for each setting, what leaves least first, and its entries.

An entry is a folder, leaderboard/NAME. Its authors write entry.yaml, and overlay.yaml: what they changed of params.
From the run with that overlay this writes metrics.csv, its lines of the method and its oracle, and run.json:

python -m tools.leaderboard leaderboard/NAME ...
"""

import hashlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import pandas as pd
import yaml
from pydantic import Field

from munkey.audits.family_audit import DEPLOYED
from munkey.core.files import DamagedFileError, read_csv, read_json, read_table, write_csv, write_json
from munkey.core.paths import fill
from munkey.experiment.params.load import load, read_params
from munkey.experiment.params.messages import ParamsError, noted
from munkey.experiment.plan.audits import AuditPlan
from munkey.experiment.plan.cases import AUDIT
from munkey.experiment.plan.plan import Plan
from munkey.experiment.run.provenance import params_digest
from munkey.report.tables.audits import ALONE, LEFT, decimal, flagged_alone
from munkey.report.tables.markup import ABSENT, cell, two_digits
from munkey.report.tables.summary import GAP_METRICS, Row, summarize
from munkey.settings import Section

if TYPE_CHECKING:
    from munkey.experiment.params.overlays import Values

FOLDER = Path("leaderboard")
ENTRY, OVERLAY, RUN, METRICS = "entry.yaml", "overlay.yaml", "run.json", "metrics.csv"
# Entries that agree in these sections stand in one table; all others are a method's own.
SETTING = ("datasets", "seeds", "data", "model", "train", "forget", "finetune", "overrides")
POOL = ("pool", "pool_of")  # of an audit: the samples that it asks about
LEADING, TRAILING = ["Method", "Test accuracy", "left [%]"], ["Seconds", "Needs the data?", "Authors", "Run"]
Checked = TypeVar("Checked", bound=Section)


class Header(Section):
    """What its authors say. link: https, or a page of docs/; commit: of munkey with their method; command: what ran."""

    method: str
    authors: str
    link: Annotated[str, Field(pattern=r"^(https://|docs/)\S+$")]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    command: str


class AuditOutcome(Section):
    """The residual share and its 95 % interval, percent, over pairs of models; None where the audit found none.

    alone: whether an attack flagged it, but not the share.
    """

    share: float | None
    low: float | None
    high: float | None
    pairs: int
    verdict: str
    alone: bool = False


class Run(Section):
    """What ran where. oracle: the system that gaps are from; started: its first job, ISO 8601; audits: by data set.

    setting: what tells its setting from others, as params.yaml was when it ran; rates: by data set, the largest first;
    written: the checksums of entry.yaml and overlay.yaml, as they were then.
    """

    setting: str
    rates: dict[str, list[float]]
    seeds: list[int]
    written: list[str]
    title: str
    oracle: str | None
    needs: list[str]
    devices: list[str]
    started: str
    audits: dict[str, AuditOutcome]


@dataclass(frozen=True)
class Entry:
    """An entry as it was read. metrics: a line per value."""

    folder: Path
    header: Header
    run: Run
    metrics: pd.DataFrame

    @property
    def systems(self) -> list[str]:
        """Its method, and its oracle if it has one."""
        return [self.header.method, *([self.run.oracle] if self.run.oracle else [])]


def _checksums(folder: Path) -> list[str]:
    return [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (ENTRY, OVERLAY)]


def setting(config: "Values") -> str:
    """A digest of what entries of one table agree in: the settings of the data, the base model and the audit's pool."""
    sections: Any = config
    pool = {name: value for name, value in sections["audit"].items() if name in POOL}
    source = {name: value for name, value in sections["source"].items() if name != "path"}
    own = [sections["network"], sections.get(sections["network"])] if sections.get("network", "vit") != "vit" else []
    pool |= {"draw": sections["audit"]["draw"]} if sections["audit"].get("draw") else {}
    return params_digest({"sections": [sections[name] for name in SETTING] + own, "pool": pool, "source": source})


def read(folder: Path) -> Entry:
    """An entry. Raises ParamsError for what is not as it must be, and FileNotFoundError."""
    try:
        run = _checked(Run, read_json(folder / RUN), folder / RUN)
        return Entry(folder, header(folder), run, read_table(folder / METRICS))
    except DamagedFileError:
        raise ParamsError(f"{folder}: {RUN} or {METRICS} is not what tools.leaderboard wrote there") from None


def header(folder: Path) -> Header:
    """What its authors say, before there are results. Raises ParamsError and FileNotFoundError."""
    return _checked(Header, yaml.safe_load((folder / ENTRY).read_text()), folder / ENTRY)


def _checked(model: type[Checked], content: Mapping[str, object], path: Path) -> Checked:
    faults: list[str] = []
    with noted(faults, model):
        return model.model_validate(content)
    raise ParamsError(f"{path}: " + "; ".join(faults))


def faults(entry: Entry) -> Iterator[str]:
    """Where an entry was edited after it was written, or its numbers do not fit; in words."""
    if entry.run.written != _checksums(entry.folder):
        yield f"{ENTRY} or {OVERLAY} was edited after {RUN} was written: run `python -m tools.leaderboard` on it again"
    expected = {
        (dataset, rate, seed, system)
        for dataset, rates in entry.run.rates.items()
        for rate, seed, system in product(rates, entry.run.seeds, entry.systems)
    }
    lines = entry.metrics.pivot(index=["dataset", "rate", "seed", "method"], columns="metric", values="value")
    if differing := expected ^ set(lines.index):
        yield f"{METRICS} and {RUN} differ in the runs {', '.join(map(str, sorted(differing)))}"
    elif lines.reindex(columns=GAP_METRICS).isna().any(axis=None):
        yield f"{METRICS} lacks values of {', '.join(GAP_METRICS)}"
    elif entry.run.oracle:
        systems = lines.reindex(columns=[*GAP_METRICS, "gap"])
        method, oracle = (systems.xs(system, level="method").to_numpy() for system in entry.systems)
        if not np.allclose(method[:, -1], np.abs(method - oracle)[:, :-1].mean(axis=1), rtol=0, atol=1e-6):
            yield f"{METRICS}: the gaps are not those of the accuracies and the MIA"


def leaderboard() -> str:
    """The tables. Raises ParamsError for an entry that does not fit together."""
    alike: dict[str, list[Entry]] = {}
    for entry in (read(path.parent) for path in sorted(FOLDER.glob(f"*/{ENTRY}"))):
        if wrong := list(faults(entry)):
            raise ParamsError(f"{entry.folder}: {'; '.join(wrong)}")
        alike.setdefault(entry.run.setting, []).append(entry)
    made = [_table(each, dataset) for each in alike.values() for dataset in each[0].run.rates]
    return "\n\n".join(made) or "*Nobody has entered yet.*"


def _table(alike: Sequence[Entry], dataset: str) -> str:
    """A table of entries that were run in the same setting, on one of its data sets."""
    rates, seeds = alike[0].run.rates[dataset], alike[0].run.seeds
    columns = [*LEADING, *(f"Avg Gap @{100 * rate:g} %" for rate in rates), *TRAILING]
    lines = sorted((_line(entry, dataset, rates) for entry in alike), key=lambda line: line[:3])
    about = (
        f"*{dataset}, n = {len(seeds)} seeds: mean ± sd; test accuracy and seconds with {100 * rates[0]:g} % forgotten;"
        f" left: {LEFT}*"
    )
    rows = [columns, ["---"] * len(columns), *(cells for *_, cells in lines)]
    return "\n".join([about, "", *(f"| {' | '.join(row)} |" for row in rows)])


def _line(entry: Entry, dataset: str, rates: Sequence[float]) -> tuple[int, float, tuple[float, float], list[str]]:
    """0 where an audit found nothing, 1 where it did, 2 where it could not say; how far from 0 the share is; at the
    largest rate, the gap, infinite where there is none, and the error; the cells.
    """
    own, run = entry.header, entry.run
    rows = [Row(name, name, None) for name in entry.systems[1:]] + [Row(own.method, run.title, run.oracle)]
    summary = summarize(entry.metrics, rows)
    summary = summary[(summary["dataset"] == dataset) & (summary["method"] == own.method)]
    at = {float(line["rate"]): line for _, line in summary.iterrows()}
    largest, audit = at[rates[0]], run.audits.get(dataset)
    gap = largest.get("gap_mean", math.nan)
    cells = [
        f"[{run.title}]({own.link.removeprefix('docs/')})",
        cell(largest, "TA", "markdown"),
        _left(audit),
        *(cell(at[rate], "gap", "markdown") for rate in rates),
        two_digits(float(largest["unlearn_s_mean"])),
        parts(run.needs),
        own.authors,
        f"[{own.commit[:7]}](../{FOLDER}/{entry.folder.name}/{OVERLAY})",
    ]
    place = {"none found": 0, "residue": 1, "over-forgets": 1}.get(audit.verdict, 2) if audit else 2
    distance = math.inf if audit is None or audit.share is None or place == 2 else abs(audit.share)
    return place, distance, (math.inf if pd.isna(gap) else float(gap), -float(largest["TA_mean"])), cells


def _left(audit: AuditOutcome | None) -> str:
    if audit is None or audit.share is None:
        return ABSENT
    if audit.verdict == "no power":
        return audit.verdict
    interval = ABSENT if audit.low is None or audit.high is None else f"[{decimal(audit.low)}, {decimal(audit.high)}]"
    return " ".join([decimal(audit.share), interval, *([ALONE] if audit.alone else [])])


def parts(needs: Sequence[str]) -> str:
    """The parts of the data that must still be stored to forget: `no`, or their names."""
    return " + ".join(sorted({need.split()[0] for need in needs})) or "no"


def write(folder: Path) -> None:
    """Write the results of an entry, from the run that its overlay made.

    Raises ParamsError where it was run at another commit or with other settings, FileNotFoundError where it was not run
    to its end.
    """
    own, plan = header(folder), Plan(load(read_params([folder / OVERLAY])))
    if own.method not in plan.params.methods:
        raise ParamsError(f"`methods` of {OVERLAY} does not list {own.method!r}")
    method = plan.params.method(own.method)
    oracle = method.original.oracle
    audits = {dataset: each for dataset in plan.params.datasets if (each := _audit(plan, dataset, own.method))}
    runs = [run for run in plan.main if run.method in (own.method, oracle)]
    unlearned = {run.record: run.dataset for run in runs if run.method == own.method}
    for dataset, audit in audits.items():
        place = {"case": f"{dataset}/{AUDIT}pool", "subset": AuditPlan(plan).subset, "system": own.method}
        seeds = range(2 * audit.pairs)
        unlearned |= dict.fromkeys((fill(plan.layout.record, seed=seed, **place) for seed in seeds), dataset)
    paths = sorted({*unlearned, *(path for run in runs for path in (run.record, run.training))})
    records = {path: read_json(path) for path in paths}
    for path, record in records.items():
        if (commit := record["provenance"]["commit"]) != own.commit:
            raise ParamsError(f"{path} was made at {commit}, {ENTRY} says {own.commit}")
    for path, dataset in unlearned.items():
        made, said = records[path]["settings"], plan.unlearn_settings(dataset, own.method)
        names = {*said, *({} if f"/{AUDIT}" in path else made)}  # an audit's job also reads how to ask
        differing = {name for name in names if made.get(name) != said.get(name)}
        if differing - ({"method"} if plan.params.search else set()):
            raise ParamsError(
                f"{path} was made with other settings than {OVERLAY} says: {', '.join(sorted(differing))}"
            )
    lines = read_csv(plan.layout.all_metrics)
    write_csv(folder / METRICS, [line for line in lines if line["method"] in (own.method, oracle)])
    found = Run(
        setting=setting(read_params([folder / OVERLAY])),
        rates={name: sorted(map(float, rates), reverse=True) for name, rates in plan.rates.items()},
        seeds=plan.params.seeds,
        written=_checksums(folder),
        title=method.title,
        oracle=oracle,
        needs=sorted(method.needs),
        devices=sorted({record["provenance"]["device"] for record in records.values()}),
        started=min(record["started"] for record in records.values()),
        audits=audits,
    )
    write_json(folder / RUN, found.model_dump())


def _audit(plan: Plan, dataset: str, method: str) -> AuditOutcome | None:
    """What an audit found to be left; None where none was run, or not of this method."""
    path = fill(plan.layout.audit, dataset=dataset, part="table.csv")
    table = read_table(path) if Path(path).exists() else pd.DataFrame(columns=["name", "path", "role"])
    lines = table[(table["name"] == method) & (table["path"] == DEPLOYED) & (table["role"] == "method")]
    if lines.empty:
        return None
    line = lines.iloc[0]
    share, low, high = (float(line[name]) for name in ("share", "share_low", "share_high"))
    finite = {"share": share, "low": low, "high": high}
    numbers = {name: value if math.isfinite(value) else None for name, value in finite.items()}
    return AuditOutcome(**numbers, pairs=int(line["pairs"]), verdict=str(line["verdict"]), alone=flagged_alone(line))


def main(folders: Sequence[str]) -> str | None:
    """The command. Returns what is wrong, if anything."""
    try:
        for folder in map(Path, folders):
            write(folder)
            print(f"wrote {folder / METRICS} and {folder / RUN}")
    except (ParamsError, DamagedFileError) as error:
        return str(error)
    except FileNotFoundError as error:
        what = "write it" if Path(error.filename).name == ENTRY else f"run `command` of {ENTRY}"
        return f"{error.filename} is missing: {what} first (docs/leaderboard.md)"
    return None if folders else "name the folder of an entry: `python -m tools.leaderboard leaderboard/my-method`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
