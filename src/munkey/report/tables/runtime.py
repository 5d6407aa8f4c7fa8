"""The table of run times: the cost of forgetting, beside retraining."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from munkey.report.tables.markup import ABSENT, Markup, TitledTable, format_cell, format_percent
from munkey.report.tables.summary import Key, Row

RUN_TIMES = {"search_s": "Search [s]", "train_epoch_s": "Train/epoch [s]", "P_s": "P_s"}


class TimedLine(NamedTuple):
    """A line of a summary, and the time that its time to forget is compared with.

    Attributes
    ----------
    metric
        The seconds that it takes to forget; for an oracle, those of its training.
    retrained
        The mean seconds of its oracle's training, NaN where it has none.
    """

    line: pd.Series
    metric: str
    retrained: float

    @property
    def seconds(self) -> float:
        """The mean time to forget; NaN for a system that forgets nothing."""
        return float(self.line.get(f"{self.metric}_mean", math.nan))

    @property
    def speed_up(self) -> str:
        """How many times faster forgetting is than retraining."""
        if not self.seconds:
            return ABSENT
        times = self.retrained / self.seconds
        if math.isnan(times):
            return ABSENT
        if times >= 10:
            return f"{times:.0f}"
        return f"{times:.1f}"


def list_runtimes(summary: pd.DataFrame, rows: Sequence[Row]) -> Iterator[TimedLine]:
    """Yield the lines of a summary in their order, each with the time of its oracle at its data set and rate."""
    oracle_names = {row.name: row.oracle for row in rows}
    lines = {}
    for _, line in summary.iterrows():
        lines[Key(line["dataset"], line["rate"], line["method"])] = line
    for key, line in lines.items():
        oracle = key
        metric = "train_s"
        if key.method not in oracle_names.values():
            oracle = key._replace(method=str(oracle_names[key.method]))
            metric = "unlearn_s"
        retrained = math.nan
        if oracle in lines:
            retrained = lines[oracle].get("train_s_mean", math.nan)
        yield TimedLine(line, metric, float(retrained))


def make_runtime_table(summary: pd.DataFrame, rows: Sequence[Row], markup: Markup) -> TitledTable:
    """Return a table of the seconds to unlearn, and how many times faster that is than retraining.

    It also has the CPU seconds of the whole job, the seconds to search for settings (all
    candidates), those of a training epoch of the base model, and P_s.
    """
    lines = []
    for times in list_runtimes(summary, rows):
        line = times.line
        cells = {
            "Method": line["title"],
            "Data set": line["dataset"],
            "Forget": format_percent(line["rate"]),
            "Unlearn [s]": format_cell(line, times.metric, markup, digits=4),
            "Speed-up": times.speed_up,
            "CPU [s]": format_cell(line, "cpu_s", markup),
        }
        for name, column in RUN_TIMES.items():
            cells[column] = format_cell(line, name, markup, digits=4)
        lines.append(cells)
    return TitledTable("", pd.DataFrame(lines))
