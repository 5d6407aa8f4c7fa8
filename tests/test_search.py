"""The choice among candidates: validation and forget set alone, no collapsed model, and what stands in the grid."""

from munkey.params import load
from munkey.search import Candidate, choose
from tests.unlearn_setup import PARAMS


def test_the_smallest_validation_gap_wins_and_of_equal_ones_the_first():
    found = [Candidate(90, 95), Candidate(89, 88), Candidate(91, 90), Candidate(88, 92)]
    assert [c.gap for c in found] == [5, 1, 1, 4]
    assert choose(found, 92, drop=None) == 1


def test_a_collapsed_model_wins_only_where_there_is_no_limit():
    found = [Candidate(90, 95), Candidate(10, 10)]
    assert choose(found, 92, drop=5.0) == 0
    assert choose(found, 92, drop=None) == 1
    assert choose(found, 95, drop=5.0) == 0  # a loss of exactly the limit still counts


def test_where_all_lose_too_much_the_one_that_loses_least_is_taken():
    assert choose([Candidate(50, 50), Candidate(60, 70)], 92, drop=5.0) == 1


def searched(**changes):
    return load(PARAMS | {"search": True} | changes)


def test_the_grid_of_the_paper():
    params = searched()
    rates = [settings["lr_factor"] for settings in params.candidates("digits", "cf")]
    assert rates == [0.1, 0.25, 0.5, 1.0]
    scrub = params.candidates("digits", "scrub")
    assert [s["lr_factor"] for s in scrub] == rates and all(s["gamma"] == 1.0 for s in scrub)
    pairs = [(s["alpha"], s["lam"]) for s in params.candidates("digits", "ssd")]
    assert pairs == [(a, lam) for a in (1.0, 2.0, 5.0, 10.0, 25.0) for lam in (0.5, 1.0)]
    assert params.candidates("digits", "munkey") == [{}]
    neggrad = params.candidates("digits", "neggrad-plus")
    assert {s["alpha"] for s in neggrad} == {0.95}  # ssd.alpha is SSD's alone


def test_a_method_that_stands_in_the_grid_by_name_has_its_own_values():
    params = searched(search_grid={"lr_factor": [0.5], "cf.lr_factor": [0.1, 0.2]})
    assert [s["lr_factor"] for s in params.candidates("digits", "cf")] == [0.1, 0.2]
    assert [s["lr_factor"] for s in params.candidates("digits", "amun")] == [0.5]
