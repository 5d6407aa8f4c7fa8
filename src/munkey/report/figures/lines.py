"""Figures with a line for each system: its name at the left, then a panel, then one with its seconds."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from munkey.report.figures.theme import BAND

HEIGHT = 0.24  # of a line, inches
WIDTHS = (3, 2)  # of the two panels


def name(axes: Axes, names: Sequence[str], emphasized: str = "") -> None:
    """Write the names, the first at the top; one may stand out."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == emphasized else "normal")


def measure_seconds(axes: Axes, label: str) -> None:
    """Make this the panel of the seconds, on a logarithmic axis."""
    axes.set(xscale="log", xlabel=label)
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(LogLocator(numticks=10))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color=BAND, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.spines["left"].set_visible(False)
