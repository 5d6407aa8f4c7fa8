"""Tables of the scenarios: the same systems after requests that are not random."""

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

# Metrics of forgotten classes and units.
GROUP_METRICS = ("RTA", "FTA", "probe")
# Metrics that are measured only after requests that are not random.
NON_RANDOM_METRICS = ("FM_mean", "forgotten_mean")
# The smallest difference in FM between original and oracle for which a mark is computed [points].
LEAST_MARK = 5.0


def summarize_scenarios(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Summarize all scenarios, with the additional columns case, ToW, ToW_sd and mark.

    ToW (Zhao et al. 2024) is the product of 1 - |difference to the oracle| over FA, RA and TA (as
    shares, means over seeds); it is 1 for the oracle. ToW_sd is the standard deviation over seeds,
    each compared with the same seed of the oracle. mark is the position of FM between the oracle's
    (0) and the original's (100); it is NaN if these two differ by less than LEAST_MARK.
    """
    parts = list[pd.DataFrame]()
    for case, part in tidy.groupby("case", sort=False):
        # Methods that only forget whole classes do not run in all scenarios.
        measured = set(part["method"])
        rows_here = [row for row in rows if row.name in measured]
        summary = summarize(part.drop(columns="case"), rows_here).assign(case=case)
        for name in NON_RANDOM_METRICS:
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
                tow_sd = np.nan
                if not np.isnan(tow):
                    tow_sd = deviations.get(rate, np.nan)
                learned = marks[rate, originals[row.oracle]] - marks[rate, row.oracle]
                remaining = marks[rate, row.name] - marks[rate, row.oracle]
                mark = np.nan
                if learned >= LEAST_MARK:
                    mark = 100 * remaining / learned
                summary.loc[here, "ToW"] = tow
                summary.loc[here, "ToW_sd"] = tow_sd
                summary.loc[here, "mark"] = mark
        parts.append(summary)
    return pd.concat(parts, ignore_index=True)


def _compute_tow(by_seed: pd.DataFrame, system: str, oracle: str) -> "pd.Series[float]":
    """Compute the ToW of a system by rate and seed.

    Parameters
    ----------
    by_seed
        FA, RA and TA in percent, with a row for each method, rate and seed.
    """
    methods = by_seed.index.get_level_values("method")
    systems = by_seed[methods == system].droplevel("method")
    oracles = by_seed[methods == oracle].droplevel("method")
    return (1 - (systems - oracles).abs() / 100).prod(axis=1, skipna=False)


def make_tables(
    summary: pd.DataFrame, systems: Sequence[Row], requests: Mapping[str, str], markup: Markup
) -> Iterator[TitledTable]:
    """Yield a table for each scenario, with a row for each system.

    Parameters
    ----------
    requests
        A label of each case's request.
    """
    for (case, _), part in summary.groupby(["case", "rate"], sort=False):
        metrics = ["TA"]
        for name in GROUP_METRICS:
            if f"{name}_mean" in part and part[f"{name}_mean"].notna().any():
                metrics.append(name)
        rows = []
        for system in systems:
            for _, row in part[part["method"] == system.name].iterrows():
                cells = {"Method": system.title}
                for name in (*metrics, "RA", "FA", "MIA"):
                    cells[name] = format_cell(row, name, markup)
                cells["Avg Gap"] = format_cell(row, "gap", markup)
                cells["Mark [%]"] = format_number(row["mark"], 0)
                cells["ToW"] = ABSENT
                if pd.notna(row["ToW"]):
                    cells["ToW"] = format_plus_minus(row["ToW"], row["ToW_sd"], 3)
                cells["Unlearn [s]"] = _format_seconds(system, row)
                rows.append(cells)
        n = int(part["n"].min())
        rate = part["rate"].iloc[0]
        forgotten = part["forgotten_mean"].dropna()
        request = f"{str(case).partition('/')[2]}: {requests[str(case)]}"
        if rate:
            request += f", {format_percent(rate)}"
        if len(forgotten):
            request += f", {forgotten.iloc[0]:.0f} samples"
        title = f"{part['dataset'].iloc[0]}, {request}; {describe_statistic(n)}; {describe_bold_rule(n)}"
        yield TitledTable(title, pd.DataFrame(rows), describe_diverged(part.drop(columns="case")))


def _format_seconds(system: Row, row: pd.Series) -> str:
    """Format the seconds that a method takes; for an oracle, those of its training."""
    seconds = row.get("unlearn_s_mean")
    if pd.isna(seconds) and system.oracle is None:
        seconds = row.get("train_s_mean")
    if pd.isna(seconds):
        return ABSENT
    return format_two_digits(seconds)
