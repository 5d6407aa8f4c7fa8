"""The commands about an experiment: what it will cost, whether this machine is ready, what came out."""

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
    """The plan of params.yaml with these overlays, which messages about missing results then name.

    Raises ParamsError, a ValueError.
    """
    from munkey.core.files import CONFIGFILES
    from munkey.experiment.params.load import load, read_params
    from munkey.experiment.plan.plan import Plan

    os.environ[CONFIGFILES] = shlex.join(map(str, overlays))
    return Plan(load(read_params(overlays)))


def plan(
    overlays: Annotated[list[Path] | None, OVERLAYS] = None,
    target: Annotated[
        Literal["run", "audits", "scenarios", "paper"],
        typer.Option(help="What `make run` makes; or that and what `make` this makes."),
    ] = "run",
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="NAME of benchmarks/results/speed-NAME.json; else this machine."
        ),
    ] = None,
    tflops: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=1e-3,
            help="Assume N * 10^12 operations per second and GPU, sustained, instead.",
        ),
    ] = None,
    gpus: Annotated[
        str,
        typer.Option(
            metavar="1,8,64", help="How many GPUs, or machines without one: estimate each."
        ),
    ] = "1",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: seconds, bytes, operations.")
    ] = False,
) -> None:
    """Say what an experiment will cost before its first job: trainings, steps, operations, hours, disk.

    \b
    munkey plan                                   params.yaml on this machine
    munkey plan workflow/presets/paper.yaml --target paper --tflops 60 --gpus 1,8,64
    munkey plan --json | jq .hours

    Run it in the project's folder: it reads the parameter files and starts nothing. It exits with 1 if it cannot count
    a data set yet. Pictures of your own need not be prepared.
    """
    from munkey.experiment.cost import estimate, machines

    counts = [int(word) if word.strip().isdecimal() else 0 for word in gpus.split(",")]
    if min(counts) < 1:
        raise ValueError(f"--gpus {gpus}: write numbers of GPUs, separated by commas, e.g. 1,8,64")
    planned = plan_of(overlays or [])
    on = machines.machine(machine, tflops)
    costs = estimate.estimate(planned, target, on, counts)
    name = planned.params.name
    output.say(
        "\n".join(estimate.lines(costs, on, name)), {"name": name, **_as_json(costs, on)}, as_json
    )
    if costs.uncounted:
        raise typer.Exit(output.FAILED)


def _as_json(costs: "CostEstimate", on: "Machine") -> dict[str, object]:
    """seconds: of all jobs of a kind, one after the other; disk: in bytes."""
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
        "machine": {"name": on.name, "gpu": on.gpu, "measured": on.measured},
        "work": work,
        "hours": costs.hours,
        "disk": costs.disk,
        "uncounted": costs.uncounted,
    }


def job(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A result, made or not.", show_default=False)
    ],
    overlays: Annotated[list[Path] | None, OVERLAYS] = None,
    pdb: Annotated[
        bool, typer.Option("--pdb", help="Start the debugger where the job fails.")
    ] = False,
) -> None:
    """Make one result, even if it is there, by its job in this terminal: what it prints stands here, not in its log.

    \b
    munkey job results/default/forget/digits/seed0/rate0.1.csv
    munkey job results/cifar10-small/tables/main.md workflow/presets/cifar10-small.yaml --pdb

    A breakpoint() in the job's function, in src/munkey/jobs, or in what it calls prompts here. What the job reads is
    made first where it is missing. A job that fails leaves none of its results, as in every run.
    """
    from munkey.experiment.run.fork_server import SWITCH
    from munkey.experiment.run.job import IN_TERMINAL, POST_MORTEM

    result = os.path.relpath(file)
    environment = (
        os.environ | {IN_TERMINAL: result, SWITCH: "0"} | ({POST_MORTEM: "1"} if pdb else {})
    )
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
    options = ["--configfile", *map(str, overlays)] if overlays else []
    raise typer.Exit(
        subprocess.run([*command, *options, "--", result], env=environment, check=False).returncode
    )


def preflight(
    overlays: Annotated[list[Path], OVERLAYS],
    gpus: Annotated[int, typer.Option(min=1, help="How many jobs use a GPU at once.")] = 1,
) -> None:
    """Check whether this machine is ready for the paper's experiment: GPU, downloads, disk; say how long it will take.

    \b
    munkey preflight workflow/presets/paper.yaml

    Exits with 1 and all that is missing, with what to do about it. `make reproduce` runs it first.
    """
    from munkey.experiment.cost import estimate, machines
    from munkey.experiment.cost.preflight import missing

    planned, on = plan_of(overlays), machines.machine()
    costs = estimate.estimate(planned, "paper", on, [gpus])
    print(
        estimate.heading(on, planned.params.name), *estimate.totals(costs, on), sep="\n", flush=True
    )
    if faults := list(missing(planned, costs)):
        raise output.NotVerifiedError(
            "this machine is not ready:\n" + "\n".join(f"- {fault}" for fault in faults)
        )
    print("This machine is ready.")


