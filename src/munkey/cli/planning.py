"""`munkey plan`."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from munkey.cli import output

if TYPE_CHECKING:
    from munkey.experiment.cost.estimate import Estimate
    from munkey.experiment.cost.machines import Machine


def plan(
    overlays: Annotated[
        list[Path] | None,
        typer.Argument(metavar="OVERLAY", help="Files that change params.yaml, e.g. presets.", show_default=False),
    ] = None,
    target: Annotated[
        Literal["run", "paper"],
        typer.Option(help="What `make run` makes; or all that `make paper` makes."),
    ] = "run",
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="NAME of benchmarks/results/speed-NAME.json, or h200-assumed; else this one."
        ),
    ] = None,
    memory: Annotated[
        float | None, typer.Option(metavar="GB", help="Memory that one job may take; else all that the machine has.")
    ] = None,
    gpus: Annotated[
        str, typer.Option(metavar="1,8,64", help="How many GPUs, or machines without one: estimate each.")
    ] = "1",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: seconds, bytes, operations.")] = False,
) -> None:
    """Say what an experiment will cost before its first job: trainings, hours, disk, memory of each kind of job.

    \b
    munkey plan                                   params.yaml on this machine
    munkey plan workflow/presets/paper.yaml --target paper --machine h200-assumed --gpus 1,8,64
    munkey plan --memory 16 --json | jq .hours

    Run it in the project's folder: it reads the parameter files and starts nothing. It warns of what will be slow, and
    exits with 1 if a job cannot fit.
    """
    from munkey.core.files import CONFIGFILES
    from munkey.experiment.cost import estimate, machines
    from munkey.experiment.params.load import load
    from munkey.experiment.plan.plan import Plan

    if overlays:
        os.environ[CONFIGFILES] = shlex.join(map(str, overlays))
    counts, planned = _counts(gpus), Plan(load(estimate.read(overlays or [])))
    on = machines.machine(machine, memory)
    costs = estimate.estimate(planned, target, on, counts)
    name = planned.params.name
    output.say("\n".join(estimate.lines(costs, on, name)), {"name": name, **_as_json(costs, on)}, as_json)
    if costs.refusals:
        raise typer.Exit(output.FAILED)


def _counts(text: str) -> list[int]:
    """Numbers of GPUs. Raises ValueError for anything else."""
    counts = [int(word) if word.strip().isdecimal() else 0 for word in text.split(",")]
    if min(counts) < 1:
        raise ValueError(f"--gpus {text}: write numbers of GPUs, separated by commas, e.g. 1,8,64")
    return counts


def _as_json(costs: "Estimate", on: "Machine") -> dict[str, object]:
    """seconds: of all jobs of a kind, one after the other; memory: the peak of one without torch itself, bytes."""
    work = [
        {
            **{
                name: getattr(each, name)
                for name in ("step", "what", "dataset", "jobs", "steps", "operations", "memory")
            },
            "seconds": seconds,
        }
        for each, seconds in zip(costs.work, costs.seconds, strict=True)
    ]
    machine = {"name": on.name, "gpu": on.gpu, "measured": on.measured, "memory": on.memory}
    said = {"hours": costs.hours, "disk": costs.disk, "warnings": costs.warnings, "refusals": costs.refusals}
    return {"machine": machine, "work": work, **said}
