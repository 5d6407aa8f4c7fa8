"""Figures of the selection, drawn from made-up numbers; tests/report/figures checks them as it does all others."""

import numpy as np
import pandas as pd

from munkey.studies.selection.figure import selection_plot, sensitivity_plot


def grid():
    pairs = [(0.0, 0.0), (0.1, 0.1), (0.1, 0.3), (0.3, 0.1), (0.3, 0.3)]
    return pd.DataFrame(
        {
            "dataset": "digits",
            "p_image": i,
            "p_token": t,
            "TA": 94 + i,
            "RA": 99 - t,
            "FA": 90 + 3 * i,
            "MIA": 50 + t,
        }
        | {"P_s": 0.1 + t / 4, "gap": 1 + i, "chosen": (i, t) == (0.3, 0.1)}
        for i, t in pairs
    )


def training(seed=0):
    epochs = np.arange(11)
    accuracies = {"A_image": 40 + epochs, "A_token": 60 + epochs, "A_both": 80 + epochs}
    return pd.DataFrame(
        {"dataset": "digits", "seed": seed, "epoch": epochs, "P_s": epochs / 20} | accuracies
    )


DRAWINGS = {
    "pairs": lambda: selection_plot(grid(), 0.3),
    "sensitivity": lambda: sensitivity_plot(training()),
}