def compare_paper(overlays: Annotated[list[Path], OVERLAYS]) -> None:
    """Show our results of the paper's experiment beside the paper's numbers, table by table.

    \b
    munkey compare-paper workflow/presets/paper.yaml

    It reads what `make paper` with these overlays has made. `make reproduce` ends with it.
    """
    from munkey.core.paths import fill
    from munkey.experiment.plan.exhibits import Exhibits
    from munkey.report.tables import paper
    from munkey.report.tables.markup import render

    planned = plan_of(overlays)
    seeds = len(planned.params.seeds)
    try:
        both = paper.read(fill(planned.layout.table, table="paper", ending="csv"))
        said = list(paper.statements(Exhibits(planned).compared, seeds))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error.filename} is missing: `make paper` with the same overlays makes it"
        ) from None
    print(
        render([*paper.side_by_side(both), paper.counts(both, paper.printed())], "markdown"),
        "If our runs and the paper's were draws from one distribution, about"
        f" {100 * paper.expected_share(seeds):.0f} % of our numbers would lie within the paper's ±"
        f" (ours: n = {seeds}, the paper's: n = 3).",
        *said,
        sep="\n",
    )


def search_summary(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The searches of a data set.", show_default=False),
    ],
    drop: Annotated[
        float,
        typer.Option(
            help="Points of validation accuracy that a setting may lose: `search_drop` of the run."
        ),
    ] = 5.0,
    by_audit: Annotated[
        bool,
        typer.Option(
            help="By what an audit of the search finds left, instead of the gap on validation."
        ),
    ] = False,
) -> None:
    """List every setting that a search tried, by method, best first over all seeds and rates.

    \b
    munkey search-summary results/default/search/digits

    Each with its mean gap on validation and its largest loss of validation accuracy.
    """
    from munkey.audits import read_evidence
    from munkey.evaluation.search import report

    for line in read_evidence.by_audit(folder, drop) if by_audit else report(folder, drop):
        print(line, flush=True)


def search_fitted(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A prepared data set.", show_default=False)
    ],
    keys: Annotated[
        Path | None, typer.Option(help="Its keys, if there are some of several encoders.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, help="How many settings to show of each family.")
    ] = 3,
) -> None:
    """Search the constants of KNN, LDA and NCM on validation: `knn`, `lda`, `ncm` of params.yaml.

    \b
    munkey search-fitted results/default/data/digits

    The best by the log-likelihood of the validation samples come first. It changes nothing.
    """
    from munkey.evaluation.fitted_search import lines, search
    from munkey.models.family import FAMILIES, FittedFamily

    found = [keys] if keys else sorted(folder.parents[1].glob(f"keys/{folder.name}/*/keys.npz"))
    if len(found) != 1:
        said = ", ".join(map(str, found)) or f"none, below {folder.parents[1] / 'keys'}"
        raise ValueError(f"{folder}: name its keys with --keys; there are: {said}")
    for family in FAMILIES.values():
        if isinstance(family, FittedFamily) and family.tried:
            print(
                f"{family.name}:",
                *lines(search(folder, found[0], family), count),
                sep="\n",
                flush=True,
            )


def save_backbone(
    system: Annotated[
        Path, typer.Argument(help="The system.safetensors of a trained ViT, e.g. original-t's.")
    ],
    folder: Annotated[
        Path, typer.Argument(help="Where timm's files go; params.yaml names it with a slash.")
    ],
) -> None:
    """Save a trained ViT as timm saves a model, to fine-tune it on other data: `network: pretrained`.

    \b
    munkey save-backbone results/pretraining/models/cifar-10/seed0/full/original-t/system.safetensors cache/backbone
    """
    from munkey.core.files import read_json
    from munkey.models.system import load, save_for_timm

    data = read_json(system.with_name("record.json"))["settings"]["data"]
    save_for_timm(load(system), folder, data["pixel_mean"], data["pixel_std"])
    print(f"saved; name it in params.yaml: pretrained.model: {folder}/")


def external_state(file: Path) -> None:
    """Write the state of the data sets' files and the encoders' weights that params.yaml names, as JSON: for DVC."""
    from munkey.core.files import write_json

    write_json(file, plan_of([]).external_state)


def check_files(overlays: Annotated[list[Path], OVERLAYS]) -> None:
    """Refuse what is not a file of parameters, by file and line: for the Makefile."""
    from munkey.experiment.params.load import read_params

    read_params(overlays)
