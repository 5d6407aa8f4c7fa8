"""Tables of the scenarios, which evaluate the same systems on forget sets that are not random."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from munkey.core.files import write_text
from munkey.report.figures import theme
from munkey.report.page.chapters import Chapter, write_chapters
from munkey.report.tables.markup import (
    ABSENT,
    Markup,
    TitledTable,
    describe_bold,
    describe_statistic,
    find_lowest_gap,
    format_cell,
    format_mean_sd,
    format_number,
    format_two_digits,
    make_bold,
    percent,
    render_or_note,
)
from munkey.report.tables.summary import Row, describe_diverged_systems, read_metrics, summarize
from munkey.studies.scenarios.figure import scenarios_plot

GROUP_METRICS = ("RTA", "FTA", "probe")  # only for requests that forget whole classes or units
NONRANDOM_METRICS = ("FM_mean", "forgotten_mean")
# If the FM of the original exceeds the oracle's by less than this [points], there is no mark.
LEAST_MARK = 5.0


def summarize_scenarios(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Return the summaries of all scenarios, with the columns case, ToW, ToW_sd and mark.

    ToW (Tug-of-War, Zhao et al. 2024) is the product of 1 - |system - oracle| over FA, RA and TA,
    which are averaged over seeds and between 0 and 1. A ToW of 1 means equal to the oracle. ToW_sd
    is the standard deviation over seeds, each compared with the oracle of the same seed. mark is
    the position of FM on a scale from the oracle's (0) to the original's (100), or NaN if these two
    are too close.

    Parameters
    ----------
    tidy
        Metrics with the column case.
    """
    parts: list[pd.DataFrame] = []
    # Each system has a variant with outputs switched off, but not each of these has a row.
    named = tidy[tidy["method"].isin([row.name for row in rows])]
    for case, part in named.groupby("case", sort=False):
        # Methods that need an emptied class are not run in scenarios without one.
        measured = set(part["method"])
        rows_here = [row for row in rows if row.name in measured]
        summary = summarize(part.drop(columns="case"), rows_here).assign(case=case)
        for name in NONRANDOM_METRICS:  # random requests lack these columns
            summary[name] = summary.get(name, np.nan)
        means = summary.set_index(["rate", "method"])
        fm = means["FM_mean"].to_dict()  # by rate and method
        accuracies = means[["FA_mean", "RA_mean", "TA_mean"]]
        is_accuracy = part["metric"].isin(["FA", "RA", "TA"])
        by_seed = part[is_accuracy].pivot(
            index=["method", "rate", "seed"], columns="metric", values="value"
        )
        originals = {row.oracle: row.name for row in rows_here if row.context}
        for row in rows_here:
            if row.oracle is None:
                continue
            tow_by_seed = _compute_tow_by_seed(by_seed, row.name, row.oracle)
            deviations = tow_by_seed.groupby("rate").std()
            for rate in summary["rate"].unique():
                is_system = (summary["rate"] == rate) & (summary["method"] == row.name)
                system = accuracies.loc[rate, row.name]
                oracle = accuracies.loc[rate, row.oracle]
                tow = (1 - (system - oracle).abs() / 100).prod(skipna=False)
                summary.loc[is_system, "ToW"] = tow
                summary.loc[is_system, "ToW_sd"] = np.nan
                if not np.isnan(tow):
                    summary.loc[is_system, "ToW_sd"] = deviations.get(rate, np.nan)
                summary.loc[is_system, "mark"] = _compute_mark(
                    fm[rate, row.name],
                    oracle=fm[rate, row.oracle],
                    original=fm[rate, originals[row.oracle]],
                )
        parts.append(summary)
    return pd.concat(parts, ignore_index=True)


def _compute_mark(system: float, *, oracle: float, original: float) -> float:
    """Return the position of a system's FM between the oracle's (0) and the original's (100).

    Returns NaN if these two are too close, or if one of them is NaN.
    """
    if original - oracle >= LEAST_MARK:
        return 100 * (system - oracle) / (original - oracle)
    return np.nan


