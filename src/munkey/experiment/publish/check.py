"""Computing the metrics, tables and figures of a published run again, from its logits.

The rules of this checkout do it, in a folder that has the published files. Only jobs run that
neither read nor write pictures, keys or models, so nothing is trained.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from munkey.core.files import require_empty_folder
from munkey.experiment.publish.contents import is_result, list_kinds
from munkey.experiment.publish.published_run import NotAPublishedRunError, PublishedRun
from munkey.experiment.publish.workflow import (
    JobFiles,
    RecordedJob,
    WorkflowFailedError,
    plan_jobs,
    read_jobs,
    run_snakemake,
)
from munkey.experiment.publish.workspace import (
    is_computed,
    make_workspace_without_data,
    unpack_results,
)

SHOWN = 100  # characters of a line that differs


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    Attributes
    ----------
    equal
        The results that have the published bytes.
    different
        Where each of the others differs.
    not_repeated
        The results that were not computed again, by the reason.
    other_code
        The rules whose code is not the published one.
    """

    equal: list[str]
    different: dict[str, str]
    not_repeated: dict[str, list[str]]
    other_code: list[str]


def check_run(run: PublishedRun, folder: Path, cores: int) -> CheckResult:
    """Compute results again in an empty folder, and compare them with the published ones.

    Raises NotAPublishedRunError if this checkout makes no such results.
    """
    require_empty_folder(folder)
    make_workspace_without_data(run, folder)
    unpack_results(run, folder)
    jobs = find_repeatable(run)
    rules = {job.rule for job in jobs}
    outputs = {path for job in jobs for path in job.outputs}
    for job in find_misstated(run, outputs, folder):
        rules.add(job.rule)
        outputs.update(job.outputs)
    targets = sorted(path for path in outputs if _is_published(run, path))
    if not targets:
        raise NotAPublishedRunError(
            f"{run.path}: nothing in it can be computed again without pictures, keys or models"
        )
    repeat(rules, targets, folder, cores)
    equal = []
    different = {}
    for path in targets:
        difference = _find_difference(run.read(path), folder / path)
        if difference:
            different[path] = difference
        else:
            equal.append(path)
    return CheckResult(equal, different, _list_others(run, targets), find_other_code(run, folder))


def find_repeatable(run: PublishedRun) -> list[RecordedJob]:
    """Return the jobs that, as the file says, need no pictures, keys or models."""
    return [job for job in run.jobs if not list_kinds([*job.inputs, *job.outputs])]


def find_misstated(run: PublishedRun, known: Iterable[str], folder: Path) -> list[JobFiles]:
    """Return the jobs that need no pictures, keys or models here, although the file says they do.

    Whoever alters a table could say that its job reads keys, to keep it from being computed again.

    Parameters
    ----------
    known
        Results that are computed again anyway.
    """
    others = {path for path in run.files if _is_published(run, path)} - set(known)
    if not others:
        return []
    jobs = []
    for job in _plan(run, others, folder):
        if others & set(job.outputs) and not list_kinds([*job.inputs, *job.outputs]):
            jobs.append(job)
    return jobs


def _plan(run: PublishedRun, targets: Iterable[str], folder: Path) -> list[JobFiles]:
    try:
        return plan_jobs(sorted(targets), folder)
    except WorkflowFailedError as error:
        raise NotAPublishedRunError(
            f"{run.path}: the rules of this clone do not make all of its results; run this command in"
            f" a clone of its commit {run.facts.machine.get('commit')}:\n{error}"
        ) from None


def _is_published(run: PublishedRun, path: str) -> bool:
    """Return whether a path is a result whose content the file has."""
    return is_result(path) and path in run.files and not run.files[path].withheld


def repeat(rules: Iterable[str], targets: Iterable[str], folder: Path, cores: int) -> None:
    """Run the jobs of rules again in a folder that has what they read.

    Raises NotAPublishedRunError if a rule trains a model or computes keys here, whatever the file
    says.
    """
    allowed = sorted(set(rules))
    paths = sorted(targets)
    for job in plan_jobs(paths, folder):
        if job.rule in allowed and list_kinds(job.outputs):
            raise NotAPublishedRunError(
                f"refused, since the rule {job.rule}, which makes {job.outputs[0]}, is said to make"
                " tables only"
            )
    arguments = ["--cores", str(cores), "--forceall", "--allowed-rules", *allowed]
    run_snakemake([*arguments, "--", *paths], folder, show=True)


def _find_difference(published: bytes, path: Path) -> str:
    """Describe where a file differs from the published one; "" if it does not."""
    if not is_computed(path):
        return "was not computed again"
    computed = path.read_bytes()
    if computed == published:
        return ""
    try:
        old_lines = published.decode().splitlines()
        new_lines = computed.decode().splitlines()
    except UnicodeDecodeError:
        return f"differs ({len(published):,} bytes published, {len(computed):,} computed)"
    for number, (old, new) in enumerate(zip_longest(old_lines, new_lines, fillvalue=""), 1):
        if old != new:
            pairs = enumerate(zip_longest(old, new))
            first = next(index for index, (before, after) in pairs if before != after)
            start = max(0, first - SHOWN // 2)
            old_part = old[start : start + SHOWN]
            new_part = new[start : start + SHOWN]
            return f"line {number}: published {old_part!r}, computed {new_part!r}"
    return "differs in line ends"


def _list_others(run: PublishedRun, computed: Iterable[str]) -> dict[str, list[str]]:
    """List the published results that were not computed again, for each reason."""
    reasons = {path: "no job made them" for path in run.files if _is_published(run, path)}
    for job in run.jobs:
        kinds = ", ".join(list_kinds([*job.inputs, *job.outputs]))
        for path in job.outputs:
            if path in reasons:
                reasons[path] = f"their jobs read or write {kinds}"
    others: dict[str, list[str]] = {}
    for path in sorted(set(reasons) - set(computed)):
        others.setdefault(reasons[path], []).append(path)
    return others


def find_other_code(run: PublishedRun, folder: Path) -> list[str]:
    """Return the rules that ran in a folder with other code than the published code."""
    published = {path: job.code for job in run.jobs for path in job.outputs}
    others = set()
    computed = [path for path in published if is_computed(folder / path)]
    for job in read_jobs(folder, computed):
        if any(published[path] != job.code for path in job.outputs):
            others.add(job.rule)
    return sorted(others)
