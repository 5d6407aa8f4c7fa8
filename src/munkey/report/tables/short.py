"""The short table: what matters most of a run."""

from collections.abc import Mapping, Sequence

import pandas as pd

from munkey.report.tables.main import LEFT, Left
from munkey.report.tables.markup import ABSENT, Titled, cell, over_seeds, two_digits
from munkey.report.tables.runtime import Timed, timed
from munkey.report.tables.summary import Row


def tables(summary: pd.DataFrame, rows: Sequence[Row], left: Left) -> list[Titled]:
    """A table for each data set, at its largest forget rate. left: what audits found, by data set and system."""
    titled = []
    for dataset, part in summary.groupby("dataset", sort=False):
        largest = part[part["rate"] == part["rate"].max()]
        lines = [_line(times, left.get(str(dataset))) for times in timed(largest, rows)]
        title = f"{dataset}, {100 * largest['rate'].max():g} % forgotten: {over_seeds(int(largest['n'].min()))}"
        titled.append(Titled(title, pd.DataFrame(lines)))
    return titled


def _line(times: Timed, left: Mapping[str, str] | None) -> dict[str, str]:
    line = times.line
    return {
        "Method": str(line["title"]),
        **({} if left is None else {LEFT: left.get(str(line["method"]), ABSENT)}),
        "Seconds": ABSENT if pd.isna(times.seconds) else two_digits(times.seconds),
        "Speed-up": times.speed_up,
        "Test accuracy": cell(line, "TA", "html"),
        "Avg Gap": cell(line, "gap", "html"),
    }
