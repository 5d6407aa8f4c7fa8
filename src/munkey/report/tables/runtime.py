"""The run time table, which compares the cost of forgetting with the cost of retraining."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from munkey.report.tables.markup import ABSENT, Markup, TitledTable, format_cell, percent
from munkey.report.tables.summary import Key, Row

RUN_TIMES = {"search_s": "Search [s]", "train_epoch_s": "Train/epoch [s]", "P_s": "P_s"}


class SystemTimes(NamedTuple):
    """How long a system takes to forget, compared with retraining.

    summary_row: its row in a summary. metric: that with the seconds to forget, `train_s` for an oracle.
    retrain_seconds: the mean of its oracle's training; NaN if it has no oracle.
    """

    summary_row: pd.Series
    metric: str
    retrain_seconds: float

    @property
    def seconds(self) -> float:
        """The mean seconds to forget; NaN if the system does not forget."""
        return float(self.summary_row.get(f"{self.metric}_mean", math.nan))

    @property
    def speed_up(self) -> str:
        """How many times faster forgetting is than retraining, as text; – if it is unknown."""
        if not self.seconds:
            return ABSENT
        factor = self.retrain_seconds / self.seconds
        if math.isnan(factor):
            return ABSENT
        if factor >= 10:
            return f"{factor:.0f}"
        return f"{factor:.1f}"


def iterate_times(summary: pd.DataFrame, rows: Sequence[Row]) -> Iterator[SystemTimes]:
    """Yield the times of each row of a summary, in order."""
    oracle_names = {row.name: row.oracle for row in rows}
    summary_rows = {}
    for _, summary_row in summary.iterrows():
        key = Key(summary_row["dataset"], summary_row["rate"], summary_row["method"])
        summary_rows[key] = summary_row
    for key, summary_row in summary_rows.items():
        if key.method in oracle_names.values():
            oracle = key
            metric = "train_s"
        else:
            oracle = key._replace(method=str(oracle_names[key.method]))
            metric = "unlearn_s"
        retrain_seconds = math.nan
        if oracle in summary_rows:
            retrain_seconds = summary_rows[oracle].get("train_s_mean", math.nan)
        yield SystemTimes(summary_row, metric, float(retrain_seconds))


def runtime_table(summary: pd.DataFrame, rows: Sequence[Row], markup: Markup) -> TitledTable:
    """Return a table of the seconds to unlearn and the speed-up over retraining.

    The other columns are the CPU seconds of the whole job, the seconds to search for settings (all
    candidates), the seconds of one training epoch of the base model, and P_s.
    """
    table_rows = []
    for times in iterate_times(summary, rows):
        summary_row = times.summary_row
        cells = {
            "Method": summary_row["title"],
            "Data set": summary_row["dataset"],
            "Forget": percent(summary_row["rate"]),
            "Unlearn [s]": format_cell(summary_row, times.metric, markup, digits=4),
            "Speed-up": times.speed_up,
            "CPU [s]": format_cell(summary_row, "cpu_s", markup),
        }
        for name, column in RUN_TIMES.items():
            cells[column] = format_cell(summary_row, name, markup, digits=4)
        table_rows.append(cells)
    return TitledTable("", pd.DataFrame(table_rows))
