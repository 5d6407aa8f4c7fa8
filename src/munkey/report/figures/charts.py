"""The charts by kind: each is drawn from tables or a trace on disk."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from munkey.core.files import read_json, read_npz, read_table
from munkey.report.figures import curves, diagram, forgetting, projection, selection
from munkey.report.figures.projection import Projection, umap_2d

PAPERS_METHOD = "MUNKEY"  # the title, in every table, of the method that the paper proposes
FILES = ("table", "trace", "classes")  # the inputs that there can be
TRACED = ("epoch", "P_s", "A_image", "A_token", "A_both")
MOMENTS = ("start", "middle", "end")  # of training, at which the trace keeps tokens and features


@dataclass(frozen=True)
class Source:
    """What a chart is drawn from.

    files: paths of the inputs that this kind of chart needs, by their names in FILES; traces: those of each seed.
    dataset: that of the traces. threshold: of pathway sensitivity, above which no pair is selected.
    """

    files: Mapping[str, str]
    dataset: str | None
    threshold: float
    traces: Mapping[int, str] = field(default_factory=dict)


def _overview(_: Source) -> Figure:
    return diagram.overview()


def _forgetting(source: Source) -> Figure:
    return forgetting.draw(read_table(source.files["table"]), PAPERS_METHOD)


def _neighbors(source: Source) -> Figure:
    table = read_table(source.files["table"])
    part = table[(table["knob"] == "inference.k") & (table["title"] == PAPERS_METHOD)]
    return curves.k_curve(part.assign(k=part["value"].astype(int)))


def _selection(source: Source) -> Figure:
    return selection.draw(read_table(source.files["table"]), source.threshold)


def _sensitivity(source: Source) -> Figure:
    traces = [pd.DataFrame(read_npz(path, *TRACED)).assign(seed=seed) for seed, path in source.traces.items()]
    return curves.sensitivity(pd.concat(traces).assign(dataset=source.dataset), source.threshold)


def _tokens(source: Source) -> Figure:
    trace, classes = read_npz(source.files["trace"]), read_json(source.files["classes"])
    labels = trace["labels"].astype(np.int64)
    epochs = sorted(int(name.removeprefix("tokens_")) for name in trace if name.startswith("tokens_"))
    projections = []
    moments = MOMENTS if len(epochs) == len(MOMENTS) else MOMENTS[::2]  # one epoch has no middle
    for epoch, moment in zip(epochs, moments, strict=True):
        tokens, features = (umap_2d(trace[f"{kind}_{epoch}"], seed=0) for kind in ("tokens", "features"))
        projections.append(Projection(f"{moment} (epoch {epoch})", tokens, features, labels, classes))
    return projection.draw(projections)


CHARTS: dict[str, Callable[[Source], Figure]] = {
    "overview": _overview,
    "forgetting": _forgetting,
    "neighbors": _neighbors,
    "selection": _selection,
    "sensitivity": _sensitivity,
    "tokens": _tokens,
}
