"""Tables of the scenarios: the same systems after other requests than random ones, each beside its oracle."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from munkey.report.tables.markup import (
    ABSENT,
    Markup,
    Titled,
    cell,
    marked,
    number_cell,
    over_seeds,
    plus_minus,
    two_digits,
)
from munkey.report.tables.summary import Row, diverged, summarize

OF_GROUPS = ("RTA", "FTA", "probe")  # of classes that are forgotten whole, and of units
AFTER_OTHERS = ("FM_mean", "forgotten_mean")
LEAST_MARK = 5.0  # of FM, between original and oracle, below which it says nothing [points]


def summarize_scenarios(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """A summary of each scenario, one after the other, with the columns case, ToW, ToW_sd and mark.

    ToW (Zhao et al. 2024): the product of 1 - |difference to the oracle| over FA, RA and TA, as shares, of means over
    seeds; 1 is the oracle. ToW_sd: the standard deviation over seeds, each against the same seed of the oracle. mark:
    where FM lies between that of the oracle, 0, and that of the original, 100; NaN where these two are alike, so that
    the request says nothing.
    """
    parts = list[pd.DataFrame]()
    for case, part in tidy.groupby("case", sort=False):
        # none is switched off where no class is empty
        rows_of = [row for row in rows if row.name in set(part["method"])]
        summary = summarize(part.drop(columns="case"), rows_of).assign(case=case)
        for name in AFTER_OTHERS:  # not measured after a request at random
            summary[name] = summary.get(name, np.nan)
        means = summary.set_index(["rate", "method"])[["FA_mean", "RA_mean", "TA_mean"]]
        marks = summary.set_index(["rate", "method"])["FM_mean"]
        originals = {row.oracle: row.name for row in rows_of if row.context}
        of_seeds = part[part["metric"].isin(["FA", "RA", "TA"])].pivot(
            index=["method", "rate", "seed"], columns="metric", values="value"
        )
        for row in (row for row in rows_of if row.oracle):
            oracle = str(row.oracle)
            spreads = _tow_of_seeds(of_seeds, row.name, oracle).groupby("rate").std()
            for rate in summary["rate"].unique():
                apart = (means.loc[rate, row.name] - means.loc[rate, oracle]).abs() / 100
                here = (summary["rate"] == rate) & (summary["method"] == row.name)
                tow = (1 - apart).prod(skipna=False)
                summary.loc[here, "ToW"] = tow
                summary.loc[here, "ToW_sd"] = np.nan if np.isnan(tow) else spreads.get(rate, np.nan)
                put, left = (
                    marks[rate, originals[oracle]] - marks[rate, oracle],
                    marks[rate, row.name] - marks[rate, oracle],
                )
                summary.loc[here, "mark"] = 100 * left / put if put >= LEAST_MARK else np.nan
        parts.append(summary)
    return pd.concat(parts, ignore_index=True)


def _tow_of_seeds(of_seeds: pd.DataFrame, system: str, oracle: str) -> "pd.Series[float]":
    """ToW by rate and seed. of_seeds: FA, RA and TA by method, rate and seed, percent."""
    systems, oracles = (
        of_seeds[of_seeds.index.get_level_values("method") == name].droplevel("method")
        for name in (system, oracle)
    )
    return (1 - (systems - oracles).abs() / 100).prod(axis=1, skipna=False)


def scenario_tables(
    summary: pd.DataFrame, rows: Sequence[Row], requests: Mapping[str, str], markup: Markup
) -> Iterator[Titled]:
    """A table for each scenario: a line for each system. requests: what is forgotten, in words, by case."""
    for (case, _), part in summary.groupby(["case", "rate"], sort=False):
        metrics = [
            "TA",
            *(
                name
                for name in OF_GROUPS
                if f"{name}_mean" in part and part[f"{name}_mean"].notna().any()
            ),
        ]
        lines = []
        for row in rows:
            for _, line in part[part["method"] == row.name].iterrows():
                lines.append(
                    {
                        "Method": row.title,
                        **{
                            name: cell(line, name, markup) for name in (*metrics, "RA", "FA", "MIA")
                        },
                        "Avg Gap": cell(line, "gap", markup),
                        "Mark [%]": number_cell(line["mark"], 0),
                        "ToW": ABSENT
                        if pd.isna(line["ToW"])
                        else plus_minus(line["ToW"], line["ToW_sd"], 3),
                        "Unlearn [s]": _seconds(row, line),
                    }
                )
        n = int(part["n"].min())
        count = part["forgotten_mean"].dropna()
        forgotten = f", {count.iloc[0]:.0f} samples" if len(count) else ""
        share = f", {100 * float(part['rate'].iloc[0]):g} %" if part["rate"].iloc[0] else ""
        what = f"{str(case).partition('/')[2]}: {requests[str(case)]}{share}{forgotten}"
        title = f"{part['dataset'].iloc[0]}, {what}; {over_seeds(n)}; {marked(n)}"
        yield Titled(title, pd.DataFrame(lines), diverged(part.drop(columns="case")))


def _seconds(row: Row, line: pd.Series) -> str:
    """Of the method; of an oracle, of its training."""
    seconds = line.get("unlearn_s_mean")
    if pd.isna(seconds) and row.oracle is None:
        seconds = line.get("train_s_mean")
    return ABSENT if pd.isna(seconds) else two_digits(seconds)
