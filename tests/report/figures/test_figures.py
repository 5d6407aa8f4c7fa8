"""Figures: they show what they were given, text is inside and apart, the same figure gives the same bytes."""

import hashlib
import importlib
import json
import re
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from munkey.report.figures import projection, theme
from munkey.report.figures.forgetting import gap_plot
from munkey.report.figures.frontier import frontier_plot
from munkey.report.figures.projection import projection_plot
from munkey.report.figures.ranks import rank_diagram
from munkey.report.tables.comparisons import compute_wilson_interval
from munkey.report.tables.frontier import collect_points
from munkey.report.tables.ranks import compute_ranks
from tests.report.designs import (
    ACCURACY_OF_ONE_SEED,
    AUDIT,
    DESIGNS,
    audit_table,
    gaps,
    method_costs,
    summary,
)
from tests.report.inputs import DOLLARS


def frontier():
    """An exact design, one that is bounded, one that over-forgets, one that an attack alone flags, an oracle."""
    rows = {
        "munkey": (1.6, -1.0, 2.2, {}),
        "cf": (-60.0, -90.0, -20.0, {}),
        "ssd": (20.0, 10.0, 30.0, {"flagged": "few"}),
    }
    return collect_points(summary(), audit_table(**AUDIT | rows), DESIGNS)


def token_panels(number, classes=3, count=30):
    """Tokens and features of samples at several epochs."""
    generator = np.random.default_rng(0)
    panels = {f"epoch {epoch}": generator.normal(size=(2, count, 2)) for epoch in range(number)}
    names = [f"class {label}" for label in range(classes)]
    return projection_plot(panels, np.arange(count) % classes, names)


ALL = {
    "frontier": lambda: frontier_plot(frontier()),
    "forgetting": lambda: gap_plot(method_costs(), "MUNKEY"),
    "forgetting, nothing to draw": lambda: gap_plot(
        method_costs().assign(gap_mean=np.nan), "MUNKEY"
    ),
    "projection": lambda: token_panels(3),
    "projection, many classes": lambda: token_panels(1, 30, 90),
    "ranks": lambda: rank_diagram(compute_ranks(gaps(10)), "b"),
}

# the figures of studies are tested too
for file in sorted((Path(__file__).parents[2] / "studies").glob("*/drawings.py")):
    ALL |= importlib.import_module(f"tests.studies.{file.parent.name}.drawings").DRAWINGS
# the SHA-256 of each as SVG when a person last looked at it
DIGESTS = json.loads(Path(__file__).with_name("drawn.json").read_text())


@pytest.mark.parametrize("name", ALL)
def test_a_figure_has_the_same_bytes_each_time_and_the_digest_of_drawn_json(name, tmp_path):
    first = save_bytes(ALL[name](), tmp_path / "a")
    figure = ALL[name]()
    assert save_bytes(figure, tmp_path / "b") == first
    assert save_bytes(figure, tmp_path / "c") == first  # saving changed nothing
    for content in first:
        assert len(content) > 5000
    if matplotlib.__version__ == DIGESTS["matplotlib"]:
        digest = hashlib.sha256((tmp_path / "a.svg").read_bytes()).hexdigest()[:16]
        assert digest == DIGESTS[name], f"look at {tmp_path}/a.png, then correct drawn.json"


def save_bytes(figure, path):
    """The bytes of all files of a figure."""
    return [file.read_bytes() for file in theme.save(figure, path)]


def test_a_name_with_dollars_is_drawn_verbatim():
    """Of a class, a data set, a method."""
    count = 30
    labels = np.arange(count) % 3
    panels = {DOLLARS: np.random.default_rng(0).normal(size=(2, count, 2))}
    classes = projection_plot(panels, labels, [DOLLARS, "b", "c"])
    methods = gap_plot(method_costs().replace("SCRUB", DOLLARS), "MUNKEY")
    for figure in (classes, methods):
        figure.draw_without_rendering()
        texts = "\n".join(text.get_text() for text in figure.findobj(Text))
        assert DOLLARS in texts


