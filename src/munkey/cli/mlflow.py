"""The commands `munkey mlflow sync` and `munkey mlflow ui`."""

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from munkey.cli.experiment import OVERLAYS, load_plan

if TYPE_CHECKING:
    from munkey.experiment.plan.plan import Plan
    from munkey.experiment.tracking.runs import Results

app = typer.Typer(
    name="mlflow",
    help="Log results to MLflow again, or compare methods in MLflow.",
    no_args_is_help=True,
)

Overlays = Annotated[list[Path] | None, OVERLAYS]


class StaleResultsError(ValueError):
    """The results were computed with parameters that differ from the current ones."""


@app.command()
def sync(overlays: Overlays = None) -> None:
    """Log the results to MLflow again, e.g. after `dvc pull`. Does not change the results or DVC.

    \b
    munkey mlflow sync
    munkey mlflow sync workflow/presets/cifar10-small.yaml
    """
    from munkey.experiment.tracking.mlflow_log import log
    from munkey.experiment.tracking.runs import make_runs
    from munkey.experiment.tracking.store import hide_credentials

    plan = load_plan(overlays or [])
    try:
        runs = make_runs(read_results(plan))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error.filename} is missing; to create it, run `make run`"
        ) from error
    uri = plan.params.tracking.uri
    summary = log(uri, plan.params.name, runs)
    print(f"MLflow at {hide_credentials(uri)}, runs: {summary}")


@app.command()
def ui(
    overlays: Overlays = None,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="The port that MLflow listens on.")
    ] = 5000,
) -> None:
    """Start MLflow, and print the addresses of its comparisons of methods.

    If params.yaml names an MLflow server, the command only prints the addresses.

    \b
    munkey mlflow ui
    munkey mlflow ui workflow/presets/cifar10-small.yaml --port 5001
    """
    from munkey.experiment.tracking.mlflow_log import get_site, list_comparisons
    from munkey.experiment.tracking.store import open_store

    uri = load_plan(overlays or []).params.tracking.uri
    is_server = uri.startswith("http")
    if not is_server:
        require_free_port(port)
    with open_store(uri) as client:
        addresses = list_comparisons(client, get_site(uri, port))
    if addresses:
        print("Compare methods at:")
        for name, address in addresses.items():
            print(f"{name}\n  {address}", flush=True)
    else:
        print("This store is empty. Fill it with `make run` or `munkey mlflow sync`", flush=True)
    if not is_server:
        os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
        command = [sys.executable, "-m", "mlflow", "ui", "--workers", "1", "--port", str(port)]
        os.execv(sys.executable, [*command, "--backend-store-uri", uri])


def require_free_port(port: int) -> None:
    """Raise OSError if another program is listening on this port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(
                f"port {port} of this machine cannot be used ({error.strerror}). Another program may be"
                " listening on it, e.g. an MLflow that is still running. Stop it, or choose another"
                f" port: make ui PORT={port + 1}"
            ) from None


def read_results(plan: "Plan") -> "Results":
    """Read the results of a run.

    Raises FileNotFoundError, DamagedFileError, or StaleResultsError if they have other parameters.
    """
    from munkey.experiment.plan.exhibits import Exhibits
    from munkey.experiment.tracking.runs import Results

    _require_current_parameters(plan)
    inference = {dataset: plan.query_settings(dataset) for dataset in plan.params.datasets}
    return Results(plan.layout, plan.main, Exhibits(plan).titles, inference)


def _require_current_parameters(plan: "Plan") -> None:
    """Raise StaleResultsError if the results have settings or runs other than the plan's."""
    from munkey.core.files import read_json, read_table
    from munkey.core.knobs import dump_sections

    settings = read_json(plan.layout.settings)
    metrics = read_table(plan.layout.all_metrics)
    # METHOD-off, the same system with an output switched off, is in metrics but not in the plan.
    metrics = metrics[~metrics["method"].str.endswith("-off")]
    columns = (metrics["dataset"], metrics["rate"], metrics["seed"], metrics["method"])
    runs = set(zip(*columns, strict=True))
    planned_runs = {(run.dataset, float(run.rate), run.seed, run.method) for run in plan.main}
    has_changed_settings = False
    for dataset in plan.params.datasets:
        if settings.get(dataset) != dump_sections(plan.export_settings(dataset)):
            has_changed_settings = True
    if has_changed_settings or runs != planned_runs:
        raise StaleResultsError(
            "the results were computed with parameters that differ from params.yaml and its overlays:"
            " run `make run` first"
        )
