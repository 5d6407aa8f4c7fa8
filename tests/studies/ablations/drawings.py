"""A figure of ablations, drawn from made-up numbers; tests/report/figures checks it as it does all others."""

import numpy as np
import pandas as pd

from munkey.studies.ablations.figure import neighbors_plot


def neighbor_curves():
    """Accuracy and gap of two data sets over the number of neighbors."""
    lines = [(dataset, k) for dataset in ("digits", "other") for k in (1, 2, 4, 32)]
    curves = pd.DataFrame(lines, columns=["dataset", "k"])
    curves = curves.assign(TA_mean=90 + curves["k"] / 8, TA_sd=0.5)
    return curves.assign(gap_mean=1 + curves["k"] / 16, gap_sd=np.nan, n=3)


DRAWINGS = {"k_curve": lambda: neighbors_plot(neighbor_curves())}
