"""The figure of streams."""

import numpy as np

from munkey.studies.streams.figure import streams_plot
from tests.studies.streams.drawings import many_streams, stream_curves


def test_a_share_that_could_not_be_measured_is_left_out():
    curves, shares = stream_curves()
    shares.loc[shares.index[0], "share"] = np.nan
    _, _, residue = streams_plot(curves, shares).axes
    drawn = residue.lines[0].get_ydata()
    assert len(drawn) > 0
    assert np.isfinite(drawn).all()


def test_fourteen_streams_differ_in_color_and_marker_are_named_and_not_cut_off():
    """The failure: two of twelve lines were of one blue, and shares below -150 were cut off."""
    accuracy, seconds, shares = streams_plot(*many_streams(14)).axes
    assert len({line.get_color() for line in seconds.lines}) == 14
    assert len({line.get_marker() for line in seconds.lines}) == 14
    low, high = shares.get_ylim()
    values = np.concatenate([line.get_ydata() for line in shares.lines[:14]])
    assert (values.min(), values.max()) == (-4000, 3000)
    assert low < -4000
    assert high > 3000
    names = [f"method {number}" for number in range(14)]
    for axes in (accuracy, seconds, shares):
        assert [text.get_text() for text in axes.texts] == names
        heights = np.sort([text.get_position()[1] for text in axes.texts])
        assert np.diff(heights).min() > 0.06
        assert heights[0] >= 0
        assert heights[-1] <= 1
