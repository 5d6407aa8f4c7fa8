"""`munkey mlflow`: mirror the results of this folder in MLflow again, and look at them."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from munkey.cli.experiment import OVERLAYS, plan_of

if TYPE_CHECKING:
    from munkey.experiment.plan.plan import Plan
    from munkey.experiment.tracking.runs import Results

app = typer.Typer(name="mlflow", help="Results in MLflow: mirror them again, compare methods.", no_args_is_help=True)

Overlays = Annotated[list[Path] | None, OVERLAYS]


class StaleResultsError(ValueError):
    """The results are not those of the parameters as they are now."""


@app.command()
def sync(overlays: Overlays = None) -> None:
    """Mirror the results in MLflow again, as after `dvc pull`. No result changes, nor what DVC knows.

    \b
    munkey mlflow sync
    munkey mlflow sync workflow/presets/cifar10-small.yaml
    """
    from munkey.experiment.tracking.mirror import mirror
    from munkey.experiment.tracking.runs import runs_of
    from munkey.experiment.tracking.store import public

    plan = plan_of(overlays or [])
    try:
        runs = runs_of(results_of(plan))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error.filename} is missing: `make run` makes it") from error
    uri = plan.params.tracking.uri
    print(f"MLflow at {public(uri)}, runs: {mirror(uri, plan.params.name, runs)}")


@app.command()
def ui(overlays: Overlays = None) -> None:
    """Say where MLflow compares methods, and start it, unless a server is set.

    \b
    munkey mlflow ui
    munkey mlflow ui workflow/presets/cifar10-small.yaml
    """
    from munkey.experiment.tracking.store import open_store
    from munkey.experiment.tracking.views import published

    uri = plan_of(overlays or []).params.tracking.uri
    with open_store(uri) as store:
        addresses = published(store.client, store.site)
    print("Compare methods at:" if addresses else "This store is empty: `make run` fills it, or `munkey mlflow sync`")
    print(*(f"{address}  {name}" for name, address in addresses.items()), sep="\n", flush=True)
    if not uri.startswith("http"):
        os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
        mlflow = ["-m", "mlflow", "ui", "--workers", "1", "--backend-store-uri", uri]
        os.execv(sys.executable, [sys.executable, *mlflow])


def results_of(plan: "Plan") -> "Results":
    """What a run of these parameters made. Raises FileNotFoundError, DamagedFileError, StaleResultsError."""
    from munkey.core.files import read_json, read_table
    from munkey.experiment.plan.exhibits import Exhibits
    from munkey.experiment.tracking.runs import Model, Results

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
