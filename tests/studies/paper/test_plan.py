"""The parameters of each data set that are compared with the paper."""

import json
from typing import Any

from munkey.studies.paper.plan import PaperPlan
from tests.encoders.inputs import PAPERS_CONFIG, PAPERS_PROCESSOR
from tests.experiment.inputs import small_plan

TWO = {"datasets": ["digits", "cifar10"]}


def compare(changes: dict[str, object] | None = None) -> dict[str, dict[str, Any]]:
    """The sections of a small experiment that are compared with the paper, by data set."""
    return PaperPlan(small_plan(changes)).compared


def test_the_sections_of_each_data_set_are_compared_with_the_paper():
    overrides = {"cifar10": {"train": {"lr": 0.5}, "forget": {"rates": [0.05]}}}
    sections = compare(TWO | {"overrides": overrides})
    assert list(sections) == ["digits", "cifar10"]
    for dataset in sections:
        assert sections[dataset].keys() == {
            *("source", "data", "keys", "model", "train", "munkey", "forget", "inference"),
            *("finetune", "search", "selection", "network", "unlearn"),
        }
    assert sections["cifar10"]["train"]["lr"] == 0.5
    assert sections["digits"]["train"]["lr"] != 0.5
    assert sections["cifar10"]["forget"]["rates"] == [0.05]


def test_all_values_that_a_search_tries_are_compared_with_the_paper():
    fixed = compare({"unlearn.cf.lr_factor": 0.7})["digits"]
    assert fixed["search"] is False
    assert fixed["unlearn"]["cf"] == {"lr_factor": [0.7]}
    assert fixed["unlearn"].keys() == {"knn", "cf", "ssd", "munkey"}
    with_search = compare({"search": True})["digits"]
    assert with_search["search"] is True
    assert with_search["unlearn"]["cf"] == {"lr_factor": [0.1, 1.0]}
    ssd = {"alpha": [2.0, 5.0], "lam": [0.5, 1.0], "per_sample": [False]}
    assert with_search["unlearn"]["ssd"] == ssd
    with_scrub = compare({"methods": ["scrub"], "unlearn.scrub.decay_after": [5, 8]})["digits"]
    assert with_scrub["unlearn"]["scrub"]["decay_after"] == [[5, 8]]


def test_an_encoder_in_a_folder_is_compared_as_the_encoder_that_it_copies(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PAPERS_CONFIG))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(PAPERS_PROCESSOR))
    changes = {"keys.encoder": str(tmp_path), "keys.image_size": None, "ablations": {}}
    assert compare(changes)["digits"]["keys"]["encoder"] == "vit-b16"
    assert compare()["digits"]["keys"]["encoder"] == "efficientnet-lite0"
