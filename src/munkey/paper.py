"""The paper's printed numbers beside ours. `paper.csv` holds them as facts; `slip` marks those that cannot be right."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

PRINTED = Path(__file__).with_name("paper.csv")
KEYS = ["table", "dataset", "rate", "case", "method", "metric"]
# The paper's setting (sec. 4, app. B.3), as far as it is told.
SETTING = {
    "seeds": 3,
    "data.image_size": 224,
    "model.patch_size": 16,
    "model.width": 192,
    "model.depth": 12,
    "model.heads": 3,
    "train.epochs": 100,
    "train.lr": 1.5e-4,
    "keys.encoder": "vit-b16",
    "munkey.token_dim": 128,
    "munkey.p_retrieve": 0.2,
    "inference.k": 4,
    "inference.temperature": 0.07,
    "finetune.epochs": 10,
}


def printed() -> pd.DataFrame:
    """table, dataset, rate, case, method, metric, mean, sd, slip: a line per number of the paper's tables."""
    return pd.read_csv(PRINTED).fillna({"case": "", "slip": ""})


def compared(main: pd.DataFrame, ablations: pd.DataFrame | None = None) -> pd.DataFrame:
    """Ours (ours_mean, ours_sd) beside the paper's (mean, sd), and the difference, where both have a number.

    main, ablations: summaries of `tables` and `ablations`. A data set that the paper has not gives no line.
    """
    ours = [_long(main.assign(case=""), table) for table in ("main", "runtime")]
    if ablations is not None:
        ours += [_long(ablations, table) for table in ("strategies", "aggregation")]
        tried = ablations[ablations["knob"].isin(["keys", "keys.encoder"])]
        ours.append(_long(tried.assign(case="encoder/" + tried["value"].str.split("_").str[0]), "encoders"))
    both = printed().merge(pd.concat(ours, ignore_index=True), on=KEYS)
    both["difference"] = both["ours_mean"] - both["mean"]
    return both


def _long(summary: pd.DataFrame, table: str) -> pd.DataFrame:
    keys = [name for name in KEYS if name in summary.columns]
    metrics = [name.removesuffix("_mean") for name in summary.columns if name.endswith("_mean")]
    parts = [
        summary[keys].assign(metric=metric, ours_mean=summary[f"{metric}_mean"], ours_sd=summary[f"{metric}_sd"])
        for metric in metrics
    ]
    return pd.concat(parts, ignore_index=True).dropna(subset="ours_mean").assign(table=table)


def statement(dataset: str, settings: Mapping[str, Any], seeds: int) -> str:
    """Whether a run of a data set can be held against the paper's numbers, in plain words.

    settings: the parameters of the data set, section by section.
    """
    if dataset not in set(printed()["dataset"]):
        return f"{dataset}: not among the paper's data sets, so none of its numbers can be compared with the paper's."
    found = {"seeds": seeds} | {
        name: settings[name.split(".")[0]][name.split(".")[1]] for name in SETTING if name != "seeds"
    }
    differing = [
        f"{name} is {found[name]} (paper: {wanted})" for name, wanted in SETTING.items() if found[name] != wanted
    ]
    if differing:
        return f"{dataset}: another setting than the paper's, so this is no reproduction of it: {'; '.join(differing)}."
    return f"{dataset}: the paper's setting, as far as the paper tells it; docs/method.md lists what it leaves open."


def table(compared: pd.DataFrame) -> pd.DataFrame:
    """`compared` as cells ready to print."""

    def cell(mean: float, sd: float) -> str:
        return f"{mean:.2f}" + ("" if pd.isna(sd) else f" ± {sd:.2f}")

    return pd.DataFrame(
        {
            "Table": line["table"],
            "Data set": line["dataset"],
            "Forget": f"{100 * line['rate']:g} %",
            "System": " ".join(filter(None, [line["case"], line["method"]])),
            "Metric": line["metric"],
            "Ours": cell(line["ours_mean"], line["ours_sd"]),
            "Paper": cell(line["mean"], line["sd"]),
            "Difference": f"{line['difference']:+.2f}",
            "Slip in the paper": line["slip"],
        }
        for _, line in compared.iterrows()
    )
