"""The figure of streams."""

import numpy as np

from munkey.studies.streams.figure import streams_plot
from tests.studies.streams.drawings import many_streams


def test_of_fourteen_streams_no_two_look_alike_each_is_named_and_no_mark_is_cut_off():
    """The failure: two of twelve lines were of one blue, and shares below -150 were cut off."""
    accuracy, seconds, left = streams_plot(*many_streams(14)).axes
    looks = [(line.get_color(), line.get_marker()) for line in seconds.lines]
    assert len({color for color, _ in looks}) == len({marker for _, marker in looks}) == 14
    low, high = left.get_ylim()
    drawn = np.concatenate([line.get_ydata() for line in left.lines[:14]])
    assert low < drawn.min() == -4000 and high > drawn.max() == 3000
    for axes in (accuracy, seconds, left):
        assert [text.get_text() for text in axes.texts] == [
            f"method {number}" for number in range(14)
        ]
        heights = np.sort([text.get_position()[1] for text in axes.texts])
        assert np.diff(heights).min() > 0.06 and heights[0] >= 0 and heights[-1] <= 1
