"""The choice among candidates: validation and forget set alone, no collapsed model; one setting out of all searches."""

import numpy as np
import pytest

from munkey.core.files import write_json
from munkey.data import forget_sets
from munkey.data.prepared import Dataset
from munkey.evaluation.search import (
    Candidate,
    choose_candidate,
    describe_searches,
    make_scorer,
    make_search_result,
    rank_candidates,
)
from munkey.models import system
from munkey.models.family import FAMILIES, System
from tests.conftest import VIT, generator, image_set, lively
from tests.models.inputs import DATA


@pytest.mark.parametrize(
    ("val", "forget"), [((8, 9, 10, 11), (0, 2, 4, 6)), ((0, 2, 4, 6), (8, 9, 10, 11))]
)
def test_a_candidate_is_scored_by_its_answers_to_the_validation_and_the_forget_set(
    tmp_path, val, forget
):
    """Four samples each: rows 8, 9, 10, 11 have three right answers, rows 0, 2, 4, 6 have one."""
    samples = image_set(12)
    answering = System("vit", VIT, lively(FAMILIES["vit"].build(VIT, generator())))
    answers = FAMILIES["vit"].predict_logits(answering, samples, DATA, "cpu", None).argmax(axis=1)
    labels = np.where(np.isin(np.arange(12), [8, 9, 10, 4]), answers, (answers + 1) % 3)
    splits = np.where(np.isin(np.arange(12), val), "val", "train")
    dataset = Dataset(samples.images, samples.ids, labels, splits, ["a", "b", "c"])
    forget_sets.write(tmp_path / "forget.csv", samples.ids[list(forget)])
    system.save(tmp_path / "system.safetensors", answering)
    score = make_scorer(dataset, tmp_path / "forget.csv", DATA, "cpu")
    expected = {8: 75.0, 0: 25.0}  # by the first row of a set
    assert score(tmp_path / "system.safetensors") == Candidate(
        expected[val[0]], expected[forget[0]]
    )


def test_the_smallest_validation_gap_wins_and_of_equal_ones_the_first():
    candidates = [Candidate(90, 95), Candidate(89, 88), Candidate(91, 90), Candidate(88, 92)]
    assert [candidate.gap for candidate in candidates] == [5, 1, 1, 4]
    assert choose_candidate(candidates, 92, drop=None) == 1


def test_a_collapsed_model_wins_only_where_there_is_no_limit():
    candidates = [Candidate(90, 95), Candidate(10, 10)]
    assert choose_candidate(candidates, 92, drop=5.0) == 0
    assert choose_candidate(candidates, 92, drop=None) == 1
    assert (
        choose_candidate(candidates, 95, drop=5.0) == 0
    )  # a loss of exactly the limit still counts


def test_the_candidate_that_loses_least_is_taken_where_all_lose_too_much():
    assert choose_candidate([Candidate(50, 50), Candidate(60, 70)], 92, drop=5.0) == 1


def test_the_result_of_a_search_has_all_candidates_and_the_seconds_of_all_of_it(capsys):
    records = [
        {"settings": {"method": {"lr_factor": 0.5}}, "unlearn_s": 1.0},
        {"settings": {"method": {"lr_factor": 1.5}}, "unlearn_s": 3.0},
    ]
    result = make_search_result([Candidate(90, 95), Candidate(89, 88)], records, 1, 92.0, 0.25)
    tried = [
        {
            "settings": {"lr_factor": 0.5},
            "gap": 5,
            "unlearn_s": 1.0,
            "val_accuracy": 90,
            "forget_accuracy": 95,
        },
        {
            "settings": {"lr_factor": 1.5},
            "gap": 1,
            "unlearn_s": 3.0,
            "val_accuracy": 89,
            "forget_accuracy": 88,
        },
    ]
    assert result == {
        "chosen": 1,
        "original_val_accuracy": 92.0,
        "search_s": 4.25,
        "candidates": tried,
    }
    assert str(tried[1]) in capsys.readouterr().out


def lr_factors(candidates):
    return [candidate.settings["lr_factor"] for candidate in candidates]


def search(*candidates):
    """A search of candidates (validation accuracy, forget accuracy) where the original has 90%."""
    table = []
    for place, (val, forget) in enumerate(candidates):
        accuracies = {"val_accuracy": val, "forget_accuracy": forget, "gap": abs(val - forget)}
        table.append({"settings": {"lr_factor": place}} | accuracies)
    return {"chosen": 0, "original_val_accuracy": 90.0, "search_s": 1.0, "candidates": table}


def test_the_smallest_mean_gap_over_runs_wins_among_candidates_that_never_lose_too_much():
    searches = [search((89, 86), (88, 88), (89, 88)), search((90, 88), (84, 84), (87, 85))]
    best = rank_candidates(searches, drop=5)
    assert lr_factors(best) == [2, 0, 1]
    assert (best[0].gap, best[0].drop) == (1.5, 3.0)
    assert best[2].drop == 6.0  # the smallest gap of all, but it lost 6 points once


def test_the_candidate_that_loses_least_over_runs_wins_where_all_lose_too_much():
    best = rank_candidates([search((10, 10), (60, 50))], drop=5)
    assert lr_factors(best) == [1, 0]


def test_searches_that_tried_different_settings_are_not_mixed(tmp_path):
    write_json(tmp_path / "seed0/rate0.1/cf/search.json", search((89, 86), (88, 88)))
    write_json(tmp_path / "seed1/rate0.1/cf/search.json", search((89, 86)))
    with pytest.raises(ValueError, match="different settings"):
        list(describe_searches(tmp_path, drop=5))


def test_the_report_reads_the_searches_of_a_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"search\.json"):
        list(describe_searches(tmp_path, drop=5))
    for seed in (0, 1):
        folder = tmp_path / f"seed{seed}/rate0.1/cf"
        write_json(folder / "search.json", search((89, 86), (88, 88)))
    assert list(describe_searches(tmp_path, drop=5)) == [
        "cf (n = 2 seeds x rates)",
        "  lr_factor 1: gap 0.00, drop 2.0",
        "  lr_factor 0: gap 3.00, drop 1.0",
    ]


def test_a_diverged_candidate_is_named_and_comes_last_and_the_first_is_chosen_where_all_diverged(
    capsys,
):
    diverged = {
        "settings": {"method": {"lr_factor": 9}},
        "diverged": "the loss is nan; log: logs/9.log",
    }
    trained = {"settings": {"method": {"lr_factor": 1}}, "unlearn_s": 2.0}
    result = make_search_result([None, Candidate(90, 95)], [diverged, trained], 1, 92.0, 0.0)
    assert result["candidates"][0] == {
        "settings": {"lr_factor": 9},
        "diverged": diverged["diverged"],
    }
    assert result["search_s"] == 2.0
    assert str(result["candidates"][1]) in capsys.readouterr().out
    ranking = rank_candidates([result], 5.0)
    assert [str(candidate) for candidate in ranking] == [
        "lr_factor 1: gap 5.00, drop 2.0",
        "lr_factor 9: diverged",
    ]
    without_any = make_search_result([None, None], [diverged, diverged], 0, None, 0.0)
    assert without_any["chosen"] == 0
    assert without_any["original_val_accuracy"] is None
    for candidate in rank_candidates([without_any], 5.0):
        assert str(candidate) == "lr_factor 9: diverged"
