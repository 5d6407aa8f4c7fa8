"""From arrays and frames to the paper's charts. Nothing here reads a file; style.save writes the result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter
from matplotlib.transforms import Bbox

from munkey.labelling import label_points
from munkey.style import (
    BLACK,
    BLUE,
    DASHES,
    DOUBLE,
    GREEN,
    GREY,
    MARKERS,
    ORANGE,
    PALETTE,
    SKY,
    STYLE,
    VERMILLION,
    canvas,
    checked,
    freeze,
    seeds,
)

OWN_POINT: Any = {"marker": "*", "markersize": 11, "color": VERMILLION, "elinewidth": 1.2, "zorder": 4}
OTHER_POINT: Any = {"marker": "o", "markersize": 4, "color": BLUE, "ecolor": "#9db8cc", "elinewidth": 0.8, "zorder": 3}
LEGEND_CLASSES = 20  # more classes than this get a colour bar
AXES_OF_RADAR = ("TA", "RA", "FA", "MIA", "balance")


@dataclass(frozen=True)
class Projection:
    """One moment of training: tokens and features (N, 2) in the plane, labels (N,) as indices into classes."""

    title: str
    tokens: np.ndarray
    features: np.ndarray
    labels: np.ndarray
    classes: list[str]


def umap_2d(points: np.ndarray, seed: int) -> np.ndarray:
    """UMAP of points (N, d) to (N, 2) float32; the same seed gives the same result on one machine.

    Raises ValueError for fewer than 5 points (UMAP needs neighbours) or values that are not finite.
    """
    if points.ndim != 2 or len(points) < 5 or not np.isfinite(points).all():
        raise ValueError(f"UMAP needs at least 5 finite points as (N, d), got shape {points.shape}")
    from umap import UMAP  # takes many seconds the first time: it compiles

    neighbors = min(15, len(points) - 1)
    return np.asarray(UMAP(n_neighbors=neighbors, random_state=seed, n_jobs=1).fit_transform(points), dtype=np.float32)


@matplotlib.rc_context(STYLE)
def projection(panels: Sequence[Projection]) -> Figure:
    """Exemplar tokens (top) and [CLS] features (bottom), a column per moment, coloured by class (fig. UMAP).

    Each panel is a projection of its own: positions compare within a panel, not between panels. Up to 20 classes get
    a colour and a marker each, more get a colour bar. Raises ValueError for no panels or arrays that do not match.
    """
    if not panels:
        raise ValueError("projection: no panels, so there is nothing to draw")
    for panel in panels:
        _check_projection(panel)
    classes = panels[0].classes
    columns = max(len(panels), 2)
    figure = canvas(min(DOUBLE, 0.6 + 2.1 * columns), 4.6 if len(classes) <= LEGEND_CLASSES else 4.2)
    grid = figure.subplots(2, len(panels), squeeze=False)
    for column, panel in enumerate(panels):
        for axes, points in zip(grid[:, column], (panel.tokens, panel.features), strict=True):
            _scatter(axes, points, panel.labels, len(classes))
        grid[0, column].set_title(panel.title)
        grid[1, column].set_xlabel("UMAP 1 (no unit)")
    grid[0, 0].set_ylabel("exemplar tokens\nUMAP 2 (no unit)")
    grid[1, 0].set_ylabel("[CLS] features\nUMAP 2 (no unit)")
    told = f"class (N = {len(panels[0].labels)} samples)"
    if len(classes) <= LEGEND_CLASSES:
        marks = [_class_style(i) for i in range(len(classes))]
        handles = [Line2D([], [], linestyle="", markersize=4.5, marker=m, color=c) for c, m in marks]
        fitting = int(16 * figure.get_figwidth() / (max(map(len, classes)) + 5))
        figure.legend(handles, classes, title=told, loc="outside lower center", handletextpad=0.1,
                      columnspacing=1.2, ncols=max(1, min(len(classes), fitting)))  # fmt: skip
    else:
        mapped = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(0, len(classes) - 1), "viridis")
        figure.colorbar(mapped, ax=grid, label=f"index of the {told}", aspect=40)
    return freeze(figure)


def _check_projection(panel: Projection) -> None:
    shape = (len(panel.labels), 2)
    if not len(panel.labels) or panel.tokens.shape != shape or panel.features.shape != shape:
        raise ValueError(f"projection {panel.title!r}: tokens {panel.tokens.shape} and features {panel.features.shape} "
                         f"must be (N, 2) with N = {len(panel.labels)} labels, N > 0")  # fmt: skip
    if not (np.isfinite(panel.tokens).all() and np.isfinite(panel.features).all()):
        raise ValueError(f"projection {panel.title!r}: positions hold NaN or infinite values")
    if panel.labels.min() < 0 or panel.labels.max() >= len(panel.classes):
        raise ValueError(f"projection {panel.title!r}: labels go beyond the {len(panel.classes)} classes")


def _class_style(label: int) -> tuple[str, str]:
    return PALETTE[label % len(PALETTE)], MARKERS[label % len(MARKERS)]


def _scatter(axes: Axes, points: np.ndarray, labels: np.ndarray, classes: int) -> None:
    size = float(np.clip(6000 / len(points), 1, 10))
    raster = len(points) > 5000  # tens of thousands of vector marks make an SVG that no browser opens
    if classes > LEGEND_CLASSES:
        axes.scatter(
            points[:, 0],
            points[:, 1],
            s=size,
            c=labels,
            cmap="viridis",
            vmin=0,
            vmax=classes - 1,
            lw=0,
            rasterized=raster,
        )
    else:
        for label in np.unique(labels):
            colour, marker = _class_style(int(label))
            own = points[labels == label]
            axes.scatter(own[:, 0], own[:, 1], s=size, color=colour, marker=marker, lw=0, alpha=0.8, rasterized=raster)
    axes.set(xticks=[], yticks=[])


@matplotlib.rc_context(STYLE)
def k_curve(frame: pd.DataFrame) -> Figure:
    """Test accuracy and Avg Gap over the number of neighbours K, a line per data set (fig. ablation-knn).

    Columns: dataset, k, TA_mean, TA_sd, gap_mean, gap_sd (percent, points), n. A standard deviation may be NaN (one
    seed): then no bar. Raises ValueError for an empty frame, lacking columns, NaN means or K < 1.
    """
    numbers = ["k", "TA_mean", "gap_mean", "n"]
    frame = checked(frame, ["dataset", *numbers, "TA_sd", "gap_sd"], numbers, "k_curve")
    if (frame["k"] < 1).any():
        raise ValueError("k_curve: K counts neighbours and so is at least 1")
    figure = canvas(DOUBLE, 2.6)
    panels = {"TA": "test accuracy [%]", "gap": "Avg Gap [percentage points]"}
    for axes, (metric, title) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        for place, (dataset, part) in enumerate(frame.sort_values("k").groupby("dataset", sort=True)):
            colour, marker = _class_style(place)
            axes.errorbar(part["k"], part[f"{metric}_mean"], part[f"{metric}_sd"].fillna(0), color=colour, capsize=2,
                          marker=marker, linestyle=DASHES[place % len(DASHES)], label=str(dataset))  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(sorted(frame["k"].unique())))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(xlabel="K, neighbours per query", ylabel=title)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=min(len(names), 4))
    figure.supxlabel(f"mean ± standard deviation over {seeds(frame['n'])} seeds", fontsize=8)
    return freeze(figure)


@matplotlib.rc_context(STYLE)
def radar(frame: pd.DataFrame) -> Figure:
    """Metrics under each pair of dropout probabilities of one data set (fig. radar, model selection).

    Columns: dataset, p_image, p_token, TA, RA, FA, MIA (percent), P_s, gap (validation utility gap, points), chosen.
    Axes: TA, RA, FA, MIA and 100 (1 - P_s), each from the lowest to the highest value of the grid plus 10 %. The
    chosen pair is dashed black, (0, 0) grey. Raises ValueError for an empty frame, NaN, several data sets, or not
    exactly one chosen pair.
    """
    numbers = ["p_image", "p_token", "TA", "RA", "FA", "MIA", "P_s", "gap"]
    frame = checked(frame, ["dataset", *numbers, "chosen"], numbers, "radar")
    if frame["dataset"].nunique() != 1 or frame["chosen"].sum() != 1:
        raise ValueError("radar: one data set and exactly one chosen pair (p_image, p_token) are needed")
    frame = frame.assign(balance=100 * (1 - frame["P_s"])).sort_values(["chosen", "p_image", "p_token"])
    values = frame[list(AXES_OF_RADAR)].to_numpy(dtype=float)
    low, high = values.min(axis=0), values.max(axis=0)
    pad = np.maximum(0.1 * (high - low), 0.05)  # the floor: an axis on which all are equal
    scaled = (values - (low - pad)) / (high - low + 2 * pad)
    figure = canvas(DOUBLE, max(3.4, 0.5 + 0.17 * len(frame)))
    axes = figure.add_subplot(projection="polar")
    angles = 2 * np.pi * np.arange(len(AXES_OF_RADAR)) / len(AXES_OF_RADAR)
    free = 0
    for (_, row), radii in zip(frame.iterrows(), scaled, strict=True):
        start = row["p_image"] == 0 and row["p_token"] == 0
        if row["chosen"]:
            look: dict[str, Any] = {"color": BLACK, "linestyle": "--", "linewidth": 1.8, "zorder": 4.0}
        elif start:
            look = {"color": GREY, "linestyle": "-", "linewidth": 1.8, "zorder": 3.0}
        else:
            look = {
                "color": PALETTE[free % 6],
                "linestyle": DASHES[(free // 6 + free) % 4],
                "linewidth": 1.0,
                "marker": MARKERS[free % 7],
            }
            free += 1
        text = f"({row['p_image']:g}, {row['p_token']:g})  gap {row['gap']:.2f}  $P_s$ {row['P_s']:.3f}"
        text += "  chosen" if row["chosen"] else ""
        axes.plot([*angles, angles[0]], [*radii, radii[0]], label=text, **look)
    _radar_frame(axes, angles, low - pad, high + pad)
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, title="$(p_i, p_t)$, utility gap [points], sensitivity", loc="outside right center")
    axes.set_title(str(frame["dataset"].iloc[0]), pad=14)
    return freeze(figure)


def _radar_frame(axes: Axes, angles: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Spokes up, the range of each at its end."""
    titles = {"balance": r"$100\,(1-P_s)$"}
    ends = [
        f"{titles.get(name, name + ' [%]')}\n{a:.1f} to {b:.1f}"
        for name, a, b in zip(AXES_OF_RADAR, low, high, strict=True)
    ]
    axes.set_theta_zero_location("N")  # type: ignore[attr-defined]  # polar axes have it
    axes.set_xticks(angles, ends)
    axes.tick_params(axis="x", pad=18)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], [])
    axes.set_ylim(0, 1)
    axes.grid(color="#cccccc", linewidth=0.5)


