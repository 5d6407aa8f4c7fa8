"""How many of the paper's numbers ours agree with, and both side by side."""

import math

import numpy as np
import pandas as pd

from munkey.report.tables.markup import ABSENT, Titled, plus_minus
from munkey.report.tables.setting import SEEDS

TABLE = ["table", "dataset", "rate"]
KEYS = [*TABLE, "case", "method", "metric"]


def digits(metric: str) -> int:
    """How many the paper prints after the point."""
    return 3 if metric == "P_s" else 2


def within(both: pd.DataFrame) -> "pd.Series[bool]":
    """Whether our mean is at most the paper's ± away from its mean, to three digits: (N,) nullable booleans.

    both: of `munkey.report.tables.paper.compare`. NA where they are not comparable, or where the paper has no ±.
    """
    return (
        (both["difference"].abs().round(3) <= both["sd"])
        .astype("boolean")
        .where(both[["difference", "sd"]].notna().all(axis=1))
    )


def expected_share(seeds: int) -> float:
    """The share that would be within if our runs, with so many seeds, and the paper's were drawn from one distribution.

    Normal, as the mean of three and their standard deviation: the difference of the means over that deviation is then
    Student's t with two degrees of freedom, times sqrt(1 / 3 + 1 / seeds).
    """
    t = 1 / math.sqrt(1 / SEEDS + 1 / seeds)
    return t / math.sqrt(t**2 + 2)


def counts(both: pd.DataFrame, printed: pd.DataFrame) -> Titled:
    """How many of the paper's numbers are printed, compared, and agree; a line per table, data set and rate.

    printed: all of the paper's numbers, of which those of other data sets are left out.
    """
    lines = printed[printed["dataset"].isin(both["dataset"])].merge(both[[*KEYS, "within"]], on=KEYS, how="left")
    grouped = lines.groupby(TABLE, sort=False)["within"]
    frame = grouped.agg(Printed="size", Compared="count", Within="sum").reset_index()
    frame.loc[len(frame)] = ["all", "", np.nan, *frame[["Printed", "Compared", "Within"]].sum()]
    return Titled(
        "How many of our numbers lie within the paper's ±",
        pd.DataFrame(
            {
                "Table": frame["table"],
                "Data set": frame["dataset"],
                "Forget": ["" if pd.isna(rate) else f"{100 * rate:g} %" for rate in frame["rate"]],
                **{name: frame[name].astype(int) for name in ("Printed", "Compared", "Within")},
                "Share": [
                    f"{100 * agreeing / compared:.0f} %" if compared else ABSENT
                    for agreeing, compared in zip(frame["Within"], frame["Compared"], strict=True)
                ],
            }
        ),
    )


def side_by_side(both: pd.DataFrame) -> list[Titled]:
    """`ours (the paper's)` of every system and metric, with a check mark where ours is within the paper's ±.

    A table per table, data set and rate of the paper.
    """
    texts = []
    for _, line in both.iterrows():
        ours = plus_minus(line["ours_mean"], line["ours_sd"], digits(line["metric"]))
        papers = plus_minus(line["mean"], line["sd"], digits(line["metric"]))
        texts.append(f"{ours} ({papers}) {ABSENT if pd.isna(line['within']) else '✓' if line['within'] else '✗'}")
    systems = [" ".join(filter(None, names)) for names in zip(both["case"], both["method"], strict=True)]
    titled = []
    for (table, dataset, _), part in both.assign(System=systems, cell=texts).groupby(TABLE, sort=False):
        wide = part.pivot(index="System", columns="metric", values="cell")
        ordered = wide.loc[part["System"].unique(), part["metric"].unique()]  # as in the paper
        frame = ordered.fillna(ABSENT).rename_axis(columns=None).reset_index()
        titled.append(Titled(f"{table}, {dataset}, {100 * part['rate'].iloc[0]:g} %: ours (the paper's)", frame))
    return titled
