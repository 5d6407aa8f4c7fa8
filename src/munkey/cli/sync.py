"""Mirror the results of this folder in MLflow again, e.g. after `dvc pull`. No result changes, nor what DVC knows.

    python -m munkey.cli.sync [OVERLAY ...]

`make track` calls it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from munkey.core.files import DamagedFileError, read_json, read_table
from munkey.experiment.cost.estimate import read
from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from munkey.experiment.tracking import mirror
from munkey.experiment.tracking.runs import Results, runs_of
from munkey.experiment.tracking.store import StoreError
from munkey.experiment.tracking.tracking import Model, public


class StaleResultsError(RuntimeError):
    """The results are not those of the parameters as they are now."""


def results_of(plan: Plan) -> Results:
    """What a run of these parameters made. Raises FileNotFoundError, DamagedFileError, StaleResultsError."""
    made_with, made = read_json(plan.layout.settings), read_table(plan.layout.all_metrics)
    runs = set(zip(made["dataset"], made["rate"], made["seed"], made["method"], strict=True))
    asked = {(run.dataset, float(run.rate), run.seed, run.method) for run in plan.main}
    changed = any(made_with.get(case) != plan.export_settings(case) for case in plan.params.datasets)
    if changed or runs != asked:
        raise StaleResultsError(
            "the results were not made with the present parameters, params.yaml and its overlays: `make run` first"
        )
    models = plan.models if plan.params.tracking.models else {}
    return Results(
        plan.layout,
        plan.main,
        plan.searches_of(plan.main),
        Exhibits(plan).titles,
        {dataset: plan.asked(dataset) for dataset in plan.params.datasets},
        [Model(path, run, plan.export_settings(run.dataset)) for path, run in models.items()],
    )


def main(arguments: Sequence[str] | None = None) -> str | None:
    """The command. Returns what is wrong, if anything."""
    parser = argparse.ArgumentParser(prog="python -m munkey.cli.sync", description=__doc__.split("\n")[0])
    parser.add_argument("overlays", nargs="*", type=Path, help="files that change params.yaml")
    try:
        plan = Plan(load(read(parser.parse_args(arguments).overlays)))
        uri = plan.params.tracking.uri
        mirrored = mirror.mirror(uri, plan.params.name, runs_of(results_of(plan)))
    except (ParamsError, DamagedFileError, StaleResultsError, StoreError) as error:
        return str(error)
    except FileNotFoundError as error:
        return f"{error.filename} is missing: `make run` makes it"
    print(f"MLflow at {public(uri)}, runs: {mirror.in_words(mirrored.counts)}")
    return None


if __name__ == "__main__":
    sys.exit(main())
