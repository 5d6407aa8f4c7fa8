"""The choice among candidates: validation and forget set alone, and no collapsed model."""

from munkey.evaluation.search import Candidate, choose


def test_the_smallest_validation_gap_wins_and_of_equal_ones_the_first():
    candidates = [Candidate(90, 95), Candidate(89, 88), Candidate(91, 90), Candidate(88, 92)]
    assert [candidate.gap for candidate in candidates] == [5, 1, 1, 4]
    assert choose(candidates, 92, drop=None) == 1


def test_a_collapsed_model_wins_only_where_there_is_no_limit():
    candidates = [Candidate(90, 95), Candidate(10, 10)]
    assert choose(candidates, 92, drop=5.0) == 0
    assert choose(candidates, 92, drop=None) == 1
    assert choose(candidates, 95, drop=5.0) == 0  # a loss of exactly the limit still counts


def test_where_all_lose_too_much_the_one_that_loses_least_is_taken():
    assert choose([Candidate(50, 50), Candidate(60, 70)], 92, drop=5.0) == 1
