"""Holm over paths, by hand."""

import pytest

from munkey.audits.pathways import Pathway, holm, pathways


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


def test_paths_say_whether_they_are_deployed_declared_or_exploratory():
    found = pathways({"image": 0.04, "deployed": 0.01, "k16": 0.5}, "deployed", ["k16"])
    assert [(each.path, each.role) for each in found] == [
        ("image", "exploratory"),
        ("deployed", "deployed"),
        ("k16", "declared"),
    ]
    assert found[1] == Pathway("deployed", "deployed", 0.01, 0.03)
    assert found[0].p_holm == pytest.approx(0.08)


@pytest.mark.parametrize(("deployed", "declared"), [("b", []), ("a", ["b"])])
def test_a_path_that_was_not_audited_is_refused(deployed, declared):
    with pytest.raises(KeyError, match="not audited; these were: a"):
        pathways({"a": 0.1}, deployed, declared)
