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
from munkey.report.tables.markup import ABSENT, TitledTable, digits, percent, plus_minus, render
from munkey.report.tables.setting import SEEDS, Settings

PRINTED = Path(__file__).with_name("paper.csv")
TABLE = ["table", "dataset", "rate"]
KEYS = [*TABLE, "case", "method", "metric"]


def printed_numbers() -> pd.DataFrame:
    """Return a line per number of the paper's tables: KEYS, mean, sd, slip, and whether it is comparable."""
    lines = pd.read_csv(PRINTED).fillna({"case": "", "slip": ""})
    return lines.assign(comparable=lines["comparable"] != "no")


def is_within_sd(both: pd.DataFrame) -> "pd.Series[bool]":
    """Return whether our mean is at most the paper's ± away from its mean, to three digits: (N,) nullable booleans.

    NA where they are not comparable, or where the paper has no ±.

    Parameters
    ----------
    both
        Of `compare`.
    """
    is_near = both["difference"].abs().round(3) <= both["sd"]
    is_known = both[["difference", "sd"]].notna().all(axis=1)
    return is_near.astype("boolean").where(is_known)


def compare(main: pd.DataFrame, ablations: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return our numbers (ours_mean, ours_sd) beside the paper's (mean, sd), wherever both exist, and their difference.

    The difference is NaN where the paper's number is not comparable. within: whether ours is within
    the paper's ±.

    Data sets that are not in the paper are left out.

    Parameters
    ----------
    main, ablations
        A summary of the main experiment and one of the cases.
    """
    main_lines = main.assign(case="")
    ours = [_long(main_lines, "main"), _long(main_lines, "runtime")]
    if ablations is not None and not ablations.empty:
        ours.append(_long(ablations, "strategies"))
        ours.append(_long(ablations, "aggregation"))
        encoders = ablations[ablations["knob"].isin(["keys", "keys.encoder"])]
        # of two revisions, the first
        named = encoders.assign(case="encoder/" + encoders["value"].str.split("_").str[0])
        ours.append(_long(named.drop_duplicates(["dataset", "rate", "method", "case"]), "encoders"))
    both = printed_numbers().merge(pd.concat(ours, ignore_index=True), on=KEYS)
    both["difference"] = (both["ours_mean"] - both["mean"]).where(both["comparable"])
    return both.assign(within=is_within_sd(both))


def read(path: str | Path) -> pd.DataFrame:
    """Return the result of `compare` from the CSV file that it was written to.

    Raises DamagedFileError.
    """
    both = read_table(path)
    text = both[["case", "slip"]].astype(object).fillna("")
    return both.assign(
        case=text["case"], slip=text["slip"], within=both["within"].astype("boolean")
    )


def statements(settings: Mapping[str, Settings], seeds: int) -> list[str]:
    """Return whether the numbers of each data set may be compared with the paper's, a sentence each.

    Parameters
    ----------
    settings
        The parameters of every data set, as `ReportFacts.compared` in
        munkey.experiment.plan.exhibits hands them over.
    """
    return [statement(dataset, parameters, seeds) for dataset, parameters in settings.items()]


def statement(dataset: str, settings: Settings, seeds: int) -> str:
    """Return whether the numbers of one data set may be compared with the paper's."""
    if dataset not in set(printed_numbers()["dataset"]):
        return f"{dataset}: not among the paper's data sets, so none of its numbers can be compared with the paper's."
    differing = setting.differences(dataset, settings, seeds)
    selection = []
    if setting.is_selected(settings):
        selection.append(setting.selected_phrase(dataset))
    if differing:
        listed = "; ".join(differing + selection)
        reason = "not the paper's setting"
        if setting.is_rehearsal(settings, seeds):
            reason = "a rehearsal, with fewer seeds, images and epochs than the paper's"
        return f"{dataset}: {reason}, so this does not reproduce the paper: {listed}."
    agreement = "; ".join(["the paper's setting, as far as the paper states it", *selection])
    return f"{dataset}: {agreement}; docs/method.md lists what it leaves open."


def expected_share(seeds: int) -> float:
    """Return the share that would be within if our runs, with so many seeds, and the paper's were drawn from one distribution.

    Normal, as the mean of three and their standard deviation: the difference of the means over that
    deviation is then Student's t with two degrees of freedom, times sqrt(1 / 3 + 1 / seeds).
    """
    t = 1 / math.sqrt(1 / SEEDS + 1 / seeds)
    return t / math.sqrt(t**2 + 2)


def counts(both: pd.DataFrame, printed: pd.DataFrame) -> TitledTable:
    """Return how many of the paper's numbers are printed, compared, and agree; a line per table, data set and rate.

    Parameters
    ----------
    printed
        All of the paper's numbers, of which those of other data sets are left out.
    """
    lines = printed[printed["dataset"].isin(both["dataset"])].merge(
        both[[*KEYS, "within"]], on=KEYS, how="left"
    )
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


def side_by_side(both: pd.DataFrame) -> list[TitledTable]:
    """`ours (the paper's)` of every system and metric, with a check mark where ours is within the paper's ±.

    A table per table, data set and rate of the paper.
    """
    cells = []
    for _, line in both.iterrows():
        ours = plus_minus(line["ours_mean"], line["ours_sd"], digits(line["metric"]))
        papers = plus_minus(line["mean"], line["sd"], digits(line["metric"]))
        cells.append(f"{ours} ({papers}) {_agreement(line['within'], '✓', '✗')}")
    lines = both.assign(System=_system_names(both), cell=cells)
    titled = []
    for (table, dataset, _), part in lines.groupby(TABLE, sort=False):
        wide = part.pivot(index="System", columns="metric", values="cell")
        ordered = wide.loc[part["System"].unique(), part["metric"].unique()]  # as in the paper
        frame = ordered.fillna(ABSENT).rename_axis(columns=None).reset_index()
        title = f"{table}, {dataset}, {percent(part['rate'].iloc[0])}: ours (the paper's)"
        titled.append(TitledTable(title, frame))
    return titled


def _system_names(both: pd.DataFrame) -> "pd.Series[str]":
    """Return the case, if there is one, and the method."""
    return (both["case"] + " " + both["method"]).str.strip()


def _agreement(within: object, yes: str, no: str) -> str:
    """Return the word for an entry of `is_within_sd`, which is NA where nothing is compared."""
    if within is pd.NA:
        return ABSENT
    if within:
        return yes
    return no


def tables(both: pd.DataFrame) -> list[TitledTable]:
    """Return the result of `compare`: how much agrees, then every number; nothing where there is nothing to compare."""
    if both.empty:
        return []
    lines = []
    for (_, line), system in zip(both.iterrows(), _system_names(both), strict=True):
        decimals = digits(line["metric"])
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
                "Ours": plus_minus(line["ours_mean"], line["ours_sd"], decimals),
                "Paper": plus_minus(line["mean"], line["sd"], decimals),
                "Difference": difference,
                "Within ±": _agreement(line["within"], "yes", "no"),
                "Slip in the paper": line["slip"],
            }
        )
    return [counts(both, printed_numbers()), TitledTable("Number by number", pd.DataFrame(lines))]


def all_texts(both: pd.DataFrame, statements: list[str]) -> dict[str, str]:
    """Return the comparison as text, by the name of the rule's output that each part is written to."""
    markdown_head = ""
    latex_head = ""
    for line in statements:
        markdown_head += f"- {line}\n"
        latex_head += f"% {line}\n"
    return {
        "csv": both.to_csv(index=False),
        "markdown": f"{markdown_head}\n{render(tables(both), 'markdown')}",
        "latex": latex_head + render(tables(both), "latex"),
    }


def _long(summary: pd.DataFrame, table: str) -> pd.DataFrame:
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
