"""What is held against the paper: the parameters of each data set."""

import json

from munkey.studies.paper.plan import PaperPlan
from tests.encoders.inputs import PAPERS_CONFIG, PAPERS_PROCESSOR
from tests.experiment.inputs import small_plan

TWO = {"datasets": ["digits", "cifar10"]}


def shown(changes: dict[str, object] | None = None) -> PaperPlan:
    return PaperPlan(small_plan(changes))


def test_what_is_held_against_the_paper_are_the_sections_of_each_data_set():
    compared = shown(
        TWO | {"overrides": {"cifar10": {"train": {"lr": 0.5}, "forget": {"rates": [0.05]}}}}
    ).compared
    names = {
        "source",
        "data",
        "keys",
        "model",
        "train",
        "munkey",
        "forget",
        "inference",
        "finetune",
    }
    names |= {"search", "selection", "network", "unlearn"}
    assert {dataset: sections.keys() for dataset, sections in compared.items()} == {
        "digits": names,
        "cifar10": names,
    }
    assert compared["cifar10"]["train"]["lr"] == 0.5 != compared["digits"]["train"]["lr"]
    assert compared["cifar10"]["forget"]["rates"] == [0.05]


def test_what_is_held_against_the_paper_are_all_values_that_a_search_tries():
    fixed = shown({"unlearn.cf.lr_factor": 0.7}).compared["digits"]
    assert fixed["search"] is False
    assert fixed["unlearn"]["cf"] == {"lr_factor": [0.7]} and fixed["unlearn"].keys() == {
        "knn",
        "cf",
        "ssd",
        "munkey",
    }
    searched = shown({"search": True}).compared["digits"]
    assert searched["search"] is True and searched["unlearn"]["cf"] == {"lr_factor": [0.1, 1.0]}
    assert searched["unlearn"]["ssd"] == {
        "alpha": [2.0, 5.0],
        "lam": [0.5, 1.0],
        "per_sample": [False],
    }
    scrub = shown({"methods": ["scrub"], "unlearn.scrub.decay_after": [5, 8]}).compared["digits"][
        "unlearn"
    ]["scrub"]
    assert scrub["decay_after"] == [[5, 8]]


def test_an_encoder_in_a_folder_is_held_against_the_paper_by_what_it_is_a_copy_of(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PAPERS_CONFIG))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(PAPERS_PROCESSOR))
    changes = {"keys.encoder": str(tmp_path), "keys.image_size": None, "ablations": {}}
    assert shown(changes).compared["digits"]["keys"]["encoder"] == "vit-b16"
    assert shown().compared["digits"]["keys"]["encoder"] == "efficientnet-lite0"
