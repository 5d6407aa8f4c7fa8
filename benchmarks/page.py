"""The tables of docs/performance.md, made from benchmarks/results/*.json: `make docs`."""

import json
import sys
from pathlib import Path
from typing import Any

from munkey.listing import put

RESULTS = Path(__file__).parent / "results"


def described(machine: dict[str, Any]) -> str:
    return f"**{machine['device']}**, {machine['cores']} cores, {machine['date']}, torch {machine['versions']['torch']}"


def speed(found: dict[str, Any]) -> str:
    lines = [
        f"| {row['name']} | {row['median']:,.4g} | {row['q25']:,.4g} – {row['q75']:,.4g} | {row['unit']} | {row['n']} |"
        for row in found["results"]
    ]
    return "\n".join(
        [described(found["machine"]), "", "| what | median | quartiles | unit | n |", "|---|---|---|---|---|", *lines]
    )


def grid(found: dict[str, Any]) -> str:
    lines = [f"| {row['part']} | {row['jobs']} | {row['core_s']:.0f} | {row['share']:.1f} |" for row in found["parts"]]
    wall = f"{found['wall_s'] / 60:.1f} minutes; {found['outside']:.1f} % outside training, unlearning and evaluation"
    return "\n".join(
        [
            f"{described(found['machine'])}: {wall}",
            "",
            "| part | jobs | core-seconds | % |",
            "|---|---|---|---|",
            *lines,
        ]
    )


def filled(text: str) -> str:
    """The page with its tables made anew."""
    for name, table, pattern in (("speed", speed, "speed-*.json"), ("grid", grid, "grid-*.json")):
        made = [table(json.loads(path.read_text())) for path in sorted(RESULTS.glob(pattern))]
        text = put(text, name, "\n\n".join(made))
    return text


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(filled(page.read_text()))
