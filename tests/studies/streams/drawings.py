"""A figure of streams, drawn from made-up numbers; tests/report/figures checks it as it does all others."""

import itertools

import numpy as np
import pandas as pd

from munkey.studies.streams.figure import streams_plot


def stream_curves():
    """Four requests, three seeds: two methods, and a retrained model at the first and the last request."""
    lines = itertools.product(range(3), range(5), ("MUNKEY", "SCRUB", "Retrain"))
    curves = pd.DataFrame(lines, columns=["seed", "done", "title"])
    curves = curves.assign(TA=np.linspace(90, 60, 45), seconds=np.geomspace(0.1, 2000, 45))
    is_drawn = (curves["title"] != "Retrain") | curves["done"].isin([1, 4])
    lines = itertools.product(range(1, 5), ("MUNKEY", "SCRUB"), (0, 1))
    shares = pd.DataFrame(lines, columns=["done", "title", "request"])
    return curves[is_drawn], shares.assign(share=np.linspace(-200, 300, 16))


def many_streams(count):
    """Methods over three requests; the shares of all but the first lie far beyond 100% on either side."""
    titles = [f"method {number}" for number in range(count)]
    lines = itertools.product(titles, range(4))
    curves = pd.DataFrame(lines, columns=["title", "done"]).assign(seed=0, TA=90.0, seconds=1.0)
    shares = curves[curves["done"] > 0].assign(request=0)
    return curves, shares.assign(share=np.linspace(-4000, 3000, len(shares)))


DRAWINGS = {"streams": lambda: streams_plot(*stream_curves())}
