"""The tables of measured speeds, from the results in benchmarks/results/*.json."""

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypedDict, cast

from benchmarks.measuring import RESULTS, Machine, Result


class Table(NamedTuple):
    """How to make a table in Markdown from results.

    Attributes
    ----------
    files
        The beginning of the names of the files with its results.
    written
        Makes the table of one file, from the file's content.
    """

    files: str
    written: Callable[[object], str]


class Speed(TypedDict):
    """The content of a file that `make bench` writes."""

    machine: Machine
    results: list[Result]


def description(machine: Machine) -> str:
    """Describe a machine in a line above its table."""
    return f"**{machine['device']}**, {machine['cores']} cores, {machine['date']}, torch {machine['versions']['torch']}"


def speed(measured: Speed) -> str:
    """Make the table of times and speeds, without ratios, which are in the table of targets."""
    lines = [
        f"| {row['name']} | {row['median']:,.4g} | {row['q25']:,.4g} – {row['q75']:,.4g} | {row['unit']} | {row['n']} |"
        for row in measured["results"]
        if row["unit"] in {"images/s", "queries/s", "ms"}
    ]
    head = ["| what | median | quartiles | unit | n |", "|---|---|---|---|---|"]
    return "\n".join([description(measured["machine"]), "", *head, *lines])


class Promise(NamedTuple):
    """The upper limit of a result's median, or its lower limit if `at_least` is true."""

    name: str
    limit: float
    at_least: bool = False


PROMISES = (
    *(
        Promise(f"{rows} rows: one deletion, acknowledged", 1)
        for rows in ("10,000", "100,000", "1,000,000")
    ),
    Promise("1,000,000 rows: deletion of 100,000, acknowledged", 4000),
    Promise("12,000 x 1,280: open and read, CPU", 60),
)
TARGETS = (
    Promise("ViT-T/16 at 224 px, float32: ViT's share of the matrix product", 80, at_least=True),
    Promise("ViT-T/16 at 224 px, float32: time of MUNKEY / ViT", 1.03),
    Promise("ViT-T/16 at 224 px, bfloat16: time of MUNKEY / ViT", 1.03),
    Promise("small ViT, float32: time of MUNKEY / ViT", 1.12),
)


def searches(measured: Speed) -> str:
    """Make the table of all results of the search, with their limits."""
    limits = {
        "256 queries in 1,000,000 x 768": "≤ 10",
    }
    lines = [
        f"| {row['name']} | {limits.get(row['name'], '–')} | {row['median']:,.3g}"
        f" | {row['q25']:,.3g} – {row['q75']:,.3g} | {row['unit']} | {row['n']} |"
        for row in measured["results"]
    ]
    head = ["| what | promised | median | quartiles | unit | n |", "|---|---|---|---|---|---|"]
    return "\n".join([description(measured["machine"]), "", *head, *lines])


def promises(measured: Speed, promised: Sequence[Promise] = PROMISES) -> str:
    """Make the table of promised limits and measured results, by default of the durable memory."""
    lines = [
        format_promise(promise, row)
        for promise in promised
        for row in measured["results"]
        if row["name"] == promise.name
    ]
    head = ["| what | promised | measured: median | quartiles | n |", "|---|---|---|---|---|"]
    return "\n".join([description(measured["machine"]), "", *head, *lines])


def format_promise(promise: Promise, row: Result) -> str:
    """Format a row of the table of promises. A median that misses its limit is bold."""
    if promise.at_least:
        sign = "≥"
        is_kept = row["median"] >= promise.limit
    else:
        sign = "≤"
        is_kept = row["median"] <= promise.limit
    unit = row["unit"] if row["unit"] == "%" else f" {row['unit']}"
    bound = f"{sign} {promise.limit:,g}{unit}"
    measured = f"{row['median']:,.4g}"
    if not is_kept:
        measured = f"**{measured}: missed**"
    return f"| {row['name']} | {bound} | {measured} | {row['q25']:,.4g} – {row['q75']:,.4g} | {row['n']} |"


# The tables by their markers in pages.
TABLES: dict[str, Table] = {
    "speed": Table("speed", lambda content: speed(cast(Speed, content))),
    "promises": Table("memory", lambda content: promises(cast(Speed, content))),
    "targets": Table("speed", lambda content: promises(cast(Speed, content), TARGETS)),
    "searches": Table("search", lambda content: searches(cast(Speed, content))),
}


def table(name: str) -> str:
    """Return the text below a marker: a table for each file of results."""
    files, written = TABLES[name]
    paths = sorted(RESULTS.glob(f"{files}*.json"))
    return "\n\n".join(written(json.loads(path.read_text())) for path in paths)
