"""Explanations of why a dry run (`snakemake -n`) would rerun jobs, e.g. changed knobs or code."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from munkey.experiment.run import code_digest

# Rules' params that are single knobs, and the names of these knobs in params.yaml.
KNOBS = {
    "depth": "keys.depth",
    "k": "inference.k",
    "sampling": "forget.sampling",
    "names": "forget.names",
    "pool": "audit.pool",
    "pool_of": "audit.pool_of",
    "draw": "audit.draw",
    "threshold": "selection.threshold",
    "requests": "stream.requests",
    "additions": "stream.additions",
}
MAX_LISTED = 4  # changes of a job, or changed files of its code; the rest are only counted


@dataclass(frozen=True)
class PlannedJob:
    """A job that will run.

    Attributes
    ----------
    what
        The job's message.
    changed
        The params that changed, by name.
    before
        The earlier values of params, as `repr` writes them, without names.
    files
        The inputs that changed.
    other
        Further reasons, as text.
    made_at
        The time at which the results were written; 0 if there are none.
    """

    rule: str
    what: str
    method: str
    changed: Mapping[str, Any]
    before: Sequence[str]
    files: Sequence[str]
    other: Sequence[str]
    made_at: float


def explain_jobs(jobs: Iterable[PlannedJob]) -> Iterator[str]:
    """Yield a line for each job with a reason of its own to rerun, then the counts of all others.

    The others have no results yet, or they only read files that other jobs will write again.
    """
    new: Counter[str] = Counter()
    following: Counter[str] = Counter()
    for job in jobs:
        reasons = list(_describe_changes(job))
        for path in job.files:
            reasons.append(f"{path} changed")
        reasons += job.other
        if reasons and job.made_at:
            listed = reasons[:MAX_LISTED]
            if len(reasons) > MAX_LISTED:
                listed.append(f"{len(reasons) - MAX_LISTED} more")
            yield f"  {job.what}: {'; '.join(listed)}"
        elif job.made_at:
            following[job.rule] += 1
        else:
            new[job.rule] += 1
    for label, rules in (("no results yet", new), ("inputs are computed again", following)):
        if rules:
            counts = [f"{rule} ({count})" for rule, count in rules.items()]
            yield f"  {label}: {', '.join(counts)}"


def _describe_changes(job: PlannedJob) -> Iterator[str]:
    """Yield phrases on how the params of a job changed."""
    earlier_values = list(map(_parse_value, job.before))
    for name, value in job.changed.items():
        # Snakemake stores earlier values without their names, so take the first comparable one.
        old = next((earlier for earlier in earlier_values if _is_comparable(earlier, value)), None)
        if name == "code":
            function, _, digest = str(value).partition(" ")
            yield f"the code of {function}: {_format_changed_files(digest, job.made_at)}"
        elif isinstance(value, Mapping) and isinstance(old, Mapping):
            knobs = _flatten(value, job.method)
            knobs_before = _flatten(old, job.method)
            for knob in sorted(knobs | knobs_before):
                knob_value = knobs.get(knob, "none")
                knob_value_before = knobs_before.get(knob, "none")
                if knob_value != knob_value_before:
                    yield f"{knob} {knob_value_before} → {knob_value}"
        elif isinstance(value, (str, int, float)) and old is not None:
            yield f"{KNOBS.get(name, name)} {old} → {value}"
        else:
            yield f"{KNOBS.get(name, name)} changed"
    if job.before and not job.changed:
        yield "fewer settings"


def _parse_value(text: str) -> object:
    """Return the value that `repr` wrote, or the text itself if it is not a literal."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _is_comparable(old: object, value: object) -> bool:
    """Return whether two values may belong to the same param: of one type, mappings with a common key."""
    if isinstance(old, Mapping) and isinstance(value, Mapping):
        return bool(old.keys() & value.keys())
    return type(old) is type(value)


def _flatten(section: Mapping[Any, Any], method: str) -> dict[str, object]:
    """Flatten nested settings to dotted names. The section `method` becomes unlearn.METHOD."""
    values: dict[str, object] = {}
    for name, value in section.items():
        if not isinstance(value, Mapping):
            values[str(name)] = value
            continue
        prefix = str(name)
        if name == "method" and method:
            prefix = f"unlearn.{method}"
        for key, nested_value in _flatten(value, "").items():
            values[f"{prefix}.{key}"] = nested_value
    return values


def _format_changed_files(digest: str, made_at: float) -> str:
    """Name the files behind a digest that have changed since the results were made, at `made_at`."""
    files = code_digest.list_changed_files(digest, made_at)
    if not files:
        return "a different version from the one behind the results"
    listed = ", ".join(files[:MAX_LISTED])
    if len(files) > MAX_LISTED:
        listed += f" and {len(files) - MAX_LISTED} more"
    return listed
