"""Computing the metrics, tables and figures of a published run again, from its logits.

The rules of this checkout do it, in a folder that has the published files. Only jobs run that
neither read nor write pictures, keys or models, so nothing is trained.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from munkey.core.files import require_empty_folder
from munkey.experiment.publish.contents import find_kind, is_result, list_kinds
from munkey.experiment.publish.published_run import NotAPublishedRunError, PublishedRun
from munkey.experiment.publish.workflow import (
    RecordedJob,
    find_rules,
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
        How many results were not computed again, by the kinds that their jobs read or write.
    other_code
        The rules whose code is not the published one.
    """

    equal: list[str]
    different: dict[str, str]
    not_repeated: dict[str, Counter[str]]
    other_code: list[str]


def check_run(run: PublishedRun, folder: Path, cores: int) -> CheckResult:
    """Compute results again in an empty folder, and compare them with the published ones."""
    require_empty_folder(folder)
    make_workspace_without_data(run, folder)
    jobs = find_repeatable(run)
    unpack_results(run, folder)
    targets = sorted(path for job in jobs for path in job.outputs)
    if not targets:
        raise NotAPublishedRunError(
            f"{run.path}: nothing in it can be computed again without pictures, keys or models"
        )
    repeat(jobs, targets, folder, cores)
    equal = []
    different = {}
    for path in targets:
        difference = _find_difference(run.read(path), folder / path)
        if difference:
            different[path] = difference
        else:
            equal.append(path)
    return CheckResult(equal, different, _count_others(run, jobs), find_other_code(run, folder))


def find_repeatable(run: PublishedRun) -> list[RecordedJob]:
    """Return the jobs that need no pictures, keys or models."""
    return [job for job in run.jobs if not list_kinds([*job.inputs, *job.outputs])]


def repeat(jobs: Sequence[RecordedJob], targets: Sequence[str], folder: Path, cores: int) -> None:
    """Run jobs again in a folder that has what they read.

    Raises NotAPublishedRunError if a job's rule trains a model or computes keys here, whatever the
    file says.
    """
    rules = sorted({job.rule for job in jobs})
    for path, rule in find_rules(targets, folder).items():
        if rule in rules and find_kind(path):
            raise NotAPublishedRunError(
                f"refused, since the rule {rule}, which makes {path}, is said to make tables only"
            )
    arguments = ["--cores", str(cores), "--forceall", "--allowed-rules", *rules]
    run_snakemake([*arguments, "--", *targets], folder, show=True)


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


def _count_others(run: PublishedRun, repeated: Sequence[RecordedJob]) -> dict[str, Counter[str]]:
    """Count the published results of other jobs, by folder, for each reason."""
    reasons = dict.fromkeys(filter(is_result, run.files), "no job made them")
    for job in run.jobs:
        kinds = ", ".join(list_kinds([*job.inputs, *job.outputs]))
        reasons |= dict.fromkeys(job.outputs, f"their jobs read or write {kinds}")
    for job in repeated:
        for path in job.outputs:
            del reasons[path]
    counts: dict[str, Counter[str]] = {}
    for path, reason in reasons.items():
        if path in run.files and not run.files[path].withheld:
            counts.setdefault(reason, Counter())[path.split("/")[2]] += 1
    return counts


def find_other_code(run: PublishedRun, folder: Path) -> list[str]:
    """Return the rules that ran in a folder with other code than the published code."""
    published = {path: job.code for job in run.jobs for path in job.outputs}
    others = set()
    computed = [path for path in published if is_computed(folder / path)]
    for job in read_jobs(folder, computed):
        if any(published[path] != job.code for path in job.outputs):
            others.add(job.rule)
    return sorted(others)
