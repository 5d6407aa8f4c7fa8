"""The numbers printed in the paper beside ours, and how many agree.

`paper.csv` holds the paper's numbers. Its column `slip` says what is wrong with a number. Where `comparable` is `no`,
the number does not belong to the system that its row names, and ours is not compared with it.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from munkey.core.files import read_table
from munkey.report.tables import setting
from munkey.report.tables.markup import ABSENT, Titled, plus_minus, render
from munkey.report.tables.setting import SEEDS, Settings

PRINTED = Path(__file__).with_name("paper.csv")
TABLE = ["table", "dataset", "rate"]
KEYS = [*TABLE, "case", "method", "metric"]


def printed() -> pd.DataFrame:
    """A line per number of the paper's tables: KEYS, mean, sd, slip, and whether it is comparable."""
    lines = pd.read_csv(PRINTED).fillna({"case": "", "slip": ""})
    return lines.assign(comparable=lines["comparable"] != "no")


def digits(metric: str) -> int:
    """How many the paper prints after the point."""
    return 3 if metric == "P_s" else 2


def within(both: pd.DataFrame) -> "pd.Series[bool]":
    """Whether our mean is at most the paper's ± away from its mean, to three digits: (N,) nullable booleans.

    both: of `compare`. NA where they are not comparable, or where the paper has no ±.
    """
    return (
        (both["difference"].abs().round(3) <= both["sd"])
        .astype("boolean")
        .where(both[["difference", "sd"]].notna().all(axis=1))
    )


def compare(main: pd.DataFrame, ablations: pd.DataFrame | None = None) -> pd.DataFrame:
    """Our numbers (ours_mean, ours_sd) beside the paper's (mean, sd), wherever both exist, and their difference.

    There is no difference where the paper's number is not comparable. within: whether ours is within the paper's ±.
    main, ablations: a summary of the main experiment and one of the cases. Data sets that are not in the paper are left
    out.
    """
    ours = [_long(main.assign(case=""), table) for table in ("main", "runtime")]
    if ablations is not None and not ablations.empty:
        ours += [_long(ablations, table) for table in ("strategies", "aggregation")]
        encoders = ablations[ablations["knob"].isin(["keys", "keys.encoder"])]
        # of two revisions, the first
        named = encoders.assign(case="encoder/" + encoders["value"].str.split("_").str[0])
        ours.append(_long(named.drop_duplicates(["dataset", "rate", "method", "case"]), "encoders"))
    both = printed().merge(pd.concat(ours, ignore_index=True), on=KEYS)
    both["difference"] = (both["ours_mean"] - both["mean"]).where(both["comparable"])
    return both.assign(within=within(both))


def read(path: str | Path) -> pd.DataFrame:
    """The result of `compare` from the CSV file that it was written to. Raises DamagedFileError."""
    both = read_table(path)
    text = both[["case", "slip"]].astype(object).fillna("")
    return both.assign(
        case=text["case"], slip=text["slip"], within=both["within"].astype("boolean")
    )


def statements(settings: Mapping[str, Settings], seeds: int) -> list[str]:
    """Whether the numbers of each data set may be compared with the paper's, a sentence each.

    settings: the parameters of every data set, as `Shown.compared` in munkey.experiment.plan.exhibits hands them over.
    """
    return [statement(dataset, parameters, seeds) for dataset, parameters in settings.items()]


def statement(dataset: str, settings: Settings, seeds: int) -> str:
    """Whether the numbers of one data set may be compared with the paper's."""
    if dataset not in set(printed()["dataset"]):
        return f"{dataset}: not among the paper's data sets, so none of its numbers can be compared with the paper's."
    differing = setting.differences(dataset, settings, seeds)
    selection = [setting.selected(dataset)] if setting.is_selected(settings) else []
    if differing:
        listed = "; ".join(differing + selection)
        reason = "not the paper's setting"
        if setting.is_rehearsal(settings, seeds):
            reason = "a rehearsal, with fewer seeds, images and epochs than the paper's"
        return f"{dataset}: {reason}, so this does not reproduce the paper: {listed}."
    agreement = "; ".join(["the paper's setting, as far as the paper states it", *selection])
    return f"{dataset}: {agreement}; docs/method.md lists what it leaves open."


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
    lines = printed[printed["dataset"].isin(both["dataset"])].merge(
        both[[*KEYS, "within"]], on=KEYS, how="left"
    )
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
        texts.append(f"{ours} ({papers}) {_agreement(line['within'], '✓', '✗')}")
    systems = [
        " ".join(filter(None, names)) for names in zip(both["case"], both["method"], strict=True)
    ]
    titled = []
    for (table, dataset, _), part in both.assign(System=systems, cell=texts).groupby(
        TABLE, sort=False
    ):
        wide = part.pivot(index="System", columns="metric", values="cell")
        ordered = wide.loc[part["System"].unique(), part["metric"].unique()]  # as in the paper
        frame = ordered.fillna(ABSENT).rename_axis(columns=None).reset_index()
        titled.append(
            Titled(
                f"{table}, {dataset}, {100 * part['rate'].iloc[0]:g} %: ours (the paper's)", frame
            )
        )
    return titled


def _agreement(within: object, yes: str, no: str) -> str:
    """The word for an entry of `within`, which is NA where nothing is compared."""
    if within is pd.NA:
        return ABSENT
    return yes if within else no


def tables(both: pd.DataFrame) -> list[Titled]:
    """The result of `compare`: how much agrees, then every number; nothing where there is nothing to compare."""
    cells = [
        {
            "Table": line["table"],
            "Data set": line["dataset"],
            "Forget": f"{100 * line['rate']:g} %",
            "System": " ".join(filter(None, [line["case"], line["method"]])),
            "Metric": line["metric"],
            "Ours": plus_minus(line["ours_mean"], line["ours_sd"], digits(line["metric"])),
            "Paper": plus_minus(line["mean"], line["sd"], digits(line["metric"])),
            "Difference": f"{line['difference']:+.2f}" if line["comparable"] else "not comparable",
            "Within ±": _agreement(line["within"], "yes", "no"),
            "Slip in the paper": line["slip"],
        }
        for _, line in both.iterrows()
    ]
    return (
        [counts(both, printed()), Titled("Number by number", pd.DataFrame(cells))] if cells else []
    )


def all_texts(both: pd.DataFrame, statements: list[str]) -> dict[str, str]:
    """The comparison as text, by the name of the rule's output that each part is written to."""
    return {
        "csv": both.to_csv(index=False),
        "markdown": "".join(f"- {line}\n" for line in statements)
        + "\n"
        + render(tables(both), "markdown"),
        "latex": "".join(f"% {line}\n" for line in statements) + render(tables(both), "latex"),
    }


def _long(summary: pd.DataFrame, table: str) -> pd.DataFrame:
    """A summary with a line per metric, for one of the paper's tables."""
    keys = [name for name in KEYS if name in summary.columns]
    metrics = [name.removesuffix("_mean") for name in summary.columns if name.endswith("_mean")]
    parts = [
        summary[keys].assign(
            metric=metric, ours_mean=summary[f"{metric}_mean"], ours_sd=summary[f"{metric}_sd"]
        )
        for metric in metrics
    ]
    return pd.concat(parts, ignore_index=True).dropna(subset="ours_mean").assign(table=table)
