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
METHODS = ["CF", "CF-k", "EU-k", "NegGrad+", "Amnesiac", "SCRUB", "SSD", "AMUN", "MUNKEY"]


def audited() -> pd.DataFrame:
    lines = []
    for p_token, share in ((0.1, 3.0), (0.3, 20.0), (0.6, 400.0)):
        for path, factor in (("deployed", 1), ("image", 2)):
            knobs = {
                "munkey.p_image": 0.3,
                "munkey.p_token": p_token,
                "train.crop_scale": "[0.6, 1.0]",
            }
            found = {
                "share": factor * share,
                "share_low": share - 2,
                "share_high": share + 2,
                "P_s": p_token / 2,
            }
            lines.append(
                {"setting": f"p_token-{p_token}", "path": path, **knobs, **found, **NUMBERS}
            )
    lines[4]["share_high"] = np.inf
    return pd.DataFrame(lines)


def shares():
    """An audit with what methods and an oracle leave."""
    left = dict(zip(METHODS, [83, 97, 86, 64, -87, 51, 100, -33, 5], strict=True)) | {
        "retrain-t": -4
    }
    line = {
        "family": "vit",
        "path": "deployed",
        "verdict": "residue",
        "chance": 5.0,
        "flagged": "share",
    }
    audit = pd.DataFrame(
        line
        | {
            "name": name,
            "title": name,
            "role": "method",
            "share": s,
            "share_low": s - 10.0,
            "share_high": s + 12.0,
        }
        for name, s in left.items()
    )
    audit.loc[audit["name"] == "retrain-t", ["title", "role", "verdict"]] = [
        "ViT",
        "oracle",
        "control",
    ]
    audit.loc[audit["name"] == "Amnesiac", ["share_low", "verdict"]] = [-np.inf, "over-forgets"]
    audit.loc[audit["name"] == "MUNKEY", "flagged"] = "u-lira_tpr_1"
    return audit


def strata():
    """The same by memorization: of one stratum an interval has no end, of another it ends beyond the axis."""
    audit = shares()
    for name, more in {"low": -20.0, "mid": 0.0, "high": 10.0, "top": 20.0}.items():
        ends = {"": 0.0, "_low": -15.0, "_high": 15.0}
        audit = audit.assign(
            **{f"share_of_{name}{end}": audit["share"] + more + off for end, off in ends.items()}
        )
    audit.loc[audit["name"] == "CF", "share_of_low_low"] = -np.inf
    audit.loc[audit["name"] == "AMUN", "share_of_low_low"] = -4000.0
    return audit


DRAWINGS = {
    "shares": lambda: forest_plot(shares()),
    "strata": lambda: strata_plot(strata()),
    "strata, none": lambda: strata_plot(shares()),
    "audit grid": lambda: grid_plot(audited()),
}