def _compute_tow_by_seed(by_seed: pd.DataFrame, method: str, oracle: str) -> "pd.Series[float]":
    """Return the ToW of a method by rate and seed: the product of 1 - |method - oracle|.

    It is NaN for a seed without one of the accuracies. by_seed: FA, RA and TA in percent, with one
    row per method, rate and seed.
    """
    methods = by_seed.index.get_level_values("method")
    method_accuracies = by_seed[methods == method].droplevel("method")
    oracle_accuracies = by_seed[methods == oracle].droplevel("method")
    differences = (method_accuracies - oracle_accuracies).abs() / 100
    return (1 - differences).prod(axis=1, skipna=False)


def make_scenario_tables(
    summary: pd.DataFrame, rows: Sequence[Row], requests: Mapping[str, str], markup: Markup
) -> Iterator[TitledTable]:
    """Yield one table per scenario, with one row per system.

    Parameters
    ----------
    requests
        Descriptions of the samples to forget, by case.
    """
    for (case, _), part in summary.groupby(["case", "rate"], sort=False):
        metrics = ["TA"]
        for name in GROUP_METRICS:
            if f"{name}_mean" in part and part[f"{name}_mean"].notna().any():
                metrics.append(name)
        ranked = [row.name for row in rows if row.is_ranked]
        by_method = part.set_index("method")
        best = find_lowest_gap(by_method[by_method.index.isin(ranked)])
        table_rows = []
        for row in rows:
            for _, summary_row in part[part["method"] == row.name].iterrows():
                cells = {"Method": row.title}
                for name in (*metrics, "RA", "FA", "MIA"):
                    cells[name] = format_cell(summary_row, name, markup)
                gap = format_cell(summary_row, "gap", markup)
                cells["Avg Gap"] = make_bold(gap, markup) if row.name == best else gap
                cells["Mark [%]"] = format_number(summary_row["mark"], 0)
                if pd.isna(summary_row["ToW"]):
                    cells["ToW"] = ABSENT
                else:
                    cells["ToW"] = format_mean_sd(summary_row["ToW"], summary_row["ToW_sd"], 3)
                cells["Unlearn [s]"] = _format_seconds(row, summary_row)
                table_rows.append(cells)
        n = int(part["n"].min())
        rate = part["rate"].iloc[0]
        forgotten = part["forgotten_mean"].dropna()
        request = f"{str(case).partition('/')[2]}: {requests[str(case)]}"
        if rate:
            request += f", {percent(rate)}"
        if len(forgotten):
            request += f", {forgotten.iloc[0]:.0f} samples"
        title = f"{part['dataset'].iloc[0]}, {request}; {describe_statistic(n)}; {describe_bold(n)}"
        yield TitledTable(
            title, pd.DataFrame(table_rows), describe_diverged_systems(part.drop(columns="case"))
        )


def _format_seconds(row: Row, summary_row: pd.Series) -> str:
    """Return the seconds that a method takes or, for an oracle, the seconds of its training."""
    seconds = summary_row.get("unlearn_s_mean")
    if pd.isna(seconds) and row.oracle is None:
        seconds = summary_row.get("train_s_mean")
    if pd.isna(seconds):
        return ABSENT
    return format_two_digits(seconds)


def scenario_tables(
    metrics: Path,
    requests: Mapping[str, str],
    rows: list[Row],
    csv: Path,
    markdown: Path,
    svg: Path,
    chapter: Path,
    dataset: str,
) -> None:
    """Write the tables, the figure, a CSV file and the chapter of a data set's scenarios.

    Parameters
    ----------
    requests
        A label for the request of each case.
    """
    numbers = summarize_scenarios(read_metrics([metrics]), rows)
    write_text(csv, numbers.to_csv(index=False))
    titled = list(make_scenario_tables(numbers, rows, requests, "markdown"))
    write_text(markdown, render_or_note(titled, "markdown"))
    theme.save(scenarios_plot(numbers, rows), svg.with_suffix(""))
    shown = list(make_scenario_tables(numbers, rows, requests, "html"))
    remark = "Requests that are not random: docs/scenarios.md."
    files = [f"../scenarios/{dataset}/table.csv"]
    write_chapters(chapter, [Chapter("scenarios", "Scenarios", shown, [remark], files)])
