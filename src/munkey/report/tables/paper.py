"""The numbers printed in the paper beside ours, and how many agree.

`paper.csv` holds the paper's numbers. Its column `slip` describes the error in a number, if there
is one. Where `comparable` is `no`, the number does not belong to the system that its row names, and
ours is not compared with it.
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
    """Return a line per number of the paper's tables: KEYS, mean, sd, slip, and whether it is comparable."""
    lines = pd.read_csv(PRINTED).fillna({"case": "", "slip": ""})
    return lines.assign(comparable=lines["comparable"] != "no")


def is_within_sd(both: pd.DataFrame) -> "pd.Series[bool]":
    """Return whether our mean is at most the paper's ± away from its mean, to three digits, for each line.

    It is NA where the means are not comparable, or where the paper has no ±.

    Parameters
    ----------
    both
        The table that `compare` makes.
    """
    is_near = both["difference"].abs().round(3) <= both["sd"]
    is_known = both[["difference", "sd"]].notna().all(axis=1)
    return is_near.astype("boolean").where(is_known)


def compare(main: pd.DataFrame, ablations: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return our numbers (ours_mean, ours_sd) beside the paper's (mean, sd), wherever both exist, and their difference.

    The difference is NaN where the paper's number is not comparable. The column `within` says
    whether ours is within the paper's ± (`is_within_sd`). Data sets that are not in the paper are
    left out.

    Parameters
    ----------
    main
        Summary of the main experiment.
    ablations
        Summary of the ablations' cases; None if they were not run.
    """
    main_lines = main.assign(case="")
    ours = [_melt(main_lines, "main"), _melt(main_lines, "runtime")]
    if ablations is not None and not ablations.empty:
        ours.append(_melt(ablations, "strategies"))
        ours.append(_melt(ablations, "aggregation"))
        encoders = ablations[ablations["knob"].isin(["keys", "keys.encoder"])]
        # An encoder's revision follows its name behind _; of two revisions, the first counts.
        named = encoders.assign(case="encoder/" + encoders["value"].str.split("_").str[0])
        first = named.drop_duplicates(["dataset", "rate", "method", "case"])
        ours.append(_melt(first, "encoders"))
    both = printed_numbers().merge(pd.concat(ours, ignore_index=True), on=KEYS)
    both["difference"] = (both["ours_mean"] - both["mean"]).where(both["comparable"])
    return both.assign(within=is_within_sd(both))


def read(path: str | Path) -> pd.DataFrame:
    """Return the result of `compare` from the CSV file that it was written to.

    Raises DamagedFileError for a file that cannot be read.
    """
    both = read_table(path)
    text = both[["case", "slip"]].astype(object).fillna("")
    return both.assign(
        case=text["case"], slip=text["slip"], within=both["within"].astype("boolean")
    )


def list_statements(settings: Mapping[str, Settings], seeds: int) -> list[str]:
    """Return whether the numbers of each data set may be compared with the paper's, a sentence each.

    Parameters
    ----------
    settings
        The parameters of every data set, from `ReportFacts.compared` in
        munkey.experiment.plan.exhibits.
    """
    return [write_statement(dataset, parameters, seeds) for dataset, parameters in settings.items()]


def write_statement(dataset: str, settings: Settings, seeds: int) -> str:
    """Return whether the numbers of one data set may be compared with the paper's."""
    if dataset not in set(printed_numbers()["dataset"]):
        return f"{dataset}: not among the paper's data sets, so none of its numbers can be compared with the paper's."
    differing = setting.list_differences(dataset, settings, seeds)
    selection = []
    if setting.is_selected(settings):
        selection.append(setting.describe_selected_pair(dataset))
    if differing:
        listed = "; ".join(differing + selection)
        reason = "not the paper's setting"
        if setting.is_rehearsal(settings, seeds):
            reason = "a rehearsal, with fewer seeds, images and epochs than the paper's"
        return f"{dataset}: {reason}, so this does not reproduce the paper: {listed}."
    agreement = "; ".join(["the paper's setting, as far as the paper states it", *selection])
    return f"{dataset}: {agreement}; docs/method.md lists what it leaves open."


def compute_expected_share(seeds: int) -> float:
    """Return the share of numbers within the paper's ± that is expected if our runs repeat the paper's.

    Assume that our runs, one per seed, and the paper's three are draws from one normal distribution.
    Then the difference of the means over the paper's standard deviation is Student's t with two
    degrees of freedom, times sqrt(1 / 3 + 1 / seeds).
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


def side_by_side_tables(both: pd.DataFrame) -> list[TitledTable]:
    """Return `ours (the paper's)` of every system and metric, with a check mark where ours is within the paper's ±.

    There is one table for each table, data set and rate of the paper.
    """
    cells = []
    for _, line in both.iterrows():
        ours = format_mean_sd(line["ours_mean"], line["ours_sd"], get_decimals(line["metric"]))
        papers = format_mean_sd(line["mean"], line["sd"], get_decimals(line["metric"]))
        cells.append(f"{ours} ({papers}) {_choose_word(line['within'], '✓', '✗')}")
    lines = both.assign(System=_name_systems(both), cell=cells)
    titled = []
    for (table, dataset, _), part in lines.groupby(TABLE, sort=False):
        wide = part.pivot(index="System", columns="metric", values="cell")
        ordered = wide.loc[part["System"].unique(), part["metric"].unique()]  # as in the paper
        frame = ordered.fillna(ABSENT).rename_axis(columns=None).reset_index()
        title = f"{table}, {dataset}, {percent(part['rate'].iloc[0])}: ours (the paper's)"
        titled.append(TitledTable(title, frame))
    return titled


def _name_systems(both: pd.DataFrame) -> "pd.Series[str]":
    """Return the case, if there is one, and the method."""
    return (both["case"] + " " + both["method"]).str.strip()


def _choose_word(within: object, yes: str, no: str) -> str:
    """Return the word for an entry of `is_within_sd`, which is NA where nothing is compared."""
    if within is pd.NA:
        return ABSENT
    if within:
        return yes
    return no


def comparison_tables(both: pd.DataFrame) -> list[TitledTable]:
    """Return the comparison as tables: how much agrees, then every number; none where nothing was compared."""
    if both.empty:
        return []
    lines = []
    for (_, line), system in zip(both.iterrows(), _name_systems(both), strict=True):
        decimals = get_decimals(line["metric"])
        difference = "not comparable"
        if line["comparable"]:
            difference = f"{line['difference']:+.2f}"
        lines.append(
            {
                "Table": line["table"],
                "Data set": line["dataset"],
                "Forget": percent(line["rate"]),
                "System": system,
                "Metric": line["metric"],
                "Ours": format_mean_sd(line["ours_mean"], line["ours_sd"], decimals),
                "Paper": format_mean_sd(line["mean"], line["sd"], decimals),
                "Difference": difference,
                "Within ±": _choose_word(line["within"], "yes", "no"),
                "Slip in the paper": line["slip"],
            }
        )
    return [counts(both, printed_numbers()), TitledTable("Number by number", pd.DataFrame(lines))]


def render_comparison(both: pd.DataFrame, statements: list[str]) -> dict[str, str]:
    """Return the comparison as text, by the name of the rule's output that each part is written to."""
    markdown_head = ""
    latex_head = ""
    for line in statements:
        markdown_head += f"- {line}\n"
        latex_head += f"% {line}\n"
    return {
        "csv": both.to_csv(index=False),
        "markdown": f"{markdown_head}\n{render(comparison_tables(both), 'markdown')}",
        "latex": latex_head + render(comparison_tables(both), "latex"),
    }


def _melt(summary: pd.DataFrame, table: str) -> pd.DataFrame:
    """Return a summary with a line per metric, for one of the paper's tables."""
    keys = summary.columns.intersection(KEYS)
    parts = []
    for name in summary.columns[summary.columns.str.endswith("_mean")]:
        metric = name.removesuffix("_mean")
        ours = summary[keys].assign(
            metric=metric, ours_mean=summary[name], ours_sd=summary[f"{metric}_sd"]
        )
        parts.append(ours)
    return pd.concat(parts, ignore_index=True).dropna(subset="ours_mean").assign(table=table)
