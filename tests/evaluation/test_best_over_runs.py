"""One setting per method out of all its searches."""

import pytest

from munkey.core.files import write_json
from munkey.evaluation.best_over_runs import ranked, report


def search(*candidates):
    """A search of candidates (validation accuracy, forget accuracy) where the original has 90 %."""
    table = [
        {"settings": {"lr_factor": place}, "val_accuracy": val, "forget_accuracy": forget, "gap": abs(val - forget)}
        for place, (val, forget) in enumerate(candidates)
    ]
    return {"chosen": 0, "original_val_accuracy": 90.0, "search_s": 1.0, "candidates": table}


def test_the_smallest_mean_gap_wins_among_those_that_never_lose_too_much():
    searches = [search((89, 86), (88, 88), (89, 88)), search((90, 88), (84, 84), (87, 85))]
    best = ranked(searches, drop=5)
    assert [tried.settings["lr_factor"] for tried in best] == [2, 0, 1]
    assert (best[0].gap, best[0].drop) == (1.5, 3.0)
    assert best[2].drop == 6.0  # the smallest gap of all, but it lost 6 points once


def test_where_all_lose_too_much_the_one_that_loses_least_wins():
    best = ranked([search((10, 10), (60, 50))], drop=5)
    assert [tried.settings["lr_factor"] for tried in best] == [1, 0]


def test_searches_that_tried_different_settings_are_not_mixed(tmp_path):
    write_json(tmp_path / "seed0/rate0.1/cf/search.json", search((89, 86), (88, 88)))
    write_json(tmp_path / "seed1/rate0.1/cf/search.json", search((89, 86)))
    with pytest.raises(ValueError, match="cf: these searches tried different settings"):
        list(report(tmp_path, drop=5))


def test_the_report_reads_the_searches_of_a_run(tmp_path):
    for seed in (0, 1):
        folder = tmp_path / f"seed{seed}/rate0.1/cf"
        write_json(folder / "search.json", search((89, 86), (88, 88)))
    assert list(report(tmp_path, drop=5)) == [
        "cf (n = 2 seeds x rates)",
        "  lr_factor 1: gap 0.00, drop 2.0",
        "  lr_factor 0: gap 3.00, drop 1.0",
    ]
