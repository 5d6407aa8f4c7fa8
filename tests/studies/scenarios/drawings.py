"""A figure of scenarios, drawn from made-up numbers; tests/report/figures checks it as it does all others."""

import itertools

import numpy as np
import pandas as pd

from munkey.report.tables.summary import Row
from munkey.studies.scenarios.figure import scenarios_plot


def tow_table():
    """ToW of two methods at two rates after two requests; one method lacks the last."""
    lines = itertools.product(("scenario/class", "scenario/cluster"), (0.1, 0.02), ("b", "d"))
    frame = pd.DataFrame(lines, columns=["case", "rate", "method"])
    return frame.assign(ToW=np.linspace(0.4, 0.95, 8), ToW_sd=np.linspace(0.01, 0.1, 8), n=3)[:-1]


DRAWINGS = {
    "scenarios": lambda: scenarios_plot(tow_table(), [Row("b", "B", "o"), Row("d", "D", "o")])
}
