"""What a configuration will cost, before its first job: trainings, steps, operations, hours, disk, memory.

An estimate from the models' arithmetic and a machine's benchmark file. `munkey plan` prints it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, NamedTuple

from munkey.core.device import gpu_visible
from munkey.core.files import DamagedFileError
from munkey.core.paths import fill
from munkey.data.sizes import Size
from munkey.evaluation.records import Evaluation
from munkey.experiment.cost.machines import BENCHED, Machine
from munkey.experiment.cost.workload import Work, Workload, counted, size_of
from munkey.experiment.params.load import ParamsError, memory_family
from munkey.experiment.plan.audits import AuditPlan
from munkey.experiment.plan.plan import Plan
from munkey.unlearn.contract import METHODS

PROCESS = 0.7e9  # bytes that torch and its libraries take of a process before it computes anything
TIGHT_SHARE = 0.8  # of the memory, above which a job may fail
MUCH_ATTENTION = 0.5e9  # bytes that attention alone holds
TYPICAL = Size(10_000, 2_000, 2_000, 64, 10)  # of a data set that has not been prepared yet
Target = Literal["run", "audits", "scenarios", "paper"]


class CostEstimate(NamedTuple):
    """What a configuration costs on a machine. hours: by number of GPUs, or of machines; refusals: what cannot fit.

    uncounted: why some data sets are left out, whose size is not known yet.
    """

    work: list[Work]
    seconds: list[float]
    disk: float
    hours: dict[int, float]
    warnings: list[str]
    refusals: list[str]
    uncounted: list[str]


def estimate(plan: Plan, target: Target, on: Machine, gpus: Sequence[int] = (1,)) -> CostEstimate:
    """The costs of what a target makes. Raises ParamsError where no data set's size is known yet."""
    sizes, uncounted = dict[str, Size](), []
    for dataset in plan.params.datasets:
        try:
            sizes[dataset] = counted(plan, dataset)
        except ParamsError as error:
            uncounted.append(str(error))
    if not sizes:
        raise ParamsError("\n".join(uncounted))
    load = Workload(plan, (run for run in runs_of(plan, target) if run.dataset in sizes), sizes)
    work = load.all()
    seconds = [seconds_of(each, on) for each in work]
    hours = {count: elapsed(work, seconds, count) / 3600 for count in gpus}
    refusals = [line for each in work for line in too_large(each, on)]
    return CostEstimate(work, seconds, load.disk, hours, [*warnings(plan, work, on)], refusals, uncounted)


def runs_of(plan: Plan, target: Target) -> Iterator[Evaluation]:
    """The evaluations behind a target: `make run`'s, and those of what it makes besides."""
    yield from plan.main
    audits = AuditPlan(plan)
    for dataset in plan.params.datasets:
        yield from audits.runs_of(dataset) if target == "audits" else ()
        yield from plan.scenarios_of(dataset) if target == "scenarios" else ()
    for dataset in plan.params.datasets if target == "paper" else ():
        yield from plan.ablations_of(dataset)
        yield from plan.selection_of(dataset)
        for run in plan.main_of(dataset):  # trained again for the figures, which show a training at several moments
            if run.method == memory_family().original:
                yield replace(run, record=fill(plan.layout.trace, case=dataset, seed=run.seed))
        yield from audits.runs_of(dataset) if dataset in audits.in_paper else ()


def work_of(plan: Plan) -> dict[str, float]:
    """How much a job of each rule has to do, one rule against another.

    They compare alike whatever the size of a data set, so a typical one will do where its own is not known, or its
    files are damaged: the job that reads them says so.
    """
    on = Machine("any", dict.fromkeys(BENCHED, 1e9), memory=0.0, gpu=gpu_visible(), measured=False)
    by_rule: dict[str, list[Work]] = {}
    sizes = dict.fromkeys(plan.params.datasets, TYPICAL)
    for dataset in sizes:
        with suppress(ParamsError, DamagedFileError, FileNotFoundError):
            sizes[dataset] = size_of(plan, dataset)
    for each in Workload(plan, plan.main, sizes).all():
        rule = "unlearn_candidate" if each.step == "unlearn" and each.what in plan.searched else each.step
        by_rule.setdefault(rule, []).extend([each] if each.operations else [])
    return {
        rule: sum(seconds_of(each, on) for each in kinds) / sum(each.jobs for each in kinds)
        for rule, kinds in by_rule.items()
        if kinds
    }


def seconds_of(work: Work, on: Machine) -> float:
    """Of all its jobs, one after the other on one machine or GPU: by operations or by launches, whichever is more."""
    return max(work.operations / on.speed(work.network), work.steps * on.launch_s(work.network))


def elapsed(work: Sequence[Work], seconds: Sequence[float], gpus: int) -> float:
    """At least: all of it shared out evenly, or the longest training followed by the longest unlearning."""
    longest = {
        step: max((s / w.jobs for w, s in zip(work, seconds, strict=True) if w.step == step), default=0.0)
        for step in ("train", "unlearn", "evaluate")
    }
    return max(sum(seconds) / gpus, sum(longest.values()))


