"""A figure of ablations, drawn from made-up numbers; tests/report/figures checks it as it does all others."""

import numpy as np
import pandas as pd

from munkey.studies.ablations.figure import neighbors_plot


def curve():
    return pd.DataFrame(
        {
            "dataset": d,
            "k": k,
            "TA_mean": 90 + k / 8,
            "TA_sd": 0.5,
            "gap_mean": 1 + k / 16,
            "gap_sd": np.nan,
            "n": 3,
        }
        for d in ("digits", "other")
        for k in (1, 2, 4, 32)
    )


DRAWINGS = {"k_curve": lambda: neighbors_plot(curve())}