@pytest.mark.parametrize("name", ALL)
def test_all_text_is_inside_the_figure_and_large_enough(name):
    figure = ALL[name]()
    figure.draw_without_rendering()
    frame = figure.bbox.padded(1)
    texts = list_texts(figure)
    assert texts
    for text in texts:
        box = Text.get_window_extent(text)
        assert frame.x0 <= box.x0 <= box.x1 <= frame.x1, text
        assert frame.y0 <= box.y0 <= box.y1 <= frame.y1, text
        assert text.get_fontsize() >= 8


def list_texts(figure):
    """The visible texts of a figure but the labels of its ticks."""
    ticks = []
    for axes in figure.axes:
        ticks += [*axes.get_xticklabels(), *axes.get_yticklabels()]
    texts = []
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and text not in ticks:
            texts.append(text)
    return texts


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_names_beside_a_panel_are_in_the_order_of_their_lines_and_apart(places):
    heights = theme.spread_heights(np.array(places), 0.05)
    order = np.argsort(places, kind="stable")
    assert (np.diff(heights[order]) >= 0.05 - 1e-9).all()
    assert heights.min() >= 0
    assert heights.max() <= 1 + 1e-9


def test_methods_are_in_the_order_of_their_gaps_beside_their_seconds():
    later = method_costs().assign(rate=0.02, gap_mean=1.0, gap_sd=np.nan)
    gaps, seconds = gap_plot(pd.concat([later, method_costs()]), "MUNKEY").axes
    order = method_costs().sort_values("gap_mean")
    assert [label.get_text() for label in gaps.get_yticklabels()] == order["title"].tolist()
    first, second = seconds.lines
    assert first.get_xdata().tolist() == order["unlearn_s_mean"].tolist()
    assert first.get_ydata()[0] < 0 < second.get_ydata()[0]  # one rate above the other


def test_the_frontier_has_a_row_for_each_design_with_its_accuracy_and_what_is_left():
    accuracy_axes, left_axes, attack_axes = ALL["frontier"]().axes
    names = [label.get_text() for label in accuracy_axes.get_yticklabels()]
    assert names == ["MUNKEY  0.02 s", "LDA  0.02 s", "SSD  0.02 s", "CF  0.02 s", "ANEW  20 s"]
    accuracies = [mark.get_xdata()[0] for mark in list_marks(accuracy_axes)]
    assert accuracies == [95.0, 96.0, 98.3, 98.5, 99.0]
    marks = {mark.get_ydata()[0]: mark for mark in list_marks(left_axes)}
    left = {row: mark.get_xdata()[0] for row, mark in marks.items()}
    assert left == pytest.approx({0: 0.008, 1: 0.0, 2: 0.1, 3: -0.3, 4: 0.0})
    aurocs = {mark.get_ydata()[0]: mark.get_xdata()[0] for mark in list_marks(attack_axes)}
    assert aurocs == {0: 60.0, 1: 50.0, 2: 60.0, 3: 60.0, 4: 50.0}
    attack_bars = {ends[0, 1]: ends[:, 0].tolist() for ends in list_bars(attack_axes, across=1)}
    assert attack_bars[0] == [55.0, 64.0]
    shapes = [mark.get_marker() for _, mark in sorted(marks.items())]
    assert shapes == ["o", "s", "^", "^", "*"]
    hollow = [row for row, mark in marks.items() if mark.get_markerfacecolor() == "none"]
    assert hollow == [2]  # SSD, which an attack alone flags
    bars = {ends[0, 1]: ends[:, 0] for ends in list_bars(left_axes, across=1)}
    assert bars[0] == pytest.approx([0.0, 0.016])
    assert bars[3] == pytest.approx([-0.6, 0.0])