@matplotlib.rc_context(STYLE)
def forgetting_against_utility(frame: pd.DataFrame, emphasised: str = "MUNKEY") -> Figure:
    """Seconds to unlearn against Avg Gap, a named point per method, a panel per (dataset, rate).

    Columns: dataset, rate, title, unlearn_s_mean, gap_mean, gap_sd, n, as tables.summarise returns them. Rows without a
    time (originals) or without a gap (oracles, KNN) are no points. Error bars end at 0, which no gap passes; the gap's
    axis is in square roots, so that one failed method does not press all others together. Raises ValueError where no
    row is left or a time is not positive.
    """
    columns = ["dataset", "rate", "title", "unlearn_s_mean", "gap_mean", "gap_sd", "n"]
    frame = checked(frame, columns, ["n"], "forgetting_against_utility")
    frame = checked(frame.dropna(subset=["unlearn_s_mean", "gap_mean"]), columns, ["unlearn_s_mean", "gap_mean"],
                    "forgetting_against_utility, rows with both a time and a gap")  # fmt: skip
    if (frame["unlearn_s_mean"] <= 0).any():
        raise ValueError("forgetting_against_utility: times must be positive, the axis is logarithmic")
    datasets, rates = sorted(frame["dataset"].unique()), sorted(frame["rate"].unique(), reverse=True)
    figure = canvas(DOUBLE if len(rates) > 1 else 4.5, 3.0 * len(datasets))
    grid = figure.subplots(len(datasets), len(rates), squeeze=False)
    drawn = []
    for (row, column), axes in np.ndenumerate(grid):
        part = frame[(frame["dataset"] == datasets[row]) & (frame["rate"] == rates[column])]
        axes.set_visible(not part.empty)
        if not part.empty:
            _points(axes, part, emphasised)
            axes.set_title(f"{datasets[row]}, {100 * rates[column]:g} % forgotten, {seeds(part['n'])}", loc="left")
            axes.set_title("↙ better", loc="right", fontweight="bold", color=GREEN)
            drawn.append((axes, part))
    freeze(figure)
    for axes, part in drawn:
        label_points(axes, part["unlearn_s_mean"].tolist(), part["gap_mean"].tolist(), part["title"].tolist(),
                     _obstacles(axes, part), emphasised)  # fmt: skip
    return figure


