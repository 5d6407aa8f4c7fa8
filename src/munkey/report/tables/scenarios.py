"""Tables of the scenarios: the same systems after other requests than random ones, each beside its oracle."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from munkey.report.tables.markup import (
    ABSENT,
    Markup,
    TitledTable,
    describe_bold_rule,
    describe_statistic,
    format_cell,
    format_number,
    format_percent,
    format_plus_minus,
    format_two_digits,
)
from munkey.report.tables.summary import Row, describe_diverged, summarize

OF_GROUPS = ("RTA", "FTA", "probe")  # of classes that are forgotten whole, and of units
AFTER_OTHERS = ("FM_mean", "forgotten_mean")
LEAST_MARK = 5.0  # of FM, between original and oracle, below which it says nothing [points]


def summarize_scenarios(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Return the summaries of all scenarios, with the columns case, ToW, ToW_sd and mark.

    ToW (Zhao et al. 2024) is the product of 1 - |difference to the oracle| over FA, RA and TA, as
    shares, of means over seeds; 1 is the oracle. ToW_sd is the standard deviation over seeds, each
    against the same seed of the oracle. mark is where FM lies between the oracle's, 0, and the
    original's, 100; it is NaN if these two are so close that it says nothing.
    """
    parts = list[pd.DataFrame]()
    for case, part in tidy.groupby("case", sort=False):
        # a row may have no line: methods that need an empty class do not run where there is none
        measured = set(part["method"])
        rows_here = [row for row in rows if row.name in measured]
        summary = summarize(part.drop(columns="case"), rows_here).assign(case=case)
        for name in AFTER_OTHERS:  # not measured after a request at random
            summary[name] = summary.get(name, np.nan)
        means = summary.set_index(["rate", "method"])
        marks = means["FM_mean"]
        accuracies = means[["FA_mean", "RA_mean", "TA_mean"]]
        is_accuracy = part["metric"].isin(["FA", "RA", "TA"])
        by_seed = part[is_accuracy].pivot(
            index=["method", "rate", "seed"], columns="metric", values="value"
        )
        originals = {row.oracle: row.name for row in rows_here if row.context}
        for row in rows_here:
            if row.oracle is None:
                continue
            tow_by_seed = _compute_tow(by_seed, row.name, row.oracle)
            deviations = tow_by_seed.groupby("rate").std()
            for rate in summary["rate"].unique():
                here = (summary["rate"] == rate) & (summary["method"] == row.name)
                system = accuracies.loc[rate, row.name]
                oracle = accuracies.loc[rate, row.oracle]
                tow = (1 - (system - oracle).abs() / 100).prod(skipna=False)
                summary.loc[here, "ToW"] = tow
                summary.loc[here, "ToW_sd"] = np.nan
                if not np.isnan(tow):
                    summary.loc[here, "ToW_sd"] = deviations.get(rate, np.nan)
                learned = marks[rate, originals[row.oracle]] - marks[rate, row.oracle]
                remaining = marks[rate, row.name] - marks[rate, row.oracle]
                summary.loc[here, "mark"] = np.nan
                if learned >= LEAST_MARK:
                    summary.loc[here, "mark"] = 100 * remaining / learned
        parts.append(summary)
    return pd.concat(parts, ignore_index=True)


def _compute_tow(by_seed: pd.DataFrame, system: str, oracle: str) -> "pd.Series[float]":
    """Return the ToW of a system by rate and seed.

    Parameters
    ----------
    by_seed
        FA, RA and TA in percent, a line for each method, rate and seed.
    """
    methods = by_seed.index.get_level_values("method")
    systems = by_seed[methods == system].droplevel("method")
    oracles = by_seed[methods == oracle].droplevel("method")
    return (1 - (systems - oracles).abs() / 100).prod(axis=1, skipna=False)


def make_tables(
    summary: pd.DataFrame, rows: Sequence[Row], requests: Mapping[str, str], markup: Markup
) -> Iterator[TitledTable]:
    """Yield a table for each scenario, with a line for each system.

    Parameters
    ----------
    requests
        The samples to forget in words, by case.
    """
    for (case, _), part in summary.groupby(["case", "rate"], sort=False):
        metrics = ["TA"]
        for name in OF_GROUPS:
            if f"{name}_mean" in part and part[f"{name}_mean"].notna().any():
                metrics.append(name)
        lines = []
        for row in rows:
            for _, line in part[part["method"] == row.name].iterrows():
                cells = {"Method": row.title}
                for name in (*metrics, "RA", "FA", "MIA"):
                    cells[name] = format_cell(line, name, markup)
                cells["Avg Gap"] = format_cell(line, "gap", markup)
                cells["Mark [%]"] = format_number(line["mark"], 0)
                cells["ToW"] = ABSENT
                if pd.notna(line["ToW"]):
                    cells["ToW"] = format_plus_minus(line["ToW"], line["ToW_sd"], 3)
                cells["Unlearn [s]"] = _format_seconds(row, line)
                lines.append(cells)
        n = int(part["n"].min())
        rate = part["rate"].iloc[0]
        forgotten = part["forgotten_mean"].dropna()
        request = f"{str(case).partition('/')[2]}: {requests[str(case)]}"
        if rate:
            request += f", {format_percent(rate)}"
        if len(forgotten):
            request += f", {forgotten.iloc[0]:.0f} samples"
        title = f"{part['dataset'].iloc[0]}, {request}; {describe_statistic(n)}; {describe_bold_rule(n)}"
        yield TitledTable(title, pd.DataFrame(lines), describe_diverged(part.drop(columns="case")))


def _format_seconds(row: Row, line: pd.Series) -> str:
    """Return the seconds that the method takes, or the training of an oracle."""
    seconds = line.get("unlearn_s_mean")
    if pd.isna(seconds) and row.oracle is None:
        seconds = line.get("train_s_mean")
    if pd.isna(seconds):
        return ABSENT
    return format_two_digits(seconds)
