"""Figures: they show what they were given, text is inside and apart, the same figure gives the same bytes."""

import hashlib
import importlib
import itertools
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
from munkey.report.tables.frontier import Design, collect_points
from munkey.report.tables.ranks import compute_ranks
from tests.report.tables.test_frontier import ACCURACY, AUDIT, DESIGNS, found, summary
from tests.report.tables.test_ranks import gaps

RNG = np.random.default_rng(0)


def methods():
    names = ["CF", "CF-k", "EU-k", "NegGrad+", "Amnesiac", "SCRUB", "SSD", "AMUN", "MUNKEY"]
    seconds = [6.2, 2.3, 1.9, 9.9, 5.4, 7.5, 1.0, 20.0, 0.008]
    gaps = [1.2, 1.6, 1.1, 1.9, 1.85, 1.4, 2.2, 2.6, 0.3]
    return pd.DataFrame(
        {
            "dataset": "digits",
            "rate": 0.1,
            "title": t,
            "unlearn_s_mean": s,
            "gap_mean": g,
            "gap_sd": 0.7,
            "n": 3,
        }
        for t, s, g in zip(names, seconds, gaps, strict=True)
    )


def frontier():
    """An exact design, one that is bounded, one that over-forgets, one that an attack alone flags, an oracle."""
    rows = {
        "munkey": (1.6, -1.0, 2.2, {}),
        "cf": (-60.0, -90.0, -20.0, {}),
        "ssd": (20.0, 10.0, 30.0, {"flagged": "few"}),
    }
    return collect_points(summary(), found(**AUDIT | rows), DESIGNS)


def moments(number, classes=3, count=30):
    panels = {f"epoch {epoch}": RNG.normal(size=(2, count, 2)) for epoch in range(number)}
    return projection_plot(
        panels, np.arange(count) % classes, [f"class {c}" for c in range(classes)]
    )


ALL = {
    "frontier": lambda: frontier_plot(frontier()),
    "forgetting": lambda: gap_plot(methods(), "MUNKEY"),
    "forgetting, nothing to draw": lambda: gap_plot(methods().assign(gap_mean=np.nan), "MUNKEY"),
    "projection": lambda: moments(3),
    "projection, many classes": lambda: moments(1, 30, 90),
    "ranks": lambda: rank_diagram(compute_ranks(gaps(10)), "b"),
}

# Those of studies are held to the same.
for file in sorted((Path(__file__).parents[2] / "studies").glob("*/drawings.py")):
    ALL |= importlib.import_module(f"tests.studies.{file.parent.name}.drawings").DRAWINGS
# SHA-256 of each as SVG, when somebody last looked at it.
DRAWN = json.loads(Path(__file__).with_name("drawn.json").read_text())


@pytest.mark.parametrize("name", ALL)
def test_the_same_figure_gives_the_same_bytes_and_looks_as_it_did_when_somebody_last_looked(
    name, tmp_path
):
    # of the arrays that are drawn here
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state
    first = [path.read_bytes() for path in theme.save(ALL[name](), tmp_path / "a")]
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state
    figure = ALL[name]()
    again = [path.read_bytes() for path in theme.save(figure, tmp_path / "b")]
    twice = [path.read_bytes() for path in theme.save(figure, tmp_path / "c")]
    assert first == again == twice and all(len(content) > 5000 for content in first)
    if matplotlib.__version__ == DRAWN["matplotlib"]:
        digest = hashlib.sha256((tmp_path / "a.svg").read_bytes()).hexdigest()[:16]
        assert digest == DRAWN[name], (
            f"it looks otherwise: look at {tmp_path}/a.png, then correct drawn.json"
        )


DOLLARS = r"$x$ \frac{$"  # no formula: drawn as one, it ended the run


def test_a_name_with_dollars_is_drawn_as_it_is():
    """Of a class, a data set, a method."""
    count = 30
    labels = np.arange(count) % 3
    drawn = {
        "classes": projection_plot(
            {DOLLARS: RNG.normal(size=(2, count, 2))}, labels, [DOLLARS, "b", "c"]
        ),
        "methods": gap_plot(methods().replace("SCRUB", DOLLARS), "MUNKEY"),
    }
    for name, figure in drawn.items():
        figure.draw_without_rendering()
        assert any(DOLLARS in text.get_text() for text in figure.findobj(Text)), name