def too_large(work: Work, on: Machine) -> Iterator[str]:
    """Why a job cannot run, in words; nothing where it can."""
    needed = work.memory + PROCESS
    if needed > on.memory:
        remedy = "lower train.batch_size and finetune.batch_size, or data.image_size"
        if work.step == "unlearn" and METHODS[work.what].cost.pictures:
            remedy += ", or lower forget.rates: it holds pictures in float32"
        yield (
            f"{work.step} {work.what} on {work.dataset} needs {gigabytes(needed)}, but a job may take"
            f" {gigabytes(on.memory)} ({on.name}): {remedy}"
        )


def warnings(plan: Plan, work: Sequence[Work], on: Machine) -> Iterator[str]:
    """What will be slow or tight, and what to do about it."""
    heaviest = max(work, key=lambda each: each.memory)
    if TIGHT_SHARE * on.memory < heaviest.memory + PROCESS <= on.memory:
        yield f"{heaviest.step} {heaviest.what} on {heaviest.dataset} takes more than {TIGHT_SHARE:.0%} of the memory"
    held = max(work, key=lambda each: each.held)
    if on.gpu and held.held > plan.params.resident_share * on.memory:
        yield f"{gigabytes(held.held)} of pictures of {held.dataset} exceed resident_share: they are streamed"
    if not on.gpu and held.held > on.memory / 2:
        yield f"{gigabytes(held.held)} of pictures of {held.dataset} are read from disk again in every epoch"
    for each in {one.network: one for one in work if one.step == "train"}.values():
        yield from _launches(each, on) if on.gpu else _attention(each)


def _attention(each: Work) -> Iterator[str]:
    """On a CPU, the (n, n) weights of attention are held for every block."""
    network = each.network
    held = each.batch * network.attention_bytes
    if held > MUCH_ATTENTION:
        at = f"batch {each.batch} and {network.image_size} px"
        yield f"{each.what} on {each.dataset}: attention in float32 holds {gigabytes(held)} at {at} on a CPU"


def _launches(each: Work, on: Machine) -> Iterator[str]:
    """On a GPU, many seeds of a small model: it waits for the host, and so has room for other jobs."""
    busy = each.operations / on.speed(each.network)
    share = busy / max(busy, each.steps * on.launch_s(each.network))
    if share < 0.5:
        jobs = max(2, min(round(1 / share), 8, int(on.memory / (each.memory + PROCESS))))
        yield (
            f"{each.what} on {each.dataset} is bound by launches: it keeps a GPU busy {share:.0%} of the time. Run"
            f" {jobs} jobs per GPU, each with a CPU core of its own"
        )


def gigabytes(count: float) -> str:
    return f"{count / 1e9:,.1f} GB"


def lines(costs: CostEstimate, on: Machine, name: str) -> Iterator[str]:
    """The costs in words and as a table."""
    yield heading(on, name)
    yield f"{'step':9}{'what':15}{'data set':14}{'jobs':>6}{'steps':>12}{'PFLOP':>11}{'minutes':>10}{'peak GB':>9}"
    for each, seconds in zip(costs.work, costs.seconds, strict=True):
        amount = f"{each.operations / 1e15:11,.3g}{seconds / 60:10,.1f}{(each.memory + PROCESS) / 1e9:9,.1f}"
        yield f"{each.step:9}{each.what:15}{each.dataset:14}{each.jobs:6,}{each.steps:12,}{amount}"
    yield from totals(costs, on)


def heading(on: Machine, name: str) -> str:
    kind = "measured" if on.measured else "assumed, not measured"
    return f"{name} on {on.name} (speeds {kind}; {gigabytes(on.memory)} of memory for a job)"


def totals(costs: CostEstimate, on: Machine) -> Iterator[str]:
    """The costs of all jobs together, what to mind, and what cannot fit."""
    trainings = sum(each.jobs for each in costs.work if each.step == "train")
    steps, operations = sum(each.steps for each in costs.work), sum(each.operations for each in costs.work)
    unit = "GPU" if on.gpu else "machine"
    yield (
        f"{trainings:,} trainings, {sum(each.jobs for each in costs.work):,} jobs, {steps:,} steps,"
        f" {operations / 1e15:,.3g} PFLOP, {sum(costs.seconds) / 3600:,.2f} {unit}-hours,"
        f" {gigabytes(costs.disk)} of disk"
    )
    for count, hours in costs.hours.items():
        yield f"on {count} {unit}{'s' * (count > 1)}: at least {hours:,.2f} hours"
    yield from (f"WARNING: {line}" for line in costs.warnings)
    yield from (f"DOES NOT FIT: {line}" for line in costs.refusals)
    yield from (f"NOT COUNTED: {line}" for line in costs.uncounted)
