"""The table of run times: the cost of forgetting, compared with retraining."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from munkey.report.tables.markup import ABSENT, Markup, TitledTable, format_cell, format_percent
from munkey.report.tables.summary import Key, Row

RUN_TIMES = {"search_s": "Search [s]", "train_epoch_s": "Train/epoch [s]", "P_s": "P_s"}


class TimedSystem(NamedTuple):
    """A summary row, and the time to retrain the system.

    Attributes
    ----------
    row
        The row of the summary.
    metric
        The metric for the seconds to forget; for an oracle, for those of its training.
    retrain_s
        The mean seconds of the oracle's training; NaN if there are none.
    """

    row: pd.Series
    metric: str
    retrain_s: float

    @property
    def seconds(self) -> float:
        """The mean time to forget; NaN for a system that forgets nothing."""
        return float(self.row.get(f"{self.metric}_mean", math.nan))

    @property
    def speed_up(self) -> str:
        """How many times faster forgetting is than retraining, as text."""
        if not self.seconds:
            return ABSENT
        ratio = self.retrain_s / self.seconds
        if math.isnan(ratio):
            return ABSENT
        if ratio >= 10:
            return f"{ratio:.0f}"
        return f"{ratio:.1f}"


def list_runtimes(summary: pd.DataFrame, systems: Sequence[Row]) -> Iterator[TimedSystem]:
    """Yield each row of a summary with the training time of its oracle on that data set at that rate."""
    oracle_names = {system.name: system.oracle for system in systems}
    rows = {}
    for _, row in summary.iterrows():
        rows[Key(row["dataset"], row["rate"], row["method"])] = row
    for key, row in rows.items():
        if key.method in oracle_names.values():
            oracle_key = key
            metric = "train_s"
        else:
            oracle_key = key._replace(method=str(oracle_names[key.method]))
            metric = "unlearn_s"
        retrain_s = math.nan
        if oracle_key in rows:
            retrain_s = rows[oracle_key].get("train_s_mean", math.nan)
        yield TimedSystem(row, metric, float(retrain_s))


def make_runtime_table(
    summary: pd.DataFrame, systems: Sequence[Row], markup: Markup
) -> TitledTable:
    """Make a table of the seconds to unlearn, and how many times faster that is than retraining.

    Further columns are the CPU seconds of the whole job, the seconds of the search over all
    candidate settings, those of one training epoch of the base model, and P_s.
    """
    rows = []
    for timed in list_runtimes(summary, systems):
        row = timed.row
        cells = {
            "Method": row["title"],
            "Data set": row["dataset"],
            "Forget": format_percent(row["rate"]),
            "Unlearn [s]": format_cell(row, timed.metric, markup, digits=4),
            "Speed-up": timed.speed_up,
            "CPU [s]": format_cell(row, "cpu_s", markup),
        }
        for name, column in RUN_TIMES.items():
            cells[column] = format_cell(row, name, markup, digits=4)
        rows.append(cells)
    return TitledTable("", pd.DataFrame(rows))