@pytest.mark.parametrize("name", ALL)
def test_all_text_is_inside_the_figure_and_large_enough(name):
    figure = ALL[name]()
    figure.draw_without_rendering()
    frame = figure.bbox.padded(1)
    ticks = [
        label
        for axes in figure.axes
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels())
    ]
    texts = [
        text
        for text in figure.findobj(Text)
        if text.get_text() and text.get_visible() and text not in ticks
    ]
    assert texts
    for text in texts:
        box = Text.get_window_extent(text)
        assert (
            frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
        ), text
        assert text.get_fontsize() >= 8


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_names_beside_a_panel_are_in_the_order_of_their_lines_and_apart(places):
    heights = theme.spread_heights(np.array(places), 0.05)
    order = np.argsort(places, kind="stable")
    assert (np.diff(heights[order]) >= 0.05 - 1e-9).all()
    assert heights.min() >= 0 and heights.max() <= 1 + 1e-9


def test_methods_stand_in_the_order_of_their_gaps_beside_their_seconds():
    later = methods().assign(rate=0.02, gap_mean=1.0, gap_sd=np.nan)
    gaps, seconds = gap_plot(pd.concat([later, methods()]), "MUNKEY").axes
    order = methods().sort_values("gap_mean")
    assert [label.get_text() for label in gaps.get_yticklabels()] == order["title"].tolist()
    first, second = seconds.lines
    assert first.get_xdata().tolist() == order["unlearn_s_mean"].tolist()
    assert first.get_ydata()[0] < 0 < second.get_ydata()[0]  # one rate above the other


def test_the_front_rises_where_intervals_end_and_marks_say_what_is_over_or_without_a_bound():
    (axes,) = ALL["frontier"]().axes
    marks = {
        (line.get_marker(), *line.get_xydata()[0]): line
        for line in axes.lines
        if len(line.get_xydata()) == 1
    }
    place = np.arcsinh([0, 0, 1.6, -60, 20]).tolist()
    looks, accuracies = ["*", "s", "o", "v", "^"], [99.0, 96.0, 95.0, 98.5, 98.3]
    assert set(marks) == set(zip(looks, place, accuracies, strict=True))
    assert [look for (look, *_), line in marks.items() if line.get_markerfacecolor() == "none"] == [
        "^"
    ]
    fronts = [line for line in axes.lines if len(line.get_xydata()) > 2]
    ends = np.arcsinh([0, 90, 90, 150])
    for side, front in zip((1, -1), fronts, strict=True):
        assert front.get_xydata() == pytest.approx(
            np.stack([side * ends, [96.0, 96.0, 98.5, 98.5]], axis=1)
        )
    ticks = dict(
        zip(axes.get_xticks(), (label.get_text() for label in axes.get_xticklabels()), strict=True)
    )
    assert ticks[np.arcsinh(-100)] == "\N{MINUS SIGN}100"
    assert "below 0: over-forgotten" in " ".join(axes.get_xlabel().split())
    drawn = (
        ends for bar in axes.collections for ends in bar.get_segments() if ends[0, 1] == ends[1, 1]
    )
    bars = {ends[0, 1]: ends[:, 0] for ends in drawn}
    assert bars[95.0] == pytest.approx(np.arcsinh([-1.0, 2.2]))
    assert bars[98.5] == pytest.approx(np.arcsinh([-90, -20]))


def test_without_a_share_below_0_the_axis_begins_at_0():
    rows = {name: AUDIT[name] for name in ("lda", "munkey", "cf")}
    (axes,) = frontier_plot(collect_points(summary(), found(**rows), DESIGNS)).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "0",
        "1",
        "5",
        "20",
        "50",
        "100",
    ]
    assert axes.get_xlabel() == "residual share [%]"


