"""The comparison of our numbers with those printed in the paper, and how many agree.

`paper.csv` contains the paper's numbers. Its column `slip` describes the error in a number, if any.
If `comparable` is `no`, the paper's number does not belong to the system that its row names, so it
is not compared with ours.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from munkey.core.files import read_table, write_text
from munkey.report.page.chapters import Chapter, write_chapters
from munkey.report.tables.markup import (
    ABSENT,
    TitledTable,
    format_mean_sd,
    get_decimals,
    percent,
    render,
)
from munkey.report.tables.summary import read_cases
from munkey.studies.paper import setting
from munkey.studies.paper.setting import SEEDS, Settings

PRINTED = Path(__file__).with_name("paper.csv")
TABLE = ["table", "dataset", "rate"]
KEYS = [*TABLE, "case", "method", "metric"]


def read_printed_numbers() -> pd.DataFrame:
    """Read the numbers in the paper's tables, one per row.

    The columns are KEYS, mean, sd, slip, and comparable (bool).
    """
    printed = pd.read_csv(PRINTED).fillna({"case": "", "slip": ""})
    return printed.assign(comparable=printed["comparable"] != "no")


def is_within_sd(comparison: pd.DataFrame) -> "pd.Series[bool]":
    """Return, for each row, whether our mean lies within the paper's mean ± sd (to three decimals).

    The value is NA if the means are not comparable, or if the paper prints no ±.

    Parameters
    ----------
    comparison
        The rows of `compare`, with the columns difference and sd.
    """
    is_near = comparison["difference"].abs().round(3) <= comparison["sd"]
    is_known = comparison[["difference", "sd"]].notna().all(axis=1)
    return is_near.astype("boolean").where(is_known)


def compare(main: pd.DataFrame, ablations: pd.DataFrame | None = None) -> pd.DataFrame:
    """Compare our numbers (ours_mean, ours_sd) with the paper's (mean, sd), wherever both exist.

    The column `difference` (ours minus the paper's) is NaN if the paper's number is not comparable.
    The column `within` is the result of `is_within_sd`. Data sets that are not in the paper are
    left out.

    Parameters
    ----------
    main
        The summary of the main experiment.
    ablations
        The summary of the ablations' cases; None if they were not run.
    """
    main_with_case = main.assign(case="")
    ours = [_melt(main_with_case, "main"), _melt(main_with_case, "runtime")]
    if ablations is not None and not ablations.empty:
        ours.append(_melt(ablations, "strategies"))
        ours.append(_melt(ablations, "aggregation"))
        encoders = ablations[ablations["knob"].isin(["keys", "keys.encoder"])]
        # Values are NAME_REVISION. If an encoder was run in two revisions, the first one counts.
        named = encoders.assign(case="encoder/" + encoders["value"].str.split("_").str[0])
        first_revision = named.drop_duplicates(["dataset", "rate", "method", "case"])
        ours.append(_melt(first_revision, "encoders"))
    comparison = read_printed_numbers().merge(pd.concat(ours, ignore_index=True), on=KEYS)
    difference = comparison["ours_mean"] - comparison["mean"]
    comparison["difference"] = difference.where(comparison["comparable"])
    return comparison.assign(within=is_within_sd(comparison))


def read_comparison(path: str | Path) -> pd.DataFrame:
    """Read the result of `compare` from a CSV file.

    Raises DamagedFileError if the file cannot be read.
    """
    comparison = read_table(path)
    text = comparison[["case", "slip"]].astype(object).fillna("")
    return comparison.assign(
        case=text["case"], slip=text["slip"], within=comparison["within"].astype("boolean")
    )


def describe_settings(settings: Mapping[str, Settings], seeds: int) -> list[str]:
    """Return one sentence per data set on whether its numbers can be compared with the paper's.

    Parameters
    ----------
    settings
        The parameters of every data set (`munkey.studies.paper.plan.PaperPlan.compared`).
    """
    sentences = []
    for dataset, dataset_settings in settings.items():
        sentences.append(describe_setting(dataset, dataset_settings, seeds))
    return sentences


def describe_setting(dataset: str, settings: Settings, seeds: int) -> str:
    """Return a sentence on whether the numbers of a data set can be compared with the paper's."""
    if dataset not in set(read_printed_numbers()["dataset"]):
        return f"{dataset}: not among the paper's data sets, so none of its numbers can be compared with the paper's."
    differences = setting.list_differences(dataset, settings, seeds)
    selection = []
    if setting.is_selected(settings):
        selection.append(setting.describe_selected_pair(dataset))
    if differences:
        listed = "; ".join(differences + selection)
        if setting.is_rehearsal(settings, seeds):
            reason = "a rehearsal, with fewer seeds, images and epochs than the paper's"
        else:
            reason = "not the paper's setting"
        return f"{dataset}: {reason}, so this does not reproduce the paper: {listed}."
    agreement = "; ".join(["the paper's setting, as far as the paper states it", *selection])
    return f"{dataset}: {agreement}; docs/method.md lists what it leaves open."


def compute_expected_share(seeds: int) -> float:
    """Compute the share of numbers expected within the paper's ± if our runs repeat the paper's.

    Our runs, one per seed, and the paper's three are assumed to be draws from one normal
    distribution. Then the difference of the two means, divided by the paper's standard deviation,
    has Student's t distribution with two degrees of freedom, scaled by sqrt(1 / 3 + 1 / seeds).
    """
    t = 1 / math.sqrt(1 / SEEDS + 1 / seeds)
    return t / math.sqrt(t**2 + 2)  # P(|T| <= t) with two degrees of freedom, in closed form


def count_agreement(comparison: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Count the paper's numbers, those compared with ours, and those within the paper's ±.

    Parameters
    ----------
    comparison
        The rows of `compare`.
    printed
        All of the paper's numbers. Those of data sets that we did not run are not counted.

    Returns
    -------
    counts
        One row per table, data set and rate of the paper, followed by a row with the totals, whose
        rate is NaN. The counts are in the columns Printed, Compared and Within.
    """
    ours = printed[printed["dataset"].isin(comparison["dataset"])]
    numbers = ours.merge(comparison[[*KEYS, "within"]], on=KEYS, how="left")
    groups = numbers.groupby(TABLE, sort=False)["within"]
    # `size` counts all rows, `count` those that are not NA: the numbers that were compared.
    counts = groups.agg(Printed="size", Compared="count", Within="sum").reset_index()
    totals = counts[["Printed", "Compared", "Within"]].sum()
    counts.loc[len(counts)] = ["all", "", np.nan, *totals]
    return counts


def make_agreement_table(comparison: pd.DataFrame, printed: pd.DataFrame) -> TitledTable:
    """Return a table of how many of our numbers agree with the paper's (`count_agreement`)."""
    rows = []
    for _, counts in count_agreement(comparison, printed).iterrows():
        rate = ""
        if pd.notna(counts["rate"]):
            rate = percent(counts["rate"])
        share = ABSENT
        if counts["Compared"]:
            share = f"{100 * counts['Within'] / counts['Compared']:.0f}%"
        rows.append(
            {
                "Table": counts["table"],
                "Data set": counts["dataset"],
                "Forget": rate,
                "Printed": int(counts["Printed"]),
                "Compared": int(counts["Compared"]),
                "Within": int(counts["Within"]),
                "Share": share,
            }
        )
    return TitledTable("How many of our numbers lie within the paper's ±", pd.DataFrame(rows))


def make_side_by_side_tables(comparison: pd.DataFrame) -> list[TitledTable]:
    """Return one table per table, data set and rate of the paper, with one row per system.

    A cell is `ours (the paper's)` for one metric. It ends with ✓ if ours is within the paper's ±,
    with ✗ if it is not, and with – if this is not known.
    """
    cells = []
    for _, row in comparison.iterrows():
        decimals = get_decimals(row["metric"])
        ours = format_mean_sd(row["ours_mean"], row["ours_sd"], decimals)
        papers = format_mean_sd(row["mean"], row["sd"], decimals)
        cells.append(f"{ours} ({papers}) {_choose_label(row['within'], '✓', '✗')}")
    with_cells = comparison.assign(System=_name_systems(comparison), cell=cells)
    tables = []
    for (table, dataset, _), part in with_cells.groupby(TABLE, sort=False):
        wide = part.pivot(index="System", columns="metric", values="cell")
        in_paper_order = wide.loc[part["System"].unique(), part["metric"].unique()]
        frame = in_paper_order.fillna(ABSENT).rename_axis(columns=None).reset_index()
        rate = percent(part["rate"].iloc[0])
        title = f"{table}, {dataset}, {rate}: ours (the paper's)"
        tables.append(TitledTable(title, frame))
    return tables


def _name_systems(comparison: pd.DataFrame) -> "pd.Series[str]":
    """Return the name of the system in each row: its case, if any, and its method."""
    return (comparison["case"] + " " + comparison["method"]).str.strip()


def _choose_label(within: object, yes: str, no: str) -> str:
    """Return the label for a value of `is_within_sd`: `yes`, `no`, or – for NA."""
    if within is pd.NA:
        return ABSENT
    if within:
        return yes
    return no


def make_comparison_tables(comparison: pd.DataFrame) -> list[TitledTable]:
    """Return a table of how many numbers agree, and a table of all compared numbers.

    Returns no table if no number was compared.
    """
    if comparison.empty:
        return []
    rows = []
    for (_, row), system in zip(comparison.iterrows(), _name_systems(comparison), strict=True):
        decimals = get_decimals(row["metric"])
        difference = "not comparable"
        if row["comparable"]:
            difference = f"{row['difference']:+.2f}"
        rows.append(
            {
                "Table": row["table"],
                "Data set": row["dataset"],
                "Forget": percent(row["rate"]),
                "System": system,
                "Metric": row["metric"],
                "Ours": format_mean_sd(row["ours_mean"], row["ours_sd"], decimals),
                "Paper": format_mean_sd(row["mean"], row["sd"], decimals),
                "Difference": difference,
                "Within ±": _choose_label(row["within"], "yes", "no"),
                "Slip in the paper": row["slip"],
            }
        )
    return [
        make_agreement_table(comparison, read_printed_numbers()),
        TitledTable("Number by number", pd.DataFrame(rows)),
    ]


def render_texts(comparison: pd.DataFrame, sentences: list[str]) -> dict[str, str]:
    """Return the comparison as text in several formats, by the name of the rule's output file.

    Parameters
    ----------
    sentences
        The result of `describe_settings`, shown above the tables.
    """
    tables = make_comparison_tables(comparison)
    markdown_head = ""
    latex_head = ""
    for sentence in sentences:
        markdown_head += f"- {sentence}\n"
        latex_head += f"% {sentence}\n"
    return {
        "csv": comparison.to_csv(index=False),
        "markdown": f"{markdown_head}\n{render(tables, 'markdown')}",
        "latex": latex_head + render(tables, "latex"),
    }


def _melt(summary: pd.DataFrame, table: str) -> pd.DataFrame:
    """Return a summary in long form: KEYS, ours_mean and ours_sd of each system and metric.

    A metric has no row if it was not measured, or if a seed diverged. table: the paper's table that
    the numbers are compared with.
    """
    keys = summary.columns.intersection(KEYS)
    parts = []
    for mean_column in summary.columns[summary.columns.str.endswith("_mean")]:
        metric = mean_column.removesuffix("_mean")
        ours = summary[keys].assign(
            metric=metric, ours_mean=summary[mean_column], ours_sd=summary[f"{metric}_sd"]
        )
        parts.append(ours)
    numbers = pd.concat(parts, ignore_index=True).dropna(subset="ours_mean")
    return numbers.assign(table=table)


def paper_tables(
    main_table: Path,
    ablations: Path,
    settings: Mapping[str, Mapping[str, Any]],
    seeds: int,
    chapter: Path,
    outputs: Mapping[str, Path],
) -> None:
    """Compare our numbers with the paper's, and state whether the settings allow a comparison.

    Parameters
    ----------
    settings
        The settings that are compared with the paper's, by data set.
    """
    numbers = compare(read_table(main_table), read_cases(ablations))
    sentences = describe_settings(settings, seeds)
    for output, text in render_texts(numbers, sentences).items():
        write_text(outputs[output], text)
    tables = make_comparison_tables(numbers)
    title = "The paper's numbers"
    write_chapters(chapter, [Chapter("paper", title, tables, sentences, ["../tables/paper.csv"])])