def test_designs_on_the_front_are_bold_in_its_figure():
    accuracy_axes, *_ = ALL["frontier"]().axes
    bold = []
    for label in accuracy_axes.get_yticklabels():
        if label.get_fontweight() == "bold":
            bold.append(label.get_text())
    assert bold == ["LDA  0.02 s", "CF  0.02 s"]


def test_an_unbounded_interval_ends_at_the_edge_of_the_frontier():
    rows = {"lda": AUDIT["lda"], "cf": (27.0, -np.inf, np.inf, {"p_pairs": 0.99})}
    points = collect_points(summary(), audit_table(**rows), DESIGNS)
    _, left_axes, _ = frontier_plot(points).axes
    bars = {ends[0, 1]: ends[:, 0] for ends in list_bars(left_axes, across=1)}
    assert bars[1] == pytest.approx([-0.625, 0.625])  # 1.25 times the largest contrast


def list_marks(axes):
    """The lines of a single point."""
    return [line for line in axes.lines if len(line.get_xydata()) == 1]


def list_bars(axes, across):
    """The ends of error bars that share one coordinate; across: 0 for upright, 1 for level."""
    bars = []
    for collection in axes.collections:
        for ends in collection.get_segments():
            if ends[0, across] == ends[1, across]:
                bars.append(ends)
    return bars


def test_the_bar_of_one_seed_is_the_interval_over_test_samples():
    one_seed = summary(ACCURACY_OF_ONE_SEED).assign(n=1, tested_mean=400.0)
    points = collect_points(one_seed, audit_table(**AUDIT), DESIGNS)
    accuracy_axes, *_ = frontier_plot(points).axes
    intervals = [pytest.approx(ends[:, 0]) for ends in list_bars(accuracy_axes, across=1)]
    assert list(compute_wilson_interval(96.0, 400)) in intervals


def test_ten_classes_differ_in_color_and_in_shape():
    styles = [theme.point_style(number) for number in range(100)]
    assert len({tuple(style.values()) for style in styles}) == 100
    for part in ("color", "marker"):
        assert len({style[part] for style in styles[:10]}) == 10


def test_the_svg_has_no_background_and_other_colors_on_a_dark_screen(tmp_path):
    svg, _ = theme.save(ALL["forgetting"](), tmp_path / "a")
    text = svg.read_text()
    assert "fill: #ffffff" not in text
    style = re.search("<style>@media (.*?)</style>", text)[1]
    for kind, light in re.findall(r"(fill|stroke): (#\w{6})", text.replace(style, "")):
        assert light in theme.DARK or is_seen_on_both(light), (kind, light)
        assert (
            light not in theme.DARK
            or f'[style*="{kind}: {light}"]{{{kind}:{theme.DARK[light]}!important}}' in style
        )


def is_seen_on_both(color):
    """Neither near white nor near black."""
    return 0.1 < np.dot(to_rgb(color), (0.2126, 0.7152, 0.0722)) < 0.8


@pytest.mark.ci
def test_umap_gives_the_same_plane_for_the_same_seed():
    from umap.umap_ import smooth_knn_dist
    from umap.utils import fast_knn_indices

    points = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    first = projection.umap_2d(points, 0)
    again = projection.umap_2d(points, 0)
    # What takes most of the time to compile is kept for other processes.
    assert all(function.stats.cache_path for function in (fast_knn_indices, smooth_knn_dist))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (40, 2)


@pytest.mark.parametrize("points", [np.zeros((4, 6)), np.full((5, 6), np.nan), np.zeros(30)])
def test_fewer_than_5_finite_points_are_not_projected(points):
    with pytest.raises(ValueError, match="at least 5 finite points"):
        projection.umap_2d(points, 0)


def test_the_legend_of_the_frontier_explains_each_kind_of_design():
    legend = ALL["frontier"]().legends[0]
    words = [text.get_text() for text in legend.get_texts()]
    assert words[:4] == [
        "deletes exactly",
        "deletes rows, keeps the weights",
        "changes the network",
        "retrained (reference)",
    ]
