"""Residual shares as text: the rows of an audit's table, as other tables show them."""

import math
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from munkey.core.diverged import DIVERGED
from munkey.evaluation.records import DEPLOYED
from munkey.report.tables.markup import ABSENT
from munkey.report.tables.summary import ATTACK_ONLY, TEST_ONLY, Residue

MEMORY_PATHS = {  # how a memory is queried; the first path is the deployed one
    "deployed": "",
    "softmax": "neighbors averaged",
    "image": "image alone",
    "token": "neighbors' tokens alone",
}
PATHS = MEMORY_PATHS | {  # how a system is queried
    "perturbed": "perturbed pictures",
    "probe": "linear probe on features",
}


def name_audited_system(row: pd.Series) -> str:
    """Return the name of an audit's row: the method or control, and how it was queried."""
    role = str(row["role"])
    path = PATHS[str(row["path"])]
    name = str(row["title"])
    if role.startswith("control"):
        name = f"Control: {name}"
    if role == "control nothing":
        name += ", original"
    if path:
        name += f", {path}"
    return name


def collect_residue(audits: Mapping[Path, pd.DataFrame]) -> Residue:
    """Return the main table's column `residual share [%]`, by data set and system.

    The shares are measured on the deployed path. If an audit has no power or a system diverged, the
    text says so instead.

    Parameters
    ----------
    audits
        The rows of each audit by its folder, which is named after the data set.
    """
    residue = {}
    for folder, audit in audits.items():
        deployed = audit[(audit["path"] == DEPLOYED) & ~audit["role"].str.startswith("control")]
        texts = {}
        for _, row in deployed.iterrows():
            if row["verdict"] in ("no power", DIVERGED):
                text = row["verdict"]
            else:
                text = format_share(row)
            texts[str(row["name"])] = text
        residue[folder.name] = texts
    return residue


def format_share(row: pd.Series) -> str:
    """Return a share with its interval, marked if the interval alone would hide a residue."""
    text = format_estimate(row, "share")
    if is_flagged_by_attack_only(row):
        text += f" {ATTACK_ONLY}"
    elif row.get("verdict") == "residue" and row["share_low"] <= 0 <= row["share_high"]:
        text += f" {TEST_ONLY}"
    return text


def is_flagged_by_attack_only(row: pd.Series) -> bool:
    """Return whether an attack flagged a method although its residual share did not."""
    return row.get("verdict") == "residue" and "share" not in str(row["flagged"]).split()


def format_estimate(row: pd.Series, name: str) -> str:
    """Return an estimate and its interval as `value [low, high]`, or – if it is missing.

    If the interval has no bounds, the brackets contain `unbounded`.
    """
    if pd.isna(row.get(name)):
        return ABSENT
    low = row[f"{name}_low"]
    high = row[f"{name}_high"]
    if math.isfinite(high - low):
        bounds = f"{_format_bound(low)}, {_format_bound(high)}"
    else:
        bounds = "unbounded"
    return f"{format_decimal(row[name])} [{bounds}]"


def _format_bound(value: float) -> str:
    """Return a bound with one decimal, or `> 999` or `< -999` if it is too large to be meaningful."""
    if abs(value) < 1000:
        return format_decimal(value)
    if value < 0:
        return "< -999"
    return "> 999"


def format_decimal(value: float) -> str:
    """Return a number with one decimal. Zero has no minus sign."""
    return f"{round(value, 1) + 0.0:.1f}"  # -0.0 + 0.0 is 0.0
