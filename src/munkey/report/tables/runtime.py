"""What forgetting costs beside training anew: the table of run times."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from munkey.report.tables.markup import ABSENT, Markup, Titled, cell
from munkey.report.tables.summary import Key, Row

RUN_TIMES = {"search_s": "Search [s]", "train_epoch_s": "Train/epoch [s]", "P_s": "P_s"}


class Timed(NamedTuple):
    """A line of a summary, and what its time to forget is compared with.

    metric: the seconds that it takes to forget; for an oracle, those of its training. retrained: the mean seconds of
    its oracle's training, NaN where it has none.
    """

    line: pd.Series
    metric: str
    retrained: float

    @property
    def seconds(self) -> float:
        """The mean time to forget; NaN for what forgets nothing."""
        return float(self.line.get(f"{self.metric}_mean", math.nan))

    @property
    def speed_up(self) -> str:
        """How many times faster forgetting is than retraining."""
        times = self.retrained / self.seconds if self.seconds else math.nan
        return ABSENT if math.isnan(times) else f"{times:.{0 if times >= 10 else 1}f}"


def timed(summary: pd.DataFrame, rows: Sequence[Row]) -> Iterator[Timed]:
    """The lines of a summary in their order, each with the time of its oracle at its data set and rate."""
    oracle_of = {row.name: row.oracle for row in rows}
    lines = {
        Key(line["dataset"], line["rate"], line["method"]): line for _, line in summary.iterrows()
    }
    for key, line in lines.items():
        is_oracle = key.method in oracle_of.values()
        oracle = key if is_oracle else key._replace(method=str(oracle_of[key.method]))
        retrained = lines[oracle].get("train_s_mean", math.nan) if oracle in lines else math.nan
        yield Timed(line, "train_s" if is_oracle else "unlearn_s", float(retrained))


def runtime_table(summary: pd.DataFrame, rows: Sequence[Row], markup: Markup) -> Titled:
    """Seconds to unlearn, and how many times faster that is than retraining; CPU seconds of the whole job; seconds to
    search for settings (all candidates), and per training epoch of the base model; P_s."""
    lines = []
    for times in timed(summary, rows):
        line = times.line
        first = [line["title"], line["dataset"], f"{100 * line['rate']:g} %"]
        cost = [
            cell(line, times.metric, markup, digits=4),
            times.speed_up,
            cell(line, "cpu_s", markup),
        ]
        lines.append([*first, *cost, *(cell(line, name, markup, digits=4) for name in RUN_TIMES)])
    columns = [
        "Method",
        "Data set",
        "Forget",
        "Unlearn [s]",
        "Speed-up",
        "CPU [s]",
        *RUN_TIMES.values(),
    ]
    return Titled("", pd.DataFrame(lines, columns=columns))
