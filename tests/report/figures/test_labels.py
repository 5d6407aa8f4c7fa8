"""Names beside points: apart from one another and from what is there, and with a line where they are far away."""

import numpy as np
import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from munkey.report.figures.labels import Named, Obstacles, label_points
from munkey.report.figures.theme import canvas, freeze


def axes():
    figure = canvas(4, 4)
    drawn = figure.add_subplot()
    drawn.set(xlim=(0, 1), ylim=(0, 1))
    freeze(figure)
    return drawn


def boxes(labels):
    return [Text.get_window_extent(label) for label in labels]  # without the line to the point


@pytest.mark.parametrize("count", [1, 5, 12])
def test_names_of_a_crowd_lie_apart_and_inside_the_frame(count):
    drawn, rng = axes(), np.random.default_rng(0)
    xs, ys = (0.5 + 0.02 * rng.normal(size=(2, count))).tolist()
    labels = label_points(
        drawn, [Named(f"method {n}", *at) for n, at in enumerate(zip(xs, ys, strict=True))], Obstacles([])
    )
    extents = boxes(labels)
    assert not any(a.overlaps(b) for i, a in enumerate(extents) for b in extents[:i])
    assert all(drawn.bbox.x0 <= box.x0 and box.x1 <= drawn.bbox.x1 for box in extents)


def test_only_a_name_that_is_far_away_has_a_line_to_its_point():
    alone = label_points(axes(), [Named("alone", 0.5, 0.5)], Obstacles([]))
    assert not alone[0].arrow_patch.get_visible()
    crowd = label_points(axes(), [Named(f"method {n}", 0.5, 0.5) for n in range(12)], Obstacles([]))
    assert {label.arrow_patch.get_visible() for label in crowd} == {True, False}


def test_names_keep_off_obstacles_and_one_may_be_bold():
    drawn = axes()
    x, y = drawn.transData.transform((0.5, 0.5))
    wall = Bbox.from_extents(x, y - 100, x + 150, y + 100)
    first, second = label_points(drawn, [Named("a", 0.5, 0.5), Named("b", 0.1, 0.1)], Obstacles([wall]), bold="b")
    assert not Text.get_window_extent(first).overlaps(wall)
    assert (first.get_fontweight(), second.get_fontweight()) == ("normal", "bold")


def test_a_name_at_the_edge_stays_inside():
    drawn = axes()
    (label,) = label_points(drawn, [Named("a long name", 1.0, 1.0)], Obstacles([]))
    box = Text.get_window_extent(label)
    assert box.x1 <= drawn.bbox.x1 and box.y1 <= drawn.bbox.y1
