"""Write the results of an entry of the leaderboard, from the run that its overlay made.

    python -m tools.write_entry leaderboard/NAME ...

docs/leaderboard.md says how to enter.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from munkey.audits.family_audit import DEPLOYED
from munkey.core.files import DamagedFileError, read_json, read_table, write_json
from munkey.core.paths import fill
from munkey.evaluation.records import Evaluation
from munkey.experiment.params.load import ParamsError, load, read
from munkey.experiment.params.overlays import Values
from munkey.experiment.plan.audits import AuditPlan
from munkey.experiment.plan.cases import AUDIT
from munkey.experiment.plan.plan import Plan
from munkey.unlearn.contract import METHODS
from tools.entries import ENTRY, OVERLAY, RESULTS, said

Found = dict[str, object]


def results(name: str, config: Values) -> Found:
    """What the run of a configuration has of a method, as `tools.entries.Results` reads it.

    Raises ParamsError where the configuration does not list it, FileNotFoundError where it was not run to its end.
    """
    plan = Plan(load(config))
    if name not in plan.params.methods:
        raise ParamsError(f"`methods` of {OVERLAY} does not list {name!r}")
    method, oracle = METHODS[name], METHODS[name].original.oracle
    runs = [run for run in plan.main if run.method in (name, oracle)]
    records = {path: read_json(path) for path in sorted({path for run in runs for path in (run.record, run.training)})}
    of_jobs = [record["provenance"] | record for record in records.values()]
    return {
        "method": name,
        "title": method.title,
        "oracle": oracle,
        "needs": sorted(method.needs),
        "config": dict(config),
        "jobs": {_name(path): _job(record) for path, record in zip(records, of_jobs, strict=True)},
        "settings": {record["params_digest"]: record["settings"] for record in of_jobs},
        "versions": _each_once([record["versions"] for record in of_jobs]),
        "metrics": _metrics(plan, runs),
        "left": {dataset: each for dataset in plan.params.datasets if (each := _left(plan, dataset, name))},
    }


def _name(record: str) -> str:
    """DATASET/seedS/SUBSET/SYSTEM."""
    return "/".join(Path(record).parts[-5:-1])


def _job(record: Mapping[str, object]) -> Found:
    return {"settings": record["params_digest"]} | {name: record[name] for name in ("commit", "device", "started")}


def _metrics(plan: Plan, runs: Sequence[Evaluation]) -> dict[str, dict[str, dict[str, Found]]]:
    """The values of the seeds by data set, rate, system and metric."""
    tidy = read_table(plan.layout.all_metrics)
    found: dict[str, dict[str, dict[str, Found]]] = {}
    for run in runs:
        own = (tidy["dataset"] == run.dataset) & (tidy["rate"] == float(run.rate)) & (tidy["method"] == run.method)
        by_metric = tidy[own].pivot(index="metric", columns="seed", values="value")[plan.params.seeds]
        values: Found = {str(metric): line.tolist() for metric, line in by_metric.iterrows()}
        found.setdefault(run.dataset, {}).setdefault(run.rate, {})[run.method] = values
    return found


def _left(plan: Plan, dataset: str, method: str) -> Found | None:
    """What an audit found to be left; None where none was run, or not of this method.

    Raises ParamsError for one that does not belong to the run.
    """
    path = fill(plan.layout.audit, dataset=dataset, part="table.csv")
    if not Path(path).exists():
        return None
    table = read_table(path)
    lines = table[(table["name"] == method) & (table["path"] == DEPLOYED) & (table["role"] == "method")]
    for line in lines.to_dict("records"):
        _require_as_in_the_run(plan, dataset, method, int(line["pairs"]))
        numbers = {name: line[column] for name, column in SHARE.items()}
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        return finite | {"pairs": int(line["pairs"]), "verdict": str(line["verdict"])}
    return None


def _require_as_in_the_run(plan: Plan, dataset: str, method: str, pairs: int) -> None:
    """Raises ParamsError where the audit's models were made by other code or with other settings."""
    own = [run.record for run in plan.main if (run.dataset, run.method) == (dataset, method)]
    place = {"case": f"{dataset}/{AUDIT}pool", "subset": AuditPlan(plan).subset, "system": method}
    audited = [fill(plan.layout.record, seed=seed, **place) for seed in range(2 * pairs)]
    made = [_made(read_json(path), plan.params.search) for path in own]
    if any(not Path(path).exists() or _made(read_json(path), plan.params.search) not in made for path in audited):
        raise ParamsError(
            f"{audited[0]}: the audit's model is missing, or has another commit or other settings than the run's;"
            " run `command` and `make audits` again at one commit"
        )


def _made(record: Mapping[str, dict[str, object]], searched: bool) -> tuple[object, object]:
    """The commit and the settings, without those of the method where each model has its own."""
    settings = {name: value for name, value in record["settings"].items() if name != "method" or not searched}
    return record["provenance"]["commit"], settings


SHARE = {"share": "share", "low": "share_low", "high": "share_high"}


def _each_once(values: Sequence[object]) -> list[object]:
    return [value for place, value in enumerate(values) if value not in values[:place]]


def main(folders: Sequence[str]) -> str | None:
    """The command. Returns what is wrong, if anything."""
    if not folders:
        return "name the folder of an entry: `python -m tools.write_entry leaderboard/my-method`"
    try:
        for folder in map(Path, folders):
            write_json(folder / RESULTS, results(said(folder).method, read([folder / OVERLAY])))
            print(f"wrote {folder / RESULTS}")
    except (ParamsError, DamagedFileError) as error:
        return str(error)
    except FileNotFoundError as error:
        what = "write it" if Path(error.filename).name == ENTRY else f"run `command` of {ENTRY}"
        return f"{error.filename} is missing: {what} first (docs/leaderboard.md)"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
