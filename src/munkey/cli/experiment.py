"""The commands about experiments: estimate costs, run a job, check the machine, compare and search results."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from munkey.cli import output

if TYPE_CHECKING:
    from munkey.experiment.cost.estimate import CostEstimate
    from munkey.experiment.cost.machines import Machine
    from munkey.experiment.plan.plan import Plan

OVERLAYS = typer.Argument(
    metavar="OVERLAY", help="Files that change params.yaml, e.g. presets.", show_default=False
)


def plan_of(overlays: list[Path]) -> "Plan":
    """The plan of params.yaml with these overlays. Raises ParamsError, a ValueError."""
    from munkey.core.files import CONFIGFILES
    from munkey.experiment.params.load import load, read_params
    from munkey.experiment.plan.plan import Plan

    # Messages about missing results repeat the overlays in the command to run.
    os.environ[CONFIGFILES] = shlex.join(map(str, overlays))
    return Plan(load(read_params(overlays)))


def plan(
    overlays: Annotated[list[Path] | None, OVERLAYS] = None,
    target: Annotated[
        Literal["run", "audits", "scenarios", "paper"],
        typer.Option(help="`make run`; or that, and `make` with this target."),
    ] = "run",
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The machine of benchmarks/results/speed-NAME.json; default: this one.",
        ),
    ] = None,
    tflops: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=1e-3,
            help="Instead: N * 10^12 sustained operations per second and GPU.",
        ),
    ] = None,
    gpus: Annotated[
        str,
        typer.Option(
            metavar="1,8,64", help="Numbers of GPUs (or of machines without one) to estimate for."
        ),
    ] = "1",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: seconds, bytes, operations.")
    ] = False,
) -> None:
    """Estimate an experiment's cost before its first job: trainings, steps, operations, hours, disk.

    \b
    munkey plan                                   params.yaml on this machine
    munkey plan workflow/presets/paper.yaml --target paper --tflops 60 --gpus 1,8,64
    munkey plan --json | jq .hours

    Run it in the project's folder: it reads the parameter files and starts nothing. It exits with 1 if a data set
    cannot be counted yet. Your own pictures need not be prepared.
    """
    from munkey.experiment.cost import estimate, machines

    counts = [int(word) if word.strip().isdecimal() else 0 for word in gpus.split(",")]
    if min(counts) < 1:
        raise ValueError(f"--gpus {gpus}: write numbers of GPUs, separated by commas, e.g. 1,8,64")
    planned = plan_of(overlays or [])
    computer = machines.machine(machine, tflops)
    costs = estimate.estimate(planned, target, computer, counts)
    name = planned.params.name
    text = "\n".join(estimate.lines(costs, computer, name))
    output.say(text, {"name": name, **_as_json(costs, computer)}, as_json)
    if costs.uncounted:
        raise typer.Exit(output.FAILED)


def _as_json(costs: "CostEstimate", computer: "Machine") -> dict[str, object]:
    """The estimate as JSON. seconds: of all jobs of a kind, one after the other; disk: bytes."""
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
        "machine": {"name": computer.name, "gpu": computer.gpu, "measured": computer.measured},
        "work": work,
        "hours": costs.hours,
        "disk": costs.disk,
        "uncounted": costs.uncounted,
        "uncounted_keys": costs.uncounted_keys,
    }


def job(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A result, present or not.", show_default=False)
    ],
    overlays: Annotated[list[Path] | None, OVERLAYS] = None,
    pdb: Annotated[
        bool, typer.Option("--pdb", help="Start the debugger if the job fails.")
    ] = False,
) -> None:
    """Make one result, even if it exists, by running its job in this terminal: its output is shown here, not logged.

    \b
    munkey job results/default/forget/digits/seed0/rate0.1.csv
    munkey job results/cifar10-small/tables/main.md workflow/presets/cifar10-small.yaml --pdb

    A breakpoint() in the job's function (src/munkey/jobs), or in code that it calls, prompts here. Missing inputs of
    the job are made first. A job that fails leaves no results, as in every run.
    """
    from munkey.experiment.run.fork_server import SWITCH
    from munkey.experiment.run.job import IN_TERMINAL, POST_MORTEM

    result = os.path.relpath(file)
    environment = os.environ | {IN_TERMINAL: result, SWITCH: "0"}
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
    raise typer.Exit(subprocess.run(command, env=environment, check=False).returncode)


def preflight(
    overlays: Annotated[list[Path], OVERLAYS],
    gpus: Annotated[int, typer.Option(min=1, help="Number of jobs that use a GPU at once.")] = 1,
) -> None:
    """Check whether this machine is ready for the paper's experiment (GPU, downloads, disk), and estimate its time.

    \b
    munkey preflight workflow/presets/paper.yaml

    If something is missing, it says what to do about it and exits with 1. `make reproduce` runs it first.
    """
    from munkey.experiment.cost import estimate, machines
    from munkey.experiment.cost.preflight import obstacles

    planned = plan_of(overlays)
    computer = machines.machine()
    costs = estimate.estimate(planned, "paper", computer, [gpus])
    print(estimate.heading(computer, planned.params.name))
    print(*estimate.totals(costs, computer), sep="\n", flush=True)
    faults = [f"- {fault}" for fault in obstacles(planned, costs)]
    if faults:
        raise output.NotVerifiedError("\n".join(["this machine is not ready:", *faults]))
    print("This machine is ready.")


def compare_paper(overlays: Annotated[list[Path], OVERLAYS]) -> None:
    """Show our results of the paper's experiment next to the paper's numbers, table by table.

    \b
    munkey compare-paper workflow/presets/paper.yaml

    It reads the results of `make paper` with these overlays. `make reproduce` ends with it.
    """
    from munkey.core.paths import fill
    from munkey.experiment.plan.exhibits import Exhibits
    from munkey.report.tables import paper
    from munkey.report.tables.markup import render

    planned = plan_of(overlays)
    seeds = len(planned.params.seeds)
    try:
        ours_and_theirs = paper.read(fill(planned.layout.table, table="paper", ending="csv"))
        statements = list(paper.statements(Exhibits(planned).compared, seeds))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error.filename} is missing: `make paper` with the same overlays makes it"
        ) from None
    tables = [
        *paper.side_by_side(ours_and_theirs),
        paper.counts(ours_and_theirs, paper.printed_numbers()),
    ]
    print(render(tables, "markdown"))
    print(
        "If our runs and the paper's were draws from one distribution, about"
        f" {100 * paper.expected_share(seeds):.0f} % of our numbers would lie within the paper's ±"
        f" (ours: n = {seeds}, the paper's: n = 3)."
    )
    print(*statements, sep="\n")


def search_summary(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="The folder of a data set's searches.", show_default=False
        ),
    ],
    drop: Annotated[
        float,
        typer.Option(
            help="Points of validation accuracy that a setting may lose: `search_drop` in params.yaml."
        ),
    ] = 5.0,
    by_audit: Annotated[
        bool,
        typer.Option(
            help="Rank by the residual share of the search's audit instead of the validation gap."
        ),
    ] = False,
) -> None:
    """List every setting that a search tried, by method, the best over all seeds and rates first.

    \b
    munkey search-summary results/default/search/digits

    For each setting: its mean validation gap, and its largest loss of validation accuracy.
    """
    from munkey.audits import read_evidence
    from munkey.evaluation.search import describe_searches

    lines = (
        read_evidence.describe_searches(folder, drop)
        if by_audit
        else describe_searches(folder, drop)
    )
    for line in lines:
        print(line, flush=True)


def search_fitted(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A prepared data set.", show_default=False)
    ],
    keys: Annotated[
        Path | None, typer.Option(help="Its keys, if several encoders made some.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, help="Number of settings to show for each family.")
    ] = 3,
) -> None:
    """Search the settings `knn`, `lda`, `ncm` of params.yaml on the validation samples.

    \b
    munkey search-fitted results/default/data/digits

    Prints the settings with the highest log-likelihood first, and changes nothing.
    """
    from munkey.evaluation.fitted_search import describe_candidates, search
    from munkey.models.family import FAMILIES, FittedFamily

    if keys is None:
        experiment = folder.parents[1]
        candidates = sorted(experiment.glob(f"keys/{folder.name}/*/keys.npz"))
        if len(candidates) != 1:
            names = ", ".join(map(str, candidates)) or f"none, below {experiment / 'keys'}"
            raise ValueError(f"{folder}: name its keys with --keys; there are: {names}")
        keys = candidates[0]
    for family in FAMILIES.values():
        if isinstance(family, FittedFamily) and family.tried:
            print(f"{family.name}:")
            print(*describe_candidates(search(folder, keys, family), count), sep="\n", flush=True)


def save_backbone(
    system: Annotated[
        Path, typer.Argument(help="The system.safetensors of a trained ViT, e.g. original-t's.")
    ],
    folder: Annotated[
        Path, typer.Argument(help="A folder for timm's files; in params.yaml, end it with a slash.")
    ],
) -> None:
    """Save a trained ViT in timm's format, to fine-tune it on other data: `network: pretrained`.

    \b
    munkey save-backbone results/pretraining/models/cifar-10/seed0/full/original-t/system.safetensors cache/backbone
    """
    from munkey.core.files import read_json
    from munkey.models.system import load, save_for_timm

    data = read_json(system.with_name("record.json"))["settings"]["data"]
    save_for_timm(load(system), folder, data["pixel_mean"], data["pixel_std"])
    print(f"saved; name it in params.yaml: pretrained.model: {folder}/")


def external_state(file: Path) -> None:
    """Write the state of the data files and encoder weights that params.yaml names, as JSON, for DVC."""
    from munkey.core.files import write_json

    write_json(file, plan_of([]).external_state)


def check_files(overlays: Annotated[list[Path], OVERLAYS]) -> None:
    """Refuse invalid parameter files, by file and line, for the Makefile."""
    from munkey.experiment.params.load import read_params

    read_params(overlays)