def test_of_one_seed_the_vertical_line_is_the_interval_over_test_samples():
    alone = summary({name: (mean, np.nan) for name, (mean, _) in ACCURACY.items()}).assign(
        n=1, tested_mean=400.0
    )
    (axes,) = frontier_plot(collect_points(alone, found(**AUDIT), DESIGNS)).axes
    upright = (
        ends for bar in axes.collections for ends in bar.get_segments() if ends[0, 0] == ends[1, 0]
    )
    assert any(ends[:, 1] == pytest.approx(compute_wilson_interval(96.0, 400)) for ends in upright)


def leaders(axes):
    """The lines from marks to names, (n, 2, 2) in widths and heights of the plot."""
    to_plot = axes.transData + axes.transAxes.inverted()
    return np.array([[to_plot.transform(text.xy), text.xyann] for text in axes.texts])


def crossings(lines):
    """How many pairs of segments cross."""

    def side(start, end, point):
        return np.sign(np.linalg.det(np.stack([end - start, point - start])))

    pairs = itertools.combinations(lines, 2)
    return sum(
        side(*one, other[0]) * side(*one, other[1]) < 0
        and side(*other, one[0]) * side(*other, one[1]) < 0
        for one, other in pairs
    )


@pytest.mark.parametrize("seed", range(6))
def test_no_two_lines_to_names_cross(seed):
    generator = np.random.default_rng(seed)
    count = int(generator.integers(3, 20))
    names = [f"m{i}" for i in range(count)]
    accuracy = {name: (float(generator.normal(80, 8)), 0.5) for name in names}
    middles = generator.normal(0, 60, count)
    audit = found(
        **{name: (at, at - 5, at + 5, {}) for name, at in zip(names, middles, strict=True)}
    )
    designs = [Design(name, name, "weights", "") for name in names]
    (axes,) = frontier_plot(collect_points(summary(accuracy), audit, designs)).axes
    lines = leaders(axes)
    assert len(lines) == count and not crossings(lines)


def test_names_of_designs_that_are_alike_hide_neither_each_other_nor_a_mark():
    many = [(f"m{i}", 98.5 + i / 100, 60.0 + 4 * i) for i in range(8)]
    accuracy = {name: (ta, np.nan) for name, ta, _ in many} | {"lda": (92.0, 0.5)}
    audit = found(**{name: (share, share - 5, share + 5, {}) for name, _, share in many})
    designs = [
        Design(name, f"{name}, long", "exact" if name == "lda" else "weights", "")
        for name in accuracy
    ]
    (axes,) = frontier_plot(collect_points(summary(accuracy), audit, designs), theme.NARROW).axes
    axes.figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    assert len(boxes) == 9 and not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    marks = [
        axes.transData.transform(line.get_xydata()[0])
        for line in axes.lines
        if len(line.get_xydata()) == 1
    ]
    assert not any(box.contains(*mark) for box in boxes for mark in marks)


def test_ten_classes_differ_in_color_and_in_shape():
    styles = [theme.point_style(number) for number in range(100)]
    assert len({tuple(style.values()) for style in styles}) == 100
    assert all(len({style[what] for style in styles[:10]}) == 10 for what in ("color", "marker"))


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

    points = RNG.normal(size=(40, 6)).astype(np.float32)
    first, again = projection.umap_2d(points, 0), projection.umap_2d(points, 0)
    # What takes most of the time to compile is kept for other processes.
    assert all(function.stats.cache_path for function in (fast_knn_indices, smooth_knn_dist))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (40, 2)


@pytest.mark.parametrize("points", [np.zeros((4, 6)), np.full((5, 6), np.nan), np.zeros(30)])
def test_too_few_points_for_neighbors_and_what_is_not_finite_are_not_projected(points):
    with pytest.raises(ValueError, match="at least 5 finite points"):
        projection.umap_2d(points, 0)


def test_the_legend_of_the_frontier_says_what_each_kind_of_design_does():
    legend = ALL["frontier"]().legends[0]
    words = [text.get_text() for text in legend.get_texts()]
    assert words[:4] == [
        "deletes exactly",
        "deletes rows, keeps the weights",
        "changes the network",
        "retrained (reference)",
    ]
