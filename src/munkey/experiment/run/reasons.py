"""Why a dry run would run each job again, in words: changed knobs, or changed code (`snakemake -n`)."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from munkey.experiment.run import code_digest

# Params of rules that are single knobs of params.yaml, by their names there.
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
SHOWN = 4  # changes of a job that are listed, and changed files of its code


@dataclass(frozen=True)
class PlannedJob:
    """A job that is to run.

    Attributes
    ----------
    what
        The job's message.
    method
        The method that the job is about, or an empty text.
    changed
        The params that differ from the last time, by name.
    before
        The values that they had then, as `repr` writes them, without names.
    files
        The inputs that changed.
    other
        Further reasons, in words.
    made_at
        The time at which the results were made, 0 if they were not.
    """

    rule: str
    what: str
    method: str
    changed: Mapping[str, Any]
    before: Sequence[str]
    files: Sequence[str]
    other: Sequence[str]
    made_at: float


def lines(jobs: Iterable[PlannedJob]) -> Iterator[str]:
    """Yield a line for each job that has its own reason to run, then count all others.

    The others have never run, or they read a file that another job remakes.
    """
    new: Counter[str] = Counter()
    following: Counter[str] = Counter()
    for job in jobs:
        reasons = list(_describe_changes(job))
        for path in job.files:
            reasons.append(f"{path} changed")
        reasons += job.other
        if reasons and job.made_at:
            listed = reasons[:SHOWN]
            if len(reasons) > SHOWN:
                listed.append(f"{len(reasons) - SHOWN} more")
            yield f"  {job.what}: {'; '.join(listed)}"
        elif job.made_at:
            following[job.rule] += 1
        else:
            new[job.rule] += 1
    for words, rules in (("not made yet", new), ("made from remade files", following)):
        if rules:
            counts = [f"{rule} ({count})" for rule, count in rules.items()]
            yield f"  {words}: {', '.join(counts)}"


def _describe_changes(job: PlannedJob) -> Iterator[str]:
    """Yield phrases on how the params of a job differ from the last time."""
    earlier_values = list(map(_parse_value, job.before))
    for name, value in job.changed.items():
        # Snakemake keeps earlier values without their names: take the first that may be its.
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
    """Return whether an old value may be of the same param: of its type, and mappings share a key."""
    if isinstance(old, Mapping) and isinstance(value, Mapping):
        return bool(old.keys() & value.keys())
    return type(old) is type(value)


def _flatten(section: Mapping[Any, Any], method: str) -> dict[str, object]:
    """Return nested settings by dotted names. A job's section `method` is unlearn.METHOD there."""
    values: dict[str, object] = {}
    for name, value in section.items():
        if not isinstance(value, Mapping):
            values[str(name)] = value
            continue
        prefix = str(name)
        if name == "method" and method:
            prefix = f"unlearn.{method}"
        for key, below in _flatten(value, "").items():
            values[f"{prefix}.{key}"] = below
    return values


def _format_changed_files(digest: str, made_at: float) -> str:
    """Return the names of the files behind a digest that are newer than the results."""
    files = code_digest.changed_files(digest, made_at)
    if not files:
        return "another version than that of the results"
    listed = ", ".join(files[:SHOWN])
    if len(files) > SHOWN:
        listed += f" and {len(files) - SHOWN} more"
    return listed
