"""Commands for experiments: estimate costs, run a job, check the machine, compare results."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from munkey.cli import output

if TYPE_CHECKING:
    from munkey.experiment.cost.estimate import CostEstimate
    from munkey.experiment.cost.machines import Machine
    from munkey.experiment.plan.plan import Plan

OVERLAYS = typer.Argument(
    metavar="OVERLAY", help="Files that override params.yaml, e.g. presets.", show_default=False
)


def load_plan(overlays: list[Path]) -> "Plan":
    """Load the plan from params.yaml and the overlays.

    Raises ParamsError, a ValueError, if a setting is invalid.
    """
    from munkey.core.files import CONFIGFILES
    from munkey.experiment.params.load import load, read_params
    from munkey.experiment.plan.plan import Plan

    # Messages about missing results suggest a command, which must include the overlays.
    os.environ[CONFIGFILES] = shlex.join(map(str, overlays))
    return Plan(load(read_params(overlays)))


def plan(
    overlays: Annotated[list[Path] | None, OVERLAYS] = None,
    target: Annotated[
        Literal["run", "audits", "scenarios", "paper"],
        typer.Option(help="The target to estimate. run: only what `make run` runs."),
    ] = "run",
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A machine measured in benchmarks/results/speed-NAME.json. Default: this one.",
        ),
    ] = None,
    tflops: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=1e-3,
            help="Instead of a measured speed, assume N * 10^12 operations per second per GPU.",
        ),
    ] = None,
    gpus: Annotated[
        str,
        typer.Option(
            metavar="1,8,64",
            help="Number of GPUs, or of machines without a GPU. Several: one estimate for each.",
        ),
    ] = "1",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON in seconds, bytes and operations.")
    ] = False,
) -> None:
    """Estimate the cost of an experiment: training runs, steps, operations, hours, disk space.

    \b
    munkey plan                                   params.yaml on this machine
    munkey plan workflow/presets/paper.yaml --target paper --tflops 60 --gpus 1,8,64
    munkey plan --json | jq .hours

    Run this command in the project folder. It reads only the parameter files and starts no jobs. It
    counts your own pictures without preparing them, and exits with 1 if the size of a data set is
    not known yet.
    """
    from munkey.experiment.cost import estimate, machines

    counts = _parse_gpu_counts(gpus)
    experiment_plan = load_plan(overlays or [])
    target_machine = machines.find_machine(machine, tflops)
    costs = estimate.estimate(experiment_plan, target, target_machine, counts)
    name = experiment_plan.params.name
    text = "\n".join(estimate.format_lines(costs, target_machine, name))
    output.print_result(text, {"name": name, **_to_json(costs, target_machine)}, as_json)
    if costs.uncounted:
        raise typer.Exit(output.FAILED)


def _parse_gpu_counts(gpus: str) -> list[int]:
    """Parse comma-separated numbers of GPUs. Raises ValueError if one is not a positive integer."""
    counts = []
    for word in gpus.split(","):
        if not word.strip().isdecimal() or int(word) < 1:
            raise ValueError(
                f"--gpus {gpus}: write positive integers, separated by commas, e.g. 1,8,64"
            )
        counts.append(int(word))
    return counts


def _to_json(costs: "CostEstimate", machine: "Machine") -> dict[str, object]:
    """Return the estimate for JSON: `seconds` of all jobs in a row, and `disk` in bytes."""
    work = []
    for index, kind in enumerate(costs.work):
        record: dict[str, object] = {
            "step": kind.step,
            "what": kind.what,
            "dataset": kind.dataset,
            "jobs": kind.jobs,
            "steps": kind.steps,
            "operations": kind.operations,
        }
        if costs.seconds:
            record["seconds"] = costs.seconds[index]
        work.append(record)
    return {
        "machine": {"name": machine.name, "gpu": machine.gpu, "measured": machine.measured},
        "work": work,
        "hours": costs.hours,
        "disk": costs.disk,
        "uncounted": costs.uncounted,
        "uncounted_keys": costs.uncounted_keys,
    }


def job(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The result file to create.", show_default=False)
    ],
    overlays: Annotated[list[Path] | None, OVERLAYS] = None,
    pdb: Annotated[
        bool, typer.Option("--pdb", help="Start the debugger if the job fails.")
    ] = False,
) -> None:
    """Run the job that creates a result file in this terminal, even if the file exists.

    \b
    munkey job results/default/forget/digits/seed0/rate0.1.csv
    munkey job results/cifar10-small/tables/main.md workflow/presets/cifar10-small.yaml --pdb

    breakpoint() works in the job's function (src/munkey/jobs) and in all code that it calls. Missing inputs of the job
    are created first. A failed job leaves no result files.
    """
    from munkey.experiment.run.fork_server import SERVER_VARIABLE
    from munkey.experiment.run.job import IN_TERMINAL, POST_MORTEM

    if find_spec("snakemake") is None:
        raise ModuleNotFoundError(name="snakemake")  # `main` says what to install
    result = os.path.relpath(file)
    environment = os.environ | {IN_TERMINAL: result, SERVER_VARIABLE: "0"}
    if pdb:
        environment[POST_MORTEM] = "1"
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--cores",
        "all",
        "--resources",
        "gpu=1",
        "--force",
    ]
    if overlays:
        command += ["--configfile", *map(str, overlays)]
    command += ["--", result]
    completed = subprocess.run(command, env=environment, check=False)
    raise typer.Exit(completed.returncode)


def preflight(
    overlays: Annotated[list[Path], OVERLAYS],
    gpus: Annotated[int, typer.Option(min=1, help="How many jobs use a GPU at the same time.")] = 1,
) -> None:
    """Check that this machine can run the paper's experiment (GPU, downloads, disk), and estimate the time.

    \b
    munkey preflight workflow/presets/paper.yaml

    If anything is missing, the command prints what to do and exits with 1. `make reproduce` runs
    this check first.
    """
    from munkey.experiment.cost import estimate, machines
    from munkey.studies.paper.preflight import find_obstacles

    experiment_plan = load_plan(overlays)
    machine = machines.find_machine()
    costs = estimate.estimate(experiment_plan, "paper", machine, [gpus])
    print(estimate.format_heading(machine, experiment_plan.params.name))
    print(*estimate.format_totals(costs, machine), sep="\n", flush=True)
    obstacles = [f"- {obstacle}" for obstacle in find_obstacles(experiment_plan, costs)]
    if obstacles:
        raise output.NotVerifiedError("\n".join(["this machine is not ready:", *obstacles]))
    print("This machine is ready.")


def compare_paper(overlays: Annotated[list[Path], OVERLAYS]) -> None:
    """Compare our results with the paper's numbers, table by table.

    \b
    munkey compare-paper workflow/presets/paper.yaml

    Reads the results of `make paper` with the same overlays. `make reproduce` runs this command
    last.
    """
    from munkey.core.paths import fill
    from munkey.report.tables.markup import render
    from munkey.studies.paper import tables as paper
    from munkey.studies.paper.plan import PaperPlan

    experiment_plan = load_plan(overlays)
    seeds = len(experiment_plan.params.seeds)
    try:
        ours_and_theirs = paper.read_comparison(
            fill(experiment_plan.layout.table, table="paper", ending="csv")
        )
        statements = list(paper.describe_settings(PaperPlan(experiment_plan).compared, seeds))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error.filename} is missing; to create it, run `make paper` with the same overlays"
        ) from None
    if ours_and_theirs.empty:
        raise ValueError(
            "none of the paper's numbers has a counterpart in these results: the paper has other data"
            " sets, forget rates, or methods"
        )
    tables = [
        *paper.make_side_by_side_tables(ours_and_theirs),
        paper.make_agreement_table(ours_and_theirs, paper.read_printed_numbers()),
    ]
    print(render(tables, "markdown"))
    print(
        "If our runs and the paper's were draws from the same distribution, about"
        f" {100 * paper.compute_expected_share(seeds):.0f}% of our numbers would be within the paper's ±"
        f" (ours: n = {seeds}, the paper's: n = 3)."
    )
    print(*statements, sep="\n")


def search_summary(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="A folder of search results.", show_default=False),
    ],
    drop: Annotated[
        float,
        typer.Option(
            help="Largest acceptable loss of validation accuracy, in percentage points. If you"
            " changed `search_drop` in params.yaml, give its value."
        ),
    ] = 5.0,
    by_audit: Annotated[
        bool,
        typer.Option(help="Rank by the audited residual share instead of the validation gap."),
    ] = False,
) -> None:
    """Rank the settings that a search tried for each method, over all seeds and rates.

    \b
    munkey search-summary results/default/search/digits

    Prints the mean validation gap and the largest loss of validation accuracy for each setting.
    """
    from munkey.audits import read_evidence
    from munkey.evaluation.search import describe_searches

    lines: Iterable[str]
    if by_audit:
        lines = read_evidence.describe_searches(folder, drop)
    else:
        lines = describe_searches(folder, drop)
    for line in lines:
        print(line, flush=True)


def search_neighbors(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A prepared data set.", show_default=False)
    ],
    keys: Annotated[
        Path | None, typer.Option(help="Which keys to use, if the data set has several.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, help="How many settings to print for each family.")
    ] = 3,
) -> None:
    """Search for the best number of neighbors and their weights, for KNN and for a trained MUNKEY.

    \b
    munkey search-neighbors results/default/data/digits

    Each training sample is predicted from the others, and the settings with the highest
    log-likelihood are printed first: of `knn`, and of `inference` if the run has trained MUNKEY
    (then averaged over its seeds). params.yaml is not changed.
    """
    from munkey.evaluation.neighbor_search import (
        describe_candidates,
        search_fitted,
        search_inference,
    )
    from munkey.models.family import FAMILIES, FittedFamily

    key_file = _find_key_file(folder, keys)
    for family in FAMILIES.values():
        if not family.search_settings:
            continue
        if isinstance(family, FittedFamily):
            candidates = search_fitted(folder, key_file, family)
            tried = f"{family.name}: {len(candidates)} settings"
        else:
            models = folder.parents[1] / "models" / folder.name
            systems = sorted(models.glob(f"seed*/full/{family.original}/system.safetensors"))
            if not systems:
                print(f"inference: no trained {family.title} in {models}")
                continue
            candidates = search_inference(folder, key_file, systems)
            tried = f"inference: {len(candidates)} settings, n = {len(systems)} seeds"
        print(tried, *describe_candidates(candidates, count), sep="\n", flush=True)


def _find_key_file(folder: Path, keys: Path | None) -> Path:
    """Return `keys`, or the file in it; by default, the only file in results/NAME/keys/DATASET."""
    if keys is not None:
        return keys / "keys.npz" if keys.is_dir() else keys
    experiment = folder.parents[1]
    key_files = sorted((experiment / "keys" / folder.name).glob("*/keys.npz"))
    if len(key_files) != 1:
        names = ", ".join(map(str, key_files)) or f"none in {experiment / 'keys'}"
        raise ValueError(f"{folder}: choose its keys with --keys (found: {names})")
    return key_files[0]


def save_backbone(
    system: Annotated[Path, typer.Argument(help="system.safetensors of a trained ViT.")],
    folder: Annotated[Path, typer.Argument(help="The folder to write.")],
) -> None:
    """Save a trained ViT in timm's format, so that it can be fine-tuned on other data.

    \b
    munkey save-backbone results/pretraining/models/cifar-10/seed0/full/original-t/system.safetensors cache/backbone
    """
    from munkey.core.files import read_json
    from munkey.models.system import load, save_for_timm

    data = read_json(system.with_name("record.json"))["settings"]["data"]
    save_for_timm(load(system), folder, data["pixel_mean"], data["pixel_std"])
    print(f"saved; to use it, set in params.yaml: pretrained.model: {folder}/")


def external_state(file: Path) -> None:
    """Write the state of data files and encoder weights to FILE as JSON, for DVC."""
    from munkey.core.files import write_json

    write_json(file, load_plan([]).external_state)


def check_files(overlays: Annotated[list[Path], OVERLAYS]) -> None:
    """Check parameter files, for the Makefile. Error messages name the file and the line."""
    from munkey.experiment.params.load import read_params

    read_params(overlays)
