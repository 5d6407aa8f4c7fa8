"""Comparison of our results with the numbers printed in the paper.

`paper.csv` contains the paper's numbers. Its column `slip` describes the error in a number, if there
is one. If `comparable` is `no`, the printed number does not belong to the system that the row names,
so ours is not compared with it.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from munkey.core.files import read_table
from munkey.report.tables import setting
from munkey.report.tables.markup import (
    ABSENT,
    TitledTable,
    format_mean_sd,
    get_decimals,
    percent,
    render,
)
from munkey.report.tables.setting import SEEDS, Settings

PRINTED = Path(__file__).with_name("paper.csv")
TABLE = ["table", "dataset", "rate"]
KEYS = [*TABLE, "case", "method", "metric"]


def printed_numbers() -> pd.DataFrame:
    """Return one row per number in the paper's tables, with KEYS, mean, sd, slip and comparable."""
    numbers = pd.read_csv(PRINTED).fillna({"case": "", "slip": ""})
    return numbers.assign(comparable=numbers["comparable"] != "no")


def is_within_sd(comparison: pd.DataFrame) -> "pd.Series[bool]":
    """Return whether each of our means is within one of the paper's standard deviations of its mean.

    The difference is rounded to three decimals. The result is NA if the means are not comparable or
    the paper states no standard deviation.

    Parameters
    ----------
    comparison
        A table with the columns difference and sd.
    """
    is_near = comparison["difference"].abs().round(3) <= comparison["sd"]
    is_known = comparison[["difference", "sd"]].notna().all(axis=1)
    return is_near.astype("boolean").where(is_known)


