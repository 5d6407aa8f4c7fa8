"""The leaderboard of docs/leaderboard.md, from the entries: a table for each setting, what leaves least first."""

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from munkey.experiment.params.messages import ParamsError
from munkey.report.tables.markup import ABSENT, cell, two_digits
from munkey.report.tables.summary import Row, summarize
from tools.entries import FOLDER, OVERLAY, Entry, Left, entries
from tools.entry_faults import anywhere, faults

# Entries that agree in these sections stand in one table; all others are a method's own.
SETTING = ("datasets", "seeds", "data", "model", "train", "forget", "finetune", "overrides")
POOL = ("pool", "pool_of")  # of an audit: the samples that it asks about
LEADING, TRAILING = ["Method", "Test accuracy", "left [%]"], ["Seconds", "Needs the data?", "Authors", "Run"]


class Line(NamedTuple):
    """A row. left: how far from 0 the audit found it; gap: at the largest rate. Infinite where there is none."""

    left: float
    gap: float
    cells: list[str]


def leaderboard() -> str:
    """The tables. Raises ParamsError for an entry that does not fit together."""
    tables: dict[str, list[Entry]] = {}
    for entry in entries():
        if wrong := faults(entry):
            raise ParamsError(f"{FOLDER / entry.name}: {'; '.join(wrong)}")
        tables.setdefault(_setting(entry), []).append(entry)
    made = [_table(each, dataset) for each in tables.values() for dataset in each[0].datasets]
    return "\n\n".join(made) or "*Nobody has entered yet.*"


def _setting(entry: Entry) -> str:
    """What entries of one table agree in."""
    config = entry.results.config
    pool = {name: value for name, value in config["audit"].items() if name in POOL}  # type: ignore[attr-defined]
    return json.dumps([[config[name] for name in SETTING], pool, anywhere(config["source"])])


def _table(alike: Sequence[Entry], dataset: str) -> str:
    """A table of entries that were run in the same setting, on one of its data sets."""
    rates = sorted(map(float, alike[0].rates(dataset)), reverse=True)
    header = [*LEADING, *(f"Avg Gap @{100 * rate:g} %" for rate in rates), *TRAILING]
    lines = sorted((_line(entry, dataset, rates) for entry in alike), key=lambda line: (line.left, line.gap))
    shown = [f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *(line.cells for line in lines)]]
    seeds = len(alike[0].seeds)
    about = (
        f"*{dataset}, n = {seeds} seeds: mean ± sd; test accuracy and seconds with {100 * rates[0]:g} % forgotten;"
        " left: an audit's share and its 95 % interval*"
    )
    return "\n".join([about, "", *shown])


def _line(entry: Entry, dataset: str, rates: Sequence[float]) -> Line:
    results = entry.results
    rows = [Row(name, name, None) for name in entry.systems[1:]] + [Row(results.method, results.title, results.oracle)]
    summary = summarize(entry.tidy, rows)
    own = summary[(summary["dataset"] == dataset) & (summary["method"] == results.method)]
    at = {float(line["rate"]): line for _, line in own.iterrows()}
    largest, link = at[rates[0]], entry.said.link.removeprefix("docs/")
    gap, left = largest.get("gap_mean", math.nan), results.left.get(dataset)
    cells = [
        f"[{results.title}]({link})",
        cell(largest, "TA", "markdown"),
        _left(left),
        *(cell(at[rate], "gap", "markdown") for rate in rates),
        two_digits(float(largest["unlearn_s_mean"])),
        parts(results.needs),
        entry.said.authors,
        f"[{entry.said.commit[:7]}](../{FOLDER}/{entry.name}/{OVERLAY})",
    ]
    return Line(_distance(left), math.inf if pd.isna(gap) else float(gap), cells)


def _distance(left: Left | None) -> float:
    """From 0, percent; infinite where no audit could tell."""
    if left is None or left.share is None or left.verdict == "no power":
        return math.inf
    return abs(left.share)


def _left(left: Left | None) -> str:
    if left is None or left.share is None:
        return ABSENT
    if left.verdict == "no power":
        return left.verdict
    interval = ABSENT if left.low is None or left.high is None else f"[{left.low:.1f}, {left.high:.1f}]"
    return f"{left.share:.1f} {interval}"


def parts(needs: Sequence[str]) -> str:
    """The parts of the data that must still be stored to forget: `no`, or their names."""
    return " + ".join(sorted({need.split()[0] for need in needs})) or "no"
