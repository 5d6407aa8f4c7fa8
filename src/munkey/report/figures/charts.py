"""The kinds of charts: the caption, the input files and the drawing function of each.

Planning imports this module, so matplotlib is only imported when a chart is drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from munkey.core.diverged import DIVERGED, explain_divergence
from munkey.core.files import read_json, read_npz, read_table
from munkey.core.paths import Layout, fill

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPERS_METHOD = "MUNKEY"  # the title of the paper's method in all tables
TRACED = ("epoch", "P_s", "A_image", "A_token", "A_both")
# The moments of training at which a trace stores tokens and features.
MOMENTS = ("start", "middle", "end")


@dataclass(frozen=True)
class ChartSource:
    """The files and settings that a chart is drawn from.

    Attributes
    ----------
    files
        The paths of the inputs, by their names in `ChartKind.inputs`; `traces` is a list with one
        path for each seed.
    dataset
        The name of the data set that the traces belong to.
    threshold
        The pathway sensitivity above which no pair (p_image, p_token) is selected.
    """

    files: Mapping[str, Any]
    dataset: str
    threshold: float


@dataclass(frozen=True)
class ChartKind:
    """A kind of chart.

    Attributes
    ----------
    inputs
        A function that returns the input files by name, with wildcards. If any has {dataset}, there
        is a chart for each data set. Of `traces`, there is a file for each {seed}.
    """

    caption: str
    inputs: Callable[[Layout], dict[str, str]]
    draw: Callable[[ChartSource], "Figure"]


def _forgetting(source: ChartSource) -> "Figure":
    from munkey.report.figures.forgetting import gap_plot

    return gap_plot(read_table(source.files["table"]), PAPERS_METHOD)


def _neighbors(source: ChartSource) -> "Figure":
    from munkey.report.figures.curves import neighbors_plot

    table = read_table(source.files["table"])
    part = table[(table["knob"] == "inference.k") & (table["title"] == PAPERS_METHOD)]
    return neighbors_plot(part.assign(k=part["value"].astype(int)))


def _selection(source: ChartSource) -> "Figure":
    from munkey.report.figures.selection import selection_plot

    return selection_plot(read_table(source.files["table"]), source.threshold)


def _sensitivity(source: ChartSource) -> "Figure":
    import pandas as pd

    from munkey.report.figures.curves import sensitivity_plot

    diverged = _diverged(source.files["traces"])
    if diverged:
        return diverged
    traces = []
    for seed, path in enumerate(source.files["traces"]):
        trace = pd.DataFrame(read_npz(path, *TRACED))
        traces.append(trace.assign(seed=seed))
    return sensitivity_plot(pd.concat(traces).assign(dataset=source.dataset), source.threshold)


def _diverged(traces: Sequence[str]) -> "Figure | None":
    """Return a figure with the reason if a training run diverged; None if all converged."""
    from munkey.report.figures import theme

    for path in traces:
        why = explain_divergence(read_npz(path))
        if why:
            return theme.text_figure(f"Nothing to draw: {DIVERGED}, {why}")
    return None


def _tokens(source: ChartSource) -> "Figure":
    """Project tokens and features at the moments of the trace, and draw them side by side."""
    from munkey.report.figures.projection import projection_plot, umap_2d

    diverged = _diverged([source.files["trace"]])
    if diverged:
        return diverged
    trace = read_npz(source.files["trace"])
    classes = read_json(source.files["classes"])
    epochs = []
    for name in trace:
        if name.startswith("tokens_"):
            epochs.append(int(name.removeprefix("tokens_")))
    epochs.sort()
    moments = list(MOMENTS)
    if len(epochs) < len(MOMENTS):  # training for one epoch has no middle
        moments.remove("middle")
    panels = {}
    for epoch, moment in zip(epochs, moments, strict=True):
        tokens = umap_2d(trace[f"tokens_{epoch}"], seed=0)
        features = umap_2d(trace[f"features_{epoch}"], seed=0)
        panels[f"{moment} (epoch {epoch})"] = [tokens, features]
    return projection_plot(panels, trace["labels"].astype("int64"), classes)


CHARTS: dict[str, ChartKind] = {
    "forgetting": ChartKind(
        "Avg Gap, the distance to the oracle, and the seconds that unlearning takes. Bars: ± one standard deviation"
        " over seeds, cut off at 0.",
        lambda layout: {"table": fill(layout.table, table="main", ending="csv")},
        _forgetting,
    ),
    "neighbors": ChartKind(
        "Test accuracy and Avg Gap over the number of neighbors K; one model per seed, evaluated with each K. Bars: ±"
        " one standard deviation over seeds, cut off at 0.",
        lambda layout: {"table": fill(layout.table, table="ablations", ending="csv")},
        _neighbors,
    ),
    "selection": ChartKind(
        "The grid of (p_image, p_token): the pair that the selection chose is a star, (0, 0) a gray cross. The four"
        " panels in percent have the same scale.",
        lambda layout: {"table": fill(layout.selection_table, ending="csv")},
        _selection,
    ),
    "sensitivity": ChartKind(
        "Pathway sensitivity P_s and its three accuracies over the epochs of training.",
        lambda layout: {"traces": fill(layout.trace, case="{dataset}")},
        _sensitivity,
    ),
    "tokens": ChartKind(
        "UMAP of exemplar tokens (top) and [CLS] features (bottom) at the start, middle and end of training; a color"
        " and a shape for each class.",
        lambda layout: {"trace": fill(layout.trace, case="{dataset}"), "classes": layout.classes},
        _tokens,
    ),
}
CAPTIONS = {  # of all figures, also of those that have their own rules
    **{kind: chart.caption for kind, chart in CHARTS.items()},
    "ranks": "Mean ranks by Avg Gap, 1 is the best; a bar joins methods that the seeds do not tell apart.",
}


def get_caption(figure: str) -> str:
    """Return the caption of the figure with the name KIND or KIND-DATASET."""
    kind, _, dataset = figure.partition("-")
    if not dataset:
        return CAPTIONS[kind]
    return f"{CAPTIONS[kind]} Data set: {dataset}."