def compare(main: pd.DataFrame, ablations: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return our numbers next to the paper's, wherever both exist.

    The columns ours_mean, ours_sd, mean and sd contain our numbers and the paper's. The column
    difference is NaN if the paper's number is not comparable. The column within states whether our
    mean is within the paper's ± (`is_within_sd`). Data sets that are not in the paper are left out.

    Parameters
    ----------
    main
        The summary of the main experiment.
    ablations
        The summary of the ablations' cases; None if they were not run.
    """
    main_rows = main.assign(case="")
    ours = [_melt(main_rows, "main"), _melt(main_rows, "runtime")]
    if ablations is not None and not ablations.empty:
        ours.append(_melt(ablations, "strategies"))
        ours.append(_melt(ablations, "aggregation"))
        encoders = ablations[ablations["knob"].isin(["keys", "keys.encoder"])]
        # A value is NAME or NAME_REVISION. If several revisions were run, use the first one.
        by_name = encoders.assign(case="encoder/" + encoders["value"].str.split("_").str[0])
        first_revisions = by_name.drop_duplicates(["dataset", "rate", "method", "case"])
        ours.append(_melt(first_revisions, "encoders"))
    comparison = printed_numbers().merge(pd.concat(ours, ignore_index=True), on=KEYS)
    difference = comparison["ours_mean"] - comparison["mean"]
    comparison["difference"] = difference.where(comparison["comparable"])
    return comparison.assign(within=is_within_sd(comparison))


def read(path: str | Path) -> pd.DataFrame:
    """Read the result of `compare` from a CSV file.

    Raises DamagedFileError if the file cannot be read.
    """
    comparison = read_table(path)
    text = comparison[["case", "slip"]].astype(object).fillna("")
    return comparison.assign(
        case=text["case"], slip=text["slip"], within=comparison["within"].astype("boolean")
    )


def list_statements(settings: Mapping[str, Settings], seeds: int) -> list[str]:
    """Return one sentence per data set that states whether its numbers are comparable to the paper's.

    Parameters
    ----------
    settings
        The settings of every data set, from `ReportFacts.compared` in
        munkey.experiment.plan.exhibits.
    """
    return [write_statement(dataset, parameters, seeds) for dataset, parameters in settings.items()]


def write_statement(dataset: str, settings: Settings, seeds: int) -> str:
    """Return a sentence that states whether a data set's numbers are comparable to the paper's."""
    if dataset not in set(printed_numbers()["dataset"]):
        return (
            f"{dataset}: not among the paper's data sets, so none of its numbers can be compared with"
            " the paper's."
        )
    differing = setting.list_differences(dataset, settings, seeds)
    selection = []
    if setting.is_selected(settings):
        selection.append(setting.describe_selected_pair(dataset))
    if differing:
        phrases = "; ".join(differing + selection)
        if setting.is_rehearsal(settings, seeds):
            reason = "a rehearsal, with fewer seeds, images and epochs than the paper's"
        else:
            reason = "not the paper's setting"
        return f"{dataset}: {reason}, so this does not reproduce the paper: {phrases}."
    agreement = "; ".join(["the paper's setting, as far as the paper states it", *selection])
    return f"{dataset}: {agreement}; docs/method.md lists what it leaves open."


def compute_expected_share(seeds: int) -> float:
    """Return the share of our numbers that would be within the paper's ± in an exact replication.

    Suppose that our runs, one per seed, and the paper's three runs are draws from the same normal
    distribution. Then the difference of the means, divided by the paper's standard deviation, is
    distributed as sqrt(1 / 3 + 1 / seeds) times Student's t with two degrees of freedom.
    """
    t = 1 / math.sqrt(1 / SEEDS + 1 / seeds)
    return t / math.sqrt(t**2 + 2)  # P(|T| <= t) with two degrees of freedom, in closed form


def counts(both: pd.DataFrame, printed: pd.DataFrame) -> TitledTable:
    """Count the paper's numbers, those we compared, and those that agree, by table, data set and rate.

    Parameters
    ----------
    both
        The table that `compare` makes.
    printed
        All of the paper's numbers; those of data sets that we did not run are not counted.
    """
    our_datasets = printed[printed["dataset"].isin(both["dataset"])]
    lines = our_datasets.merge(both[[*KEYS, "within"]], on=KEYS, how="left")
    grouped = lines.groupby(TABLE, sort=False)["within"]
    frame = grouped.agg(Printed="size", Compared="count", Within="sum").reset_index()
    frame.loc[len(frame)] = ["all", "", np.nan, *frame[["Printed", "Compared", "Within"]].sum()]
    counted = []
    for _, line in frame.iterrows():
        rate = ""
        if pd.notna(line["rate"]):
            rate = percent(line["rate"])
        share = ABSENT
        if line["Compared"]:
            share = f"{100 * line['Within'] / line['Compared']:.0f} %"
        counted.append(
            {
                "Table": line["table"],
                "Data set": line["dataset"],
                "Forget": rate,
                "Printed": int(line["Printed"]),
                "Compared": int(line["Compared"]),
                "Within": int(line["Within"]),
                "Share": share,
            }
        )
    return TitledTable("How many of our numbers lie within the paper's ±", pd.DataFrame(counted))


def side_by_side_tables(comparison: pd.DataFrame) -> list[TitledTable]:
    """Return tables with cells `ours (the paper's)`, checked if ours is within the paper's ±.

    There is one table for each table, data set and rate in the paper.
    """
    cells = []
    for _, row in comparison.iterrows():
        ours = format_mean_sd(row["ours_mean"], row["ours_sd"], get_decimals(row["metric"]))
        papers = format_mean_sd(row["mean"], row["sd"], get_decimals(row["metric"]))
        cells.append(f"{ours} ({papers}) {_choose_word(row['within'], '✓', '✗')}")
    cell_rows = comparison.assign(System=_name_systems(comparison), cell=cells)
    tables = []
    for (table, dataset, _), part in cell_rows.groupby(TABLE, sort=False):
        wide = part.pivot(index="System", columns="metric", values="cell")
        ordered = wide.loc[part["System"].unique(), part["metric"].unique()]  # as in the paper
        frame = ordered.fillna(ABSENT).rename_axis(columns=None).reset_index()
        title = f"{table}, {dataset}, {percent(part['rate'].iloc[0])}: ours (the paper's)"
        tables.append(TitledTable(title, frame))
    return tables


def _name_systems(comparison: pd.DataFrame) -> "pd.Series[str]":
    """Return the name of each row's system: its case, if there is one, and its method."""
    return (comparison["case"] + " " + comparison["method"]).str.strip()


def _choose_word(within: object, yes: str, no: str) -> str:
    """Return `yes` or `no` for a result of `is_within_sd`, or – if it is NA."""
    if within is pd.NA:
        return ABSENT
    if within:
        return yes
    return no


def comparison_tables(comparison: pd.DataFrame) -> list[TitledTable]:
    """Return a table that counts the agreeing numbers, and a table of all compared numbers.

    If nothing was compared, there are no tables.
    """
    if comparison.empty:
        return []
    table_rows = []
    for (_, row), system in zip(comparison.iterrows(), _name_systems(comparison), strict=True):
        decimals = get_decimals(row["metric"])
        if row["comparable"]:
            difference = f"{row['difference']:+.2f}"
        else:
            difference = "not comparable"
        table_rows.append(
            {
                "Table": row["table"],
                "Data set": row["dataset"],
                "Forget": percent(row["rate"]),
                "System": system,
                "Metric": row["metric"],
                "Ours": format_mean_sd(row["ours_mean"], row["ours_sd"], decimals),
                "Paper": format_mean_sd(row["mean"], row["sd"], decimals),
                "Difference": difference,
                "Within ±": _choose_word(row["within"], "yes", "no"),
                "Slip in the paper": row["slip"],
            }
        )
    return [
        counts(comparison, printed_numbers()),
        TitledTable("Number by number", pd.DataFrame(table_rows)),
    ]


def render_comparison(comparison: pd.DataFrame, statements: list[str]) -> dict[str, str]:
    """Return the comparison as text, by the name of the rule's output file."""
    markdown_head = ""
    latex_head = ""
    for statement in statements:
        markdown_head += f"- {statement}\n"
        latex_head += f"% {statement}\n"
    tables = comparison_tables(comparison)
    return {
        "csv": comparison.to_csv(index=False),
        "markdown": f"{markdown_head}\n{render(tables, 'markdown')}",
        "latex": latex_head + render(tables, "latex"),
    }


def _melt(summary: pd.DataFrame, table: str) -> pd.DataFrame:
    """Return a summary in long format, with one row per metric, for one of the paper's tables."""
    keys = summary.columns.intersection(KEYS)
    parts = []
    for name in summary.columns[summary.columns.str.endswith("_mean")]:
        metric = name.removesuffix("_mean")
        ours = summary[keys].assign(
            metric=metric, ours_mean=summary[name], ours_sd=summary[f"{metric}_sd"]
        )
        parts.append(ours)
    return pd.concat(parts, ignore_index=True).dropna(subset="ours_mean").assign(table=table)
