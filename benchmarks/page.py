"""The tables of docs/performance.md, made from benchmarks/results/*.json: `make docs`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, cast

from benchmarks.grid import Part
from benchmarks.measuring import RESULTS, Machine, Result
from munkey.pipeline.docs_tables import put


class Speed(TypedDict):
    """What `make bench` writes of a machine."""

    machine: Machine
    results: list[Result]


class Grid(TypedDict):
    """What `make bench` writes of a whole run. outside: percent outside training, unlearning and evaluation."""

    machine: Machine
    wall_s: float
    outside: float
    parts: list[Part]


def description(machine: Machine) -> str:
    return f"**{machine['device']}**, {machine['cores']} cores, {machine['date']}, torch {machine['versions']['torch']}"


def speed(measured: Speed) -> str:
    lines = [
        f"| {row['name']} | {row['median']:,.4g} | {row['q25']:,.4g} – {row['q75']:,.4g} | {row['unit']} | {row['n']} |"
        for row in measured["results"]
    ]
    head = ["| what | median | quartiles | unit | n |", "|---|---|---|---|---|"]
    return "\n".join([description(measured["machine"]), "", *head, *lines])


def grid(run: Grid) -> str:
    lines = [
        f"| {part['part']} | {part['jobs']} | {part['core_s']:.0f} | {part['share']:.1f} |" for part in run["parts"]
    ]
    wall = f"{run['wall_s'] / 60:.1f} minutes; {run['outside']:.1f} % outside training, unlearning and evaluation"
    head = ["| part | jobs | core-seconds | % |", "|---|---|---|---|"]
    return "\n".join([f"{description(run['machine'])}: {wall}", "", *head, *lines])


def filled(text: str) -> str:
    """The page with its tables made anew."""
    tables: dict[str, Callable[[object], str]] = {
        "speed": lambda content: speed(cast(Speed, content)),
        "grid": lambda content: grid(cast(Grid, content)),
    }
    for kind, table in tables.items():
        contents = [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{kind}-*.json"))]
        text = put(text, kind, "\n\n".join(map(table, contents)))
    return text


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(filled(page.read_text()))
