"""The numbers printed in the paper beside ours.

`paper.csv` holds the paper's numbers. Its column `slip` says what is wrong with a number. Where `comparable` is `no`,
the number does not belong to the system that its row names, and ours is not compared with it.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from munkey.core.files import read_table
from munkey.report.tables import agreement, setting
from munkey.report.tables.agreement import KEYS, digits
from munkey.report.tables.markup import ABSENT, Titled, plus_minus, render
from munkey.report.tables.setting import Settings

PRINTED = Path(__file__).with_name("paper.csv")


def printed() -> pd.DataFrame:
    """A line per number of the paper's tables: KEYS, mean, sd, slip, and whether it is comparable."""
    lines = pd.read_csv(PRINTED).fillna({"case": "", "slip": ""})
    return lines.assign(comparable=lines["comparable"] != "no")


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
        named = encoders.assign(
            case="encoder/" + encoders["value"].str.split("_").str[0]
        )  # of two revisions, the first
        ours.append(_long(named.drop_duplicates(["dataset", "rate", "method", "case"]), "encoders"))
    both = printed().merge(pd.concat(ours, ignore_index=True), on=KEYS)
    both["difference"] = (both["ours_mean"] - both["mean"]).where(both["comparable"])
    return both.assign(within=agreement.within(both))


def read(path: str | Path) -> pd.DataFrame:
    """The result of `compare` from the CSV file that it was written to. Raises DamagedFileError."""
    both = read_table(path)
    text = both[["case", "slip"]].astype(object).fillna("")
    return both.assign(case=text["case"], slip=text["slip"], within=both["within"].astype("boolean"))


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
        listed, reason = "; ".join(differing + selection), "not the paper's setting"
        if setting.is_rehearsal(settings, seeds):
            reason = "a rehearsal, with fewer seeds, images and epochs than the paper's"
        return f"{dataset}: {reason}, so this does not reproduce the paper: {listed}."
    told = "; ".join(["the paper's setting, as far as the paper states it", *selection])
    return f"{dataset}: {told}; docs/method.md lists what it leaves open."


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
            "Within ±": ABSENT if pd.isna(line["within"]) else "yes" if line["within"] else "no",
            "Slip in the paper": line["slip"],
        }
        for _, line in both.iterrows()
    ]
    return [agreement.counts(both, printed()), Titled("Number by number", pd.DataFrame(cells))] if cells else []


def all_texts(both: pd.DataFrame, statements: list[str]) -> dict[str, str]:
    """The comparison as text, by the name of the rule's output that each part is written to."""
    return {
        "csv": both.to_csv(index=False),
        "markdown": "".join(f"- {line}\n" for line in statements) + "\n" + render(tables(both), "markdown"),
        "latex": "".join(f"% {line}\n" for line in statements) + render(tables(both), "latex"),
    }


def _long(summary: pd.DataFrame, table: str) -> pd.DataFrame:
    """A summary with a line per metric, for one of the paper's tables."""
    keys = [name for name in KEYS if name in summary.columns]
    metrics = [name.removesuffix("_mean") for name in summary.columns if name.endswith("_mean")]
    parts = [
        summary[keys].assign(metric=metric, ours_mean=summary[f"{metric}_mean"], ours_sd=summary[f"{metric}_sd"])
        for metric in metrics
    ]
    return pd.concat(parts, ignore_index=True).dropna(subset="ours_mean").assign(table=table)
