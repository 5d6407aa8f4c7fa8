"""The estimated cost of a configuration: training runs, steps, operations, hours and disk space.

`munkey plan` prints it. It is computed from torch's count of the networks' operations and from a
machine's benchmark file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from munkey.core.paths import fill
from munkey.data.sizes import Size
from munkey.evaluation.records import Evaluation
from munkey.experiment.cost.machines import Machine
from munkey.experiment.cost.workload import Work, Workload, estimate_size
from munkey.experiment.params.load import ParamsError, memory_family
from munkey.experiment.params.studies import load_studies
from munkey.experiment.plan.plan import Plan

# Operations per second of an encoder on one CPU core. Measured with EfficientNet-Lite0 to 2 at 64 to
# 224 pixels on an AMD EPYC: 62 to 70 billion (docs/performance.md).
CORE_SPEED = 60e9

Target = Literal["run", "audits", "scenarios", "paper"]


class CostEstimate(NamedTuple):
    """The cost of a configuration on a machine.

    Attributes
    ----------
    seconds
        The total seconds of each entry of `work`; empty if the machine's speed is unknown.
    disk
        The size of all files in bytes.
    hours
        The minimum hours, by number of GPUs (or machines); empty if the machine's speed is unknown.
    uncounted
        For each data set of unknown size, the reason why it is not counted.
    uncounted_keys
        A sentence for each encoder whose number of operations is unknown.
    """

    work: list[Work]
    seconds: list[float]
    disk: float
    hours: dict[int, float]
    uncounted: list[str]
    uncounted_keys: list[str]


def estimate(
    plan: Plan, target: Target, machine: Machine, gpus: Sequence[int] = (1,)
) -> CostEstimate:
    """Estimate the cost of a target.

    Raises ParamsError if no data set's size is known yet.

    Parameters
    ----------
    gpus
        The numbers of GPUs (or machines) for which to estimate the hours.
    """
    sizes: dict[str, Size] = {}
    uncounted = []
    for dataset in plan.params.datasets:
        try:
            sizes[dataset] = estimate_size(plan, dataset)
        except ParamsError as error:
            uncounted.append(str(error))
    if not sizes:
        raise ParamsError("\n".join(uncounted))
    runs = [run for run in list_evaluations(plan, target) if run.dataset in sizes]
    workload = Workload(plan, runs, sizes)
    work = workload.list_work()
    seconds: list[float] = []
    hours: dict[int, float] = {}
    if machine.speeds:
        seconds = [estimate_seconds(kind, machine) for kind in work]
        hours = {count: bound_seconds(work, seconds, count) / 3600 for count in gpus}
    return CostEstimate(work, seconds, workload.disk, hours, uncounted, workload.uncounted_keys)


def list_evaluations(plan: Plan, target: Target) -> Iterator[Evaluation]:
    """Yield the evaluations that a target needs. All targets include those of `make run`."""
    yield from plan.main
    for study in load_studies().values():
        yield from study.list_runs(plan, target)
    if target != "paper":
        return
    for dataset in plan.params.datasets:
        for run in plan.list_main_runs(dataset):
            # Figures of the training's progress need another training run.
            if run.method == memory_family().original:
                trace = fill(plan.layout.trace, case=dataset, seed=run.seed)
                yield replace(run, record=trace)


def estimate_seconds(work: Work, machine: Machine) -> float:
    """Estimate the seconds that the jobs take one after another on one machine or GPU."""
    if work.network is None:
        return 0.0
    if work.step == "keys" and not machine.gpu:
        return work.operations / CORE_SPEED
    return work.operations / machine.estimate_speed(work.network)


def bound_seconds(work: Sequence[Work], seconds: Sequence[float], gpus: int) -> float:
    """Compute a lower bound on the seconds that the work takes on this many GPUs.

    Parameters
    ----------
    seconds
        The seconds of each kind of work on one GPU.
    """
    # Each step waits for the previous one, so the sum of each step's longest job is a lower bound.
    longest_chain = 0.0
    for step in ("keys", "train", "unlearn", "evaluate"):
        seconds_per_job = []
        for kind, total in zip(work, seconds, strict=True):
            if kind.step == step:
                seconds_per_job.append(total / kind.jobs)
        longest_chain += max(seconds_per_job, default=0.0)
    return max(sum(seconds) / gpus, longest_chain)


def format_gigabytes(byte_count: float) -> str:
    return f"{byte_count / 1e9:,.1f} GB"


def format_lines(costs: CostEstimate, machine: Machine, name: str) -> Iterator[str]:
    """Yield the lines of a table of costs, and of a summary.

    Parameters
    ----------
    name
        The name of the configuration.
    """
    yield format_heading(machine, name)
    width = max(15, *(len(kind.what) + 1 for kind in costs.work))
    columns = f"{'step':9}{'what':{width}}{'data set':14}{'jobs':>6}{'steps':>12}{'PFLOP':>11}"
    if costs.seconds:
        columns += f"{'minutes':>10}"
    yield columns
    for index, kind in enumerate(costs.work):
        cells = f"{kind.step:9}{kind.what:{width}}{kind.dataset:14}{kind.jobs:6,}{kind.steps:12,}"
        cells += f"{kind.operations / 1e15:11,.3g}"
        if costs.seconds:
            cells += f"{costs.seconds[index] / 60:10,.1f}"
        yield cells
    yield from format_totals(costs, machine)


def format_heading(machine: Machine, name: str) -> str:
    if not machine.speeds:
        return f"{name} on {machine.name}"
    speeds = "measured" if machine.measured else "assumed, not measured"
    return f"{name} on {machine.name} (speeds {speeds})"


def format_totals(costs: CostEstimate, machine: Machine) -> Iterator[str]:
    """Yield the total costs of all jobs."""
    trainings = sum(kind.jobs for kind in costs.work if kind.step == "train")
    jobs = sum(kind.jobs for kind in costs.work)
    steps = sum(kind.steps for kind in costs.work)
    operations = sum(kind.operations for kind in costs.work)
    amounts = f"{trainings:,} training runs, {jobs:,} jobs, {steps:,} steps"
    yield f"{amounts}, {operations / 1e15:,.3g} PFLOP, {format_gigabytes(costs.disk)} of disk"
    unit = "GPU" if machine.gpu else "machine"
    for count, hours in costs.hours.items():
        yield f"on {count} {unit}{'s' * (count > 1)}: at least {hours:,.2f} hours"
    if not costs.hours:
        yield (
            "hours: unknown, as is this machine's speed; measure it with `make bench`, or give it:"
            " munkey plan --tflops N"
        )
    for reason in costs.uncounted:
        yield f"NOT COUNTED: {reason}"
    for keys in costs.uncounted_keys:
        yield f"NOT COUNTED: {keys}"
