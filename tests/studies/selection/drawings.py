"""Figures of the selection, drawn from made-up numbers; tests/report/figures checks them as it does all others."""

import numpy as np
import pandas as pd

from munkey.studies.selection.figure import selection_plot, sensitivity_plot


def grid():
    """The pairs of a data set; (0.3, 0.1) is chosen."""
    pairs = [(0.0, 0.0), (0.1, 0.1), (0.1, 0.3), (0.3, 0.1), (0.3, 0.3)]
    lines = []
    for p_image, p_token in pairs:
        line = {"dataset": "digits", "p_image": p_image, "p_token": p_token}
        line |= {"TA": 94 + p_image, "RA": 99 - p_token, "FA": 90 + 3 * p_image}
        line |= {"MIA": 50 + p_token, "P_s": 0.1 + p_token / 4, "gap": 1 + p_image}
        lines.append(line | {"chosen": (p_image, p_token) == (0.3, 0.1)})
    return pd.DataFrame(lines)


def training_curves(seed=0):
    """Accuracies and sensitivity over ten epochs."""
    epochs = np.arange(11)
    accuracies = {"A_image": 40 + epochs, "A_token": 60 + epochs, "A_both": 80 + epochs}
    curves = pd.DataFrame({"epoch": epochs, "P_s": epochs / 20} | accuracies)
    return curves.assign(dataset="digits", seed=seed)


DRAWINGS = {
    "pairs": lambda: selection_plot(grid(), 0.3),
    "sensitivity": lambda: sensitivity_plot(training_curves()),
}
