"""Holm's correction, by hand."""

import pytest

from munkey.audits.holm import holm


def test_holm_by_hand():
    """0.01 * 3; 0.03 * 2; then 0.04 * 1, which must not fall below the one before it."""
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert holm({"a": 0.4, "b": 0.9}) == pytest.approx({"a": 0.8, "b": 0.9})
    assert holm({"a": 0.7, "b": 0.9}) == {"a": 1, "b": 1}
    assert holm({"only": 0.2}) == {"only": 0.2} and holm({}) == {}


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(ValueError, match="'a'"):
        holm({"a": p})
