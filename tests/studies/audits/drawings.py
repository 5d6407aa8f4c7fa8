"""Figures of audits, drawn from made-up numbers; tests/report/figures checks them as it does all others."""

import numpy as np
import pandas as pd

from munkey.studies.audits.figure import forest_plot, strata_plot
from munkey.studies.audits.grid_figure import grid_plot

NUMBERS = {
    "chance": 2.0,
    "pairs": 4,
    "nothing": 0.4,
    "val_before": 95.0,
    "val_after": 94.5,
    "test_after": 94.0,
}


def grid_rows() -> pd.DataFrame:
    """An audit of three settings on two paths; the interval of the last, deployed, has no end."""
    lines = []
    for p_token, share in ((0.1, 3.0), (0.3, 20.0), (0.6, 400.0)):
        for path, factor in (("deployed", 1), ("image", 2)):
            line = {"setting": f"p_token-{p_token}", "path": path, "munkey.p_image": 0.3}
            line |= {"munkey.p_token": p_token, "train.crop_scale": "[0.6, 1.0]"}
            line |= {"share": factor * share, "share_low": share - 2, "share_high": share + 2}
            lines.append(line | {"P_s": p_token / 2} | NUMBERS)
    lines[4]["share_high"] = np.inf
    return pd.DataFrame(lines)


def shares():
    """An audit with the residual shares of methods and an oracle."""
    values = {
        "CF": 83,
        "CF-k": 97,
        "EU-k": 86,
        "NegGrad+": 64,
        "Amnesiac": -87,
        "SCRUB": 51,
        "SSD": 100,
        "AMUN": -33,
        "MUNKEY": 5,
        "retrain-t": -4,
    }
    audit = pd.DataFrame({"name": values.keys(), "share": values.values()})
    audit = audit.assign(title=audit["name"], family="vit", path="deployed", role="method")
    audit = audit.assign(verdict="residue", flagged="share", chance=5.0)
    audit = audit.assign(share_low=audit["share"] - 10.0, share_high=audit["share"] + 12.0)
    oracle = ["ViT", "oracle", "control"]
    audit.loc[audit["name"] == "retrain-t", ["title", "role", "verdict"]] = oracle
    audit.loc[audit["name"] == "Amnesiac", ["share_low", "verdict"]] = [-np.inf, "over-forgets"]
    audit.loc[audit["name"] == "MUNKEY", "flagged"] = "u-lira_tpr_1"
    return audit


def strata():
    """The same by memorization: of one stratum an interval has no end, of another it ends beyond the axis."""
    audit = shares()
    for name, shift in {"low": -20.0, "mid": 0.0, "high": 10.0, "top": 20.0}.items():
        audit[f"share_of_{name}"] = audit["share"] + shift
        audit[f"share_of_{name}_low"] = audit["share"] + shift - 15.0
        audit[f"share_of_{name}_high"] = audit["share"] + shift + 15.0
    audit.loc[audit["name"] == "CF", "share_of_low_low"] = -np.inf
    audit.loc[audit["name"] == "AMUN", "share_of_low_low"] = -4000.0
    return audit


DRAWINGS = {
    "shares": lambda: forest_plot(shares()),
    "strata": lambda: strata_plot(strata()),
    "strata, none": lambda: strata_plot(shares()),
    "audit grid": lambda: grid_plot(grid_rows()),
}
