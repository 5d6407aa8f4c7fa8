"""The table of an audit: how much is left, how well attacks do, and in which words it may be said."""

import pandas as pd

from munkey.report.markup import ABSENT, Titled

PATHS = {  # how a memory is asked; the first is how it is deployed
    "deployed": "",
    "softmax": "asked for the average of its neighbors",
    "image": "image alone",
    "token": "neighbors' tokens alone",
}
CONTROL = "Control: MUNKEY that keeps"  # trained so that its weights remember
TITLES = {"nothing": "nothing done", "oracle": "oracle", "control nothing": "nothing done"}
FAMILIES = {"vit": "ViT", "munkey": "MUNKEY", "sisa": "SISA"}


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


def _line(line: pd.Series) -> dict[str, str]:
    return {
        "Model, and what was done": named(line),
        "left [%]": _interval(line, "share"),
        "LiRA AUROC": _interval(line, "u-lira_auroc"),
        "TPR @ 1 %": _interval(line, "u-lira_tpr_1"),
        "RMIA AUROC": _interval(line, "rmia_auroc"),
        "p": _number(line, "p", 3),
        "distance / floor": _number(line, "js_ratio", 2),
        "verdict": str(line["words"]) if pd.notna(line.get("words")) else "exploratory",
    }


def _interval(line: pd.Series, name: str) -> str:
    """`value [low, high]`, – where there is none."""
    if pd.isna(line.get(name)):
        return ABSENT
    return f"{line[name]:.1f} [{line[f'{name}_low']:.1f}, {line[f'{name}_high']:.1f}]"


def _number(line: pd.Series, name: str, digits: int) -> str:
    return ABSENT if pd.isna(line.get(name)) else f"{line[name]:.{digits}f}"
