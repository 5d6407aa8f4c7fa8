"""The registry of charts: the caption, the input files and the drawing function of each kind.

Planning imports this module, so the drawing functions import heavy libraries only when called.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from munkey.core.diverged import DIVERGED, explain_divergence
from munkey.core.files import read_json, read_npz, read_table
from munkey.core.paths import Layout, fill

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPERS_METHOD = "MUNKEY"  # the title of the paper's method in all tables
# The moments of training at which a trace records tokens and features.
MOMENTS: tuple[str, ...] = ("start", "middle", "end")


@dataclass(frozen=True)
class ChartSource:
    """The files and settings that a chart is drawn from.

    Attributes
    ----------
    files
        The input paths by their names in `ChartKind.inputs`.
    dataset
        The name of the traces' data set.
    """

    files: Mapping[str, Any]
    dataset: str


@dataclass(frozen=True)
class ChartKind:
    """A kind of chart.

    Attributes
    ----------
    inputs
        A function that returns the input paths by name, with unfilled wildcards {dataset} and
        {seed}, which is the first seed. If they contain {dataset}, one chart is drawn per data set.
    draw
        The drawing function.
    """

    caption: str
    inputs: Callable[[Layout], dict[str, str]]
    draw: Callable[[ChartSource], "Figure"]


def _draw_forgetting(source: ChartSource) -> "Figure":
    from munkey.report.figures.forgetting import gap_plot

    return gap_plot(read_table(source.files["table"]), PAPERS_METHOD)


def draw_divergence(traces: Sequence[str | Path]) -> "Figure | None":
    """Return a figure that states why a training run diverged, or None if none did."""
    from munkey.report.figures import theme

    for path in traces:
        why = explain_divergence(read_npz(path))
        if why:
            return theme.text_figure(f"Nothing to draw: {DIVERGED}, {why}")
    return None


def _draw_tokens(source: ChartSource) -> "Figure":
    """Draw projections of tokens and features at several moments of training."""
    from munkey.report.figures.projection import projection_plot, umap_2d

    divergence_figure = draw_divergence([source.files["trace"]])
    if divergence_figure:
        return divergence_figure
    trace = read_npz(source.files["trace"])
    classes = read_json(source.files["classes"])
    epochs = []
    for name in trace:
        if name.startswith("tokens_"):
            epochs.append(int(name.removeprefix("tokens_")))
    epochs.sort()
    if len(epochs) < len(MOMENTS):  # a single epoch has no middle
        moments: tuple[str, ...] = ("start", "end")
    else:
        moments = MOMENTS
    panels = {}
    for epoch, moment in zip(epochs, moments, strict=True):
        tokens = umap_2d(trace[f"tokens_{epoch}"], seed=0)
        features = umap_2d(trace[f"features_{epoch}"], seed=0)
        panels[f"{moment} (epoch {epoch})"] = [tokens, features]
    return projection_plot(panels, trace["labels"].astype("int64"), classes)


CHARTS: dict[str, ChartKind] = {
    "forgetting": ChartKind(
        "Avg Gap, the distance to the oracle, and how many seconds unlearning takes. Bars: ± one standard deviation"
        " over seeds, cut off at 0.",
        lambda layout: {"table": fill(layout.table, table="main", ending="csv")},
        _draw_forgetting,
    ),
    "tokens": ChartKind(
        "UMAP of exemplar tokens (top) and [CLS] features (bottom) at the start, middle and end of training. Each class"
        " has its own color and shape.",
        lambda layout: {"trace": fill(layout.trace, case="{dataset}"), "classes": layout.classes},
        _draw_tokens,
    ),
}
CAPTIONS = {  # of all figures, including those that have their own rules
    **{kind: chart.caption for kind, chart in CHARTS.items()},
    "ranks": "Mean ranks by Avg Gap; 1 is best. Bars connect methods that do not differ significantly over the seeds.",
}


def get_caption(figure: str) -> str:
    """Return the caption of the figure named KIND or KIND-DATASET."""
    kind, _, dataset = figure.partition("-")
    if not dataset:
        return CAPTIONS[kind]
    return f"{CAPTIONS[kind]} Data set: {dataset}."