def _points(axes: Axes, part: pd.DataFrame, emphasised: str) -> None:
    top = (part["gap_mean"] + part["gap_sd"].fillna(0)).max()
    for _, row in part.iterrows():
        own = row["title"] == emphasised
        spread = 0.0 if pd.isna(row["gap_sd"]) else row["gap_sd"]
        below = [[min(spread, row["gap_mean"])], [spread]]
        axes.errorbar(row["unlearn_s_mean"], row["gap_mean"], below, **(OWN_POINT if own else OTHER_POINT))
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_yscale("function", functions=(lambda gap: np.sqrt(np.maximum(gap, 0)), np.square))
    axes.set_ylim(0, 1.15 * top + 0.2)
    axes.yaxis.set_major_locator(
        FixedLocator([tick for tick in (0, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if tick <= 1.15 * top + 0.2])
    )
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.set(xlabel="time to unlearn [s]", ylabel="Avg Gap [percentage points],\nsquare-root scale")


def _obstacles(axes: Axes, part: pd.DataFrame) -> list[Bbox]:
    """Boxes in pixels around markers and error bars."""
    boxes = []
    spread = part["gap_sd"].fillna(0)
    ends = zip(
        part["unlearn_s_mean"],
        part["gap_mean"],
        (part["gap_mean"] - spread).clip(lower=0),
        part["gap_mean"] + spread,
        strict=True,
    )
    for x, y, bottom, top in ends:
        (px, low), (_, middle), (_, high) = axes.transData.transform([(x, bottom), (x, y), (x, top)])
        boxes += [
            Bbox.from_extents(px - 2, low, px + 2, high),
            Bbox.from_extents(px - 7, middle - 7, px + 7, middle + 7),
        ]
    return boxes


@matplotlib.rc_context(STYLE)
def sensitivity(frame: pd.DataFrame, threshold: float = 0.3) -> Figure:
    """Pathway sensitivity P_s and the accuracies of the pathways over training, a row per data set (sec. Methods).

    Columns: dataset, seed, epoch, P_s, A_image, A_token, A_both (percent). Lines are means over seeds, bands one
    standard deviation. Raises ValueError for an empty frame, lacking columns or NaN.
    """
    numbers = ["epoch", "P_s", "A_image", "A_token", "A_both"]
    frame = checked(frame, ["dataset", "seed", *numbers], numbers, "sensitivity")
    datasets = sorted(frame["dataset"].unique())
    figure = canvas(DOUBLE, 2.5 * len(datasets))
    grid = figure.subplots(len(datasets), 2, squeeze=False)
    paths = {"A_image": "image alone", "A_token": "token alone", "A_both": "both"}
    for (left, right), dataset in zip(grid, datasets, strict=True):
        part = frame[frame["dataset"] == dataset]
        _over_epochs(left, part, "P_s", "$P_s$", BLUE, 0)
        left.axhline(threshold, color=BLACK, linestyle=":", linewidth=1, label=f"ξ = {threshold}, not selected above")
        left.set(xlabel="epoch", ylabel="pathway sensitivity $P_s$ (no unit)")
        left.set_ylim(0, max(1.15 * left.get_ylim()[1], 1.3 * threshold))
        for place, (name, title) in enumerate(paths.items()):
            _over_epochs(right, part, name, title, (ORANGE, SKY, BLACK)[place], place)
        right.set(xlabel="epoch", ylabel="training accuracy [%]", ylim=(0, 104))
        number = part["seed"].nunique()
        left.set_title(f"{dataset}, n = {number} seed{'s' * (number > 1)}", loc="left")
        for axes in (left, right):
            axes.legend(loc="best")
    return freeze(figure)


def _over_epochs(axes: Axes, part: pd.DataFrame, column: str, title: str, colour: str, place: int) -> None:
    values = part.groupby("epoch")[column].agg(["mean", "std"]).fillna({"std": 0.0})
    axes.plot(values.index, values["mean"], color=colour, marker=MARKERS[place], linestyle=DASHES[place], label=title)
    axes.fill_between(
        values.index, values["mean"] - values["std"], values["mean"] + values["std"], color=colour, alpha=0.2, lw=0
    )
