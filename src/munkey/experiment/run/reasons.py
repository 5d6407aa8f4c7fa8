"""Why a dry run would run each job again, in words: which knobs changed, or which code (`snakemake -n`)."""

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
    """A job that is to run. what: its message; method: that it is about, if any.

    changed: those of its params that differ from the last time, by name; before: what differing params were then, as
    `repr` writes them, without names. files: changed inputs; other: further reasons, in words. made: when its results
    were made, 0 where they were not.
    """

    rule: str
    what: str
    method: str
    changed: Mapping[str, Any]
    before: Sequence[str]
    files: Sequence[str]
    other: Sequence[str]
    made: float


def lines(jobs: Iterable[PlannedJob]) -> Iterator[str]:
    """A line for each job that runs for a reason of its own; then, by rule, those that are new or follow."""
    new: Counter[str] = Counter()
    following: Counter[str] = Counter()
    for job in jobs:
        reasons = [*_changes(job), *(f"{path} changed" for path in job.files), *job.other]
        if reasons and job.made:
            more = [f"{len(reasons) - SHOWN} more"] if len(reasons) > SHOWN else []
            yield f"  {job.what}: {'; '.join(reasons[:SHOWN] + more)}"
        elif job.made:
            following[job.rule] += 1
        else:
            new[job.rule] += 1
    for words, rules in (("not made yet", new), ("made from what is made anew", following)):
        if rules:
            yield f"  {words}: {', '.join(f'{rule} ({count})' for rule, count in rules.items())}"


def _changes(job: PlannedJob) -> Iterator[str]:
    """In words, how the params of a job differ from the last time."""
    before = [_value(text) for text in job.before]
    for name, value in job.changed.items():
        old = next((each for each in before if _may_have_been(each, value)), None)
        if name == "code":
            function, _, digest = str(value).partition(" ")
            yield f"the code of {function}: {_files(digest, job.made)}"
        elif isinstance(value, Mapping) and isinstance(old, Mapping):
            knobs, knobs_before = _flat(value), _flat(old)
            for knob in sorted(knobs | knobs_before):
                if knobs.get(knob) != knobs_before.get(knob):
                    named = (
                        knob.replace("method.", f"unlearn.{job.method}.") if job.method else knob
                    )
                    yield f"{named} {knobs_before.get(knob, 'none')} → {knobs.get(knob, 'none')}"
        elif isinstance(value, (str, int, float)) and old is not None:
            yield f"{KNOBS.get(name, name)} {old} → {value}"
        else:
            yield f"{KNOBS.get(name, name)} changed"
    if job.before and not job.changed:
        yield "fewer settings"


def _value(text: str) -> object:
    """What `repr` wrote; the text where it is no literal."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _may_have_been(old: object, value: object) -> bool:
    """Whether a param may have had this value before: their types agree, and dictionaries share a key."""
    if isinstance(old, Mapping) and isinstance(value, Mapping):
        return bool(old.keys() & value.keys())
    return type(old) is type(value)


def _flat(section: Mapping[Any, Any], prefix: str = "") -> dict[str, object]:
    """Nested settings by dotted names."""
    flat: dict[str, object] = {}
    for name, value in section.items():
        flat |= (
            _flat(value, f"{prefix}{name}.")
            if isinstance(value, Mapping)
            else {f"{prefix}{name}": value}
        )
    return flat


def _files(digest: str, made: float) -> str:
    """The files behind a digest that are newer than the results."""
    files = code_digest.newer(digest, made)
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return ", ".join(files[:SHOWN]) + more or "another version than that of the results"
