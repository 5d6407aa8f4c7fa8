"""The table of an audit: how much is left, how well attacks do, and in which words it may be said."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from munkey.audits.family_audit import DEPLOYED
from munkey.audits.registry import AUDITS
from munkey.report.tables.markup import ABSENT, Titled, seeds
from munkey.report.tables.summary import Row

PATHS = {  # how a memory is asked; the first is how it is deployed
    "deployed": "",
    "softmax": "neighbors averaged",
    "image": "image alone",
    "token": "neighbors' tokens alone",
}
CONTROL = "Control: MUNKEY that keeps"  # trained so that its weights remember
TITLES = {"nothing": "nothing done", "oracle": "oracle", "control nothing": "nothing done"}


def named(line: pd.Series) -> str:
    """A row's name: the method or what was done to which model, and how it was asked."""
    role, path = str(line["role"]), PATHS[str(line["path"])]
    name = CONTROL if role.startswith("control") else str(line["title"])
    done = TITLES.get(role)
    return name + (f", {done}" if done else "") + (f", {path}" if path else "")


def table(audit: pd.DataFrame, dataset: str) -> Titled:
    """A line for each system and path, in the order of the audit."""
    lines = [_line(line) for _, line in audit.iterrows()]
    pairs = audit["pairs"]
    return Titled(f"{dataset}: {pairs.min()} to {pairs.max()} pairs of models, percent", pd.DataFrame(lines))


def shown(audit: pd.DataFrame) -> pd.DataFrame:
    """The rows to look at first: other paths than the deployed one of methods alone."""
    return audit[(audit["path"] == DEPLOYED) | (audit["role"] == "method")].reset_index(drop=True)


def left_of(audits: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, str]]:
    """The column `left [%]` of the main table, by data set and system: the share on the deployed path."""
    return {dataset: _left(audit) for dataset, audit in audits.items()}


def _left(audit: pd.DataFrame) -> dict[str, str]:
    """Where an audit has no power, its shares say nothing."""
    deployed = audit[(audit["path"] == DEPLOYED) & ~audit["role"].str.startswith("control")]
    return {
        str(line["name"]): "no power" if line["verdict"] == "no power" else interval(line, "share")
        for _, line in deployed.iterrows()
    }


def _line(line: pd.Series) -> dict[str, str]:
    return {
        "Model, and what was done": named(line),
        "left [%]": interval(line, "share"),
        "verdict": str(line["words"]) if pd.notna(line.get("words")) else "exploratory",
        "LiRA AUROC": interval(line, "u-lira_auroc"),
        "TPR @ 1 %": interval(line, "u-lira_tpr_1"),
        "RMIA AUROC": interval(line, "rmia_auroc"),
        "p": _p(line["p"]),
        "distance / floor": _number(line, "js_ratio", 2),
    }


def interval(line: pd.Series, name: str) -> str:
    """`value [low, high]`, – where there is none."""
    if pd.isna(line.get(name)):
        return ABSENT
    low, high = line[f"{name}_low"], line[f"{name}_high"]
    bounds = f"{low:.1f}, {high:.1f}" if math.isfinite(high - low) else "unbounded"
    return f"{line[name]:.1f} [{bounds}]"


def _p(p: float) -> str:
    return ABSENT if pd.isna(p) else "< 0.001" if p < 0.0005 else f"{p:.3f}"


def _number(line: pd.Series, name: str, digits: int) -> str:
    return ABSENT if pd.isna(line.get(name)) else f"{line[name]:.{digits}f}"


ATTACKS = {"loss": "Loss", "margin": "Margin", "logistic": "Logistic"}  # on one model; those of plug-ins follow


def attacks_tables(found: pd.DataFrame, tidy: pd.DataFrame, rows: Sequence[Row]) -> list[Titled]:
    """Attacks on one model beside the paper's MIA, a table for each data set and rate: means over seeds, percent.

    found: lines of munkey.audits.one_model; tidy: metrics. In brackets: the lowest and the highest bound of any seed.
    """
    mia, titled = tidy[tidy["metric"] == "MIA"], []
    others = {str(name): AUDITS[str(name)].title for name in found["attack"].unique() if name not in ATTACKS}
    for (dataset, rate), part in found.astype({"rate": float}).groupby(["dataset", "rate"], sort=False):
        of_rate = mia[(mia["dataset"] == dataset) & (mia["rate"].astype(float) == rate)]
        lines = []
        for row in rows:
            own = part[part["method"] == row.name]
            line = {"Method": row.title, "MIA": f"{of_rate[of_rate['method'] == row.name]['value'].mean():.1f}"}
            for name, attack in (ATTACKS | others).items():
                of_attack = own[own["attack"] == name]
                line[f"{attack}: AUROC"] = _over_seeds(of_attack, "auroc")
                line[f"{attack}: TPR @ 1 %"] = _over_seeds(of_attack, "tpr_1")
            lines.append(line)
        title = f"{dataset}, forget rate {100 * part['rate'].iloc[0]:g} %: {seeds(found['seed'].nunique())}"
        titled.append(Titled(title, pd.DataFrame(lines)))
    return titled


def storage_tables(found: pd.DataFrame) -> list[Titled]:
    """What files still hold of what was deleted, before and after deletion, a table for each data set: sums over seeds.

    found: lines of munkey.audits.memories.
    """
    titled = []
    for dataset, part in found.groupby("dataset", sort=False):
        lines = []
        for (_, title), own in part.groupby(["rate", "title"], sort=False):
            line = {"Method": str(title), "Forget": f"{100 * float(own['rate'].iloc[0]):g} %"}
            for column, name in (("keys and tokens", "rows"), ("ids", "ids")):
                for when, file in (("before", "original"), ("after", "unlearned")):
                    line[f"{column}, {when}"] = _found(own[own["file"] == file], name)
            lines.append(line)
        over = seeds(part["seed"].nunique())
        title = f"{dataset}: what was deleted and is found in the system's file, {over}"
        titled.append(Titled(title, pd.DataFrame(lines)))
    return titled


def _found(lines: pd.DataFrame, name: str) -> str:
    """`found of deleted`, or why the search proves nothing."""
    if lines["why"].notna().any():
        return str(lines["why"].dropna().iloc[0])
    return f"{lines[name].sum():.0f} of {lines[f'{name}_of'].sum()}"


def _over_seeds(lines: pd.DataFrame, name: str) -> str:
    """Mean over seeds; `too few test samples` where there are too few for the rate."""
    if name not in lines or lines[name].isna().any():
        return "too few test samples"
    return f"{lines[name].mean():.1f} [{lines[f'{name}_low'].min():.1f}, {lines[f'{name}_high'].max():.1f}]"
