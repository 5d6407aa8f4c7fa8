"""The choice among candidates: validation and forget set alone, and no collapsed model."""

import numpy as np
import pytest

from munkey.data import forget_sets
from munkey.data.prepared import Dataset
from munkey.evaluation.search import Candidate, choose, scorer
from munkey.models import system
from munkey.models.family import FAMILIES, System
from tests.conftest import VIT, generator, image_set, lively
from tests.models.inputs import DATA


@pytest.mark.parametrize(("val", "forget"), [((8, 9, 10, 11), (0, 2, 4, 6)), ((0, 2, 4, 6), (8, 9, 10, 11))])
def test_a_candidate_is_scored_by_its_answers_to_the_validation_and_the_forget_set(tmp_path, val, forget):
    """Four samples each: rows 8, 9, 10, 11 have three right answers, rows 0, 2, 4, 6 have one."""
    samples = image_set(12)
    answering = System("vit", VIT, lively(FAMILIES["vit"].build(VIT, generator())))
    answers = FAMILIES["vit"].logits(answering, samples, DATA, "cpu", None).argmax(axis=1)
    labels = np.where(np.isin(np.arange(12), [8, 9, 10, 4]), answers, (answers + 1) % 3)
    splits = np.where(np.isin(np.arange(12), val), "val", "train")
    dataset = Dataset(samples.images, samples.ids, labels, splits, ["a", "b", "c"])
    forget_sets.write(tmp_path / "forget.csv", samples.ids[list(forget)])
    system.save(tmp_path / "system.safetensors", answering)
    score = scorer(dataset, tmp_path / "forget.csv", DATA, "cpu")
    expected = {8: 75.0, 0: 25.0}  # by the first row of a set
    assert score(tmp_path / "system.safetensors") == Candidate(expected[val[0]], expected[forget[0]])


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
