"""The figures of the selection: its grid (fig. radar, model selection), and P_s over training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from munkey.core.files import read_npz, read_table
from munkey.report.figures import theme
from munkey.report.figures.charts import draw_divergence
from munkey.report.figures.theme import DASHES, check_frame, draw_mean_curve

METRICS = {  # one panel each
    "gap": "validation gap\n[points]",
    "P_s": "$P_s$\n(ξ dotted)",
    "TA": "TA [%]",
    "RA": "RA [%]",
    "FA": "FA [%]",
    "MIA": "MIA [%]",
}
HIGHEST = 100.0  # percent
PERCENT_METRICS = ("TA", "RA", "FA", "MIA")  # drawn to the same scale
Look = dict[str, Any]  # keyword arguments of Axes.plot
CHOSEN: Look = {"color": theme.VERMILLION, "marker": "*", "markersize": 9}
NEVER_DROPPED: Look = {"color": theme.GRAY, "marker": "X", "markersize": 5}
OTHER: Look = {"color": theme.BLUE, "marker": "o", "markersize": 5}
PATHWAYS = {
    "A_image": ("image alone", theme.ORANGE),
    "A_token": ("token alone", theme.SKY),
    "A_both": ("both", theme.BLACK),
}
TRACED = ("epoch", "P_s", "A_image", "A_token", "A_both")


@matplotlib.rc_context(theme.THEME)
def selection_plot(frame: pd.DataFrame, threshold: float) -> Figure:
    """Draw one row per pair (p_image, p_token) of a data set, and one panel per metric.

    The chosen pair, if any, is a star with a bold label, and (0, 0) is a gray cross. The axes of the
    four panels in percent have the same length. Diverged pairs are left out.

    Raises ValueError if the frame is empty.

    Parameters
    ----------
    frame
        The columns are dataset, p_image, p_token, TA, RA, FA and MIA (percent), P_s, gap (validation
        utility gap, percentage points), and chosen.
    threshold
        The paper's ξ, drawn as a dotted line.
    """
    if len(frame) and frame["gap"].isna().all():
        return theme.text_figure(f"{frame['dataset'].iloc[0]}: every pair diverged.")
    frame = frame.dropna(subset=["gap", "P_s"])
    frame = theme.check_frame(frame, list(METRICS), "pairs")
    frame = frame.sort_values(["p_image", "p_token"], ignore_index=True)
    never_dropped = (frame["p_image"] == 0) & (frame["p_token"] == 0)
    looks = []
    for is_chosen, is_never_dropped in zip(frame["chosen"], never_dropped, strict=True):
        if is_chosen:
            looks.append(CHOSEN)
        elif is_never_dropped:
            looks.append(NEVER_DROPPED)
        else:
            looks.append(OTHER)
    figure = theme.make_canvas(theme.DOUBLE, 1.1 + 0.2 * len(frame))
    panels = figure.subplots(1, len(METRICS), sharey=True)
    percentages = frame[list(PERCENT_METRICS)]
    span = 1.3 * float((percentages.max() - percentages.min()).max())
    if span == 0:  # all pairs have the same values
        span = 1.0
    for axes, (name, title) in zip(panels, METRICS.items(), strict=True):
        for place, (value, look) in enumerate(zip(frame[name], looks, strict=True)):
            axes.plot(value, place, linestyle="none", **look)
        axes.margins(x=0.2)
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.grid(color=theme.BAND, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(title, parse_math=True)
        if name in PERCENT_METRICS:
            middle = (frame[name].min() + frame[name].max()) / 2
            # Percentages do not exceed 100, but the mark of one at 100 needs some space.
            high = min(middle + span / 2, HIGHEST + 0.05 * span)
            axes.set_xlim(high - span, high)
            ticks = MaxNLocator(3).tick_values(high - span, high)
            is_inside = (ticks >= high - span) & (ticks <= min(high, HIGHEST))
            axes.set_xticks(ticks[is_inside])
    # Pairs to the right of the threshold cannot be chosen. P_s rarely exceeds 1, so a threshold above
    # 1 is not shown.
    panels[1].set_xlim(0, 1.15 * max(frame["P_s"].max(), min(threshold, 1.0)))
    panels[1].axvline(threshold, color=theme.BLACK, linestyle=":", linewidth=1)
    names = [f"{pair['p_image']:g}, {pair['p_token']:g}" for _, pair in frame.iterrows()]
    panels[0].set_yticks(range(len(frame)), names)
    panels[0].set_ylim(len(frame) - 0.5, -0.5)
    panels[0].set_ylabel("$p_{image}$, $p_{token}$", parse_math=True)
    for label, is_chosen in zip(panels[0].get_yticklabels(), frame["chosen"], strict=True):
        if is_chosen:
            label.set_fontweight("bold")
    title = str(frame["dataset"].iloc[0])
    if not frame["chosen"].any():
        title += ": no pair passes"
    figure.suptitle(title, fontsize=8)
    return theme.freeze(figure)


@matplotlib.rc_context(theme.THEME)
def sensitivity_plot(frame: pd.DataFrame, threshold: float = 0.3) -> Figure:
    """Draw pathway sensitivity P_s and the pathways' accuracies over training (sec. 3).

    Each data set has a row of panels. Lines are means over seeds; bands are ± one standard
    deviation.

    Raises ValueError if the frame is empty or contains NaN.

    Parameters
    ----------
    frame
        The columns are dataset, seed, epoch, P_s, and A_image, A_token and A_both in percent.
    threshold
        The paper's ξ, drawn as a dotted line.
    """
    frame = check_frame(frame, ["P_s", *PATHWAYS], "sensitivity")
    datasets = sorted(frame["dataset"].unique())
    figure = theme.make_canvas(theme.DOUBLE, 2.5 * len(datasets))
    grid = figure.subplots(len(datasets), 2, squeeze=False)
    for dataset, (sensitivity, accuracy) in zip(datasets, grid, strict=True):
        epochs = frame[frame["dataset"] == dataset].groupby("epoch")
        draw_mean_curve(
            sensitivity,
            epochs["P_s"],
            theme.BLUE,
            band_alpha=0.2,
            linestyle=DASHES[0],
            label="$P_s$",
        )
        label = f"ξ = {threshold}, not selected above"
        sensitivity.axhline(threshold, color=theme.BLACK, linestyle=":", linewidth=1, label=label)
        sensitivity.set_xlabel("epoch")
        sensitivity.set_ylabel("pathway sensitivity $P_s$ (no unit)", parse_math=True)
        sensitivity.set_ylim(0, max(1.15 * sensitivity.get_ylim()[1], 1.3 * threshold))
        for text in sensitivity.legend(loc="best").get_texts():
            text.set_parse_math(True)
        for dashes, column in zip(DASHES, PATHWAYS, strict=False):  # there are more dash styles
            title, color = PATHWAYS[column]
            draw_mean_curve(
                accuracy,
                epochs[column],
                color,
                top=100,
                band_alpha=0.2,
                linestyle=dashes,
                label=title,
            )
        accuracy.set(xlabel="epoch", ylabel="training accuracy [%]", ylim=(0, 104))
        accuracy.legend(loc="best")
        sensitivity.set_title(str(dataset), loc="left", fontweight="bold")
    figure.supxlabel(theme.describe_seeds(frame.groupby("dataset")["seed"].nunique()), fontsize=8)
    return theme.freeze(figure)


def selection_figure(table: Path, svg: Path, threshold: float) -> None:
    """Draw the grid of a data set."""
    theme.save(selection_plot(read_table(table), threshold), svg.with_suffix(""))


def sensitivity_figure(traces: Sequence[Path], svg: Path, dataset: str, threshold: float) -> None:
    """Draw P_s over training, from one trace for each seed."""
    figure = draw_divergence(traces)
    if figure is None:
        parts = []
        for seed, path in enumerate(traces):
            parts.append(pd.DataFrame(read_npz(path, *TRACED)).assign(seed=seed))
        figure = sensitivity_plot(pd.concat(parts).assign(dataset=dataset), threshold)
    theme.save(figure, svg.with_suffix(""))
