"""The cases of an experiment, which of them does the work for which, and what is handed to their jobs."""

import pytest

from munkey.experiment.plan.cases import get_dataset
from munkey.models.families.sisa import SisaSettings
from munkey.settings import EncoderSettings, NetworkName, Section
from munkey.unlearn import prepare
from tests.experiment.inputs import ENCODER, small_plan

TWO = {  # data sets, the second with values of its own
    "datasets": ["digits", "cifar10"],
    "overrides": {
        "cifar10": {"forget": {"rates": [0.05]}, "inference": {"k": 8}, "train": {"lr": 0.5}}
    },
}


def test_cases_are_a_data_set_its_ablations_and_its_selection_in_the_order_of_the_parameters():
    changes = [
        *("inference.k/4", "inference.k/8", "munkey.token_dim/32", "munkey.token_dim/128"),
        *("keys/efficientnet-lite0_64", "keys/efficientnet-lite0_96"),
        *("p_drop/0.0_0.0", "p_drop/0.1_0.1", "p_drop/0.3_0.1"),
    ]
    cases = small_plan(TWO).cases
    assert list(cases) == ["digits", "cifar10"]
    for name in ("digits", "cifar10"):
        assert cases[name] == [name, *(f"{name}/{change}" for change in changes)]
    for case in cases["cifar10"]:
        assert get_dataset(case) == "cifar10"


def test_rates_are_those_of_each_data_set():
    plan = small_plan(TWO)
    assert plan.rates == {"digits": ["0.02", "0.1"], "cifar10": ["0.05"]}
    assert plan.largest_rate("digits") == "0.1"
    assert plan.largest_rate("cifar10") == "0.05"
    tiny = small_plan({"datasets": ["cifar10"], "forget.rates": [0.00005, 0.1]})
    assert tiny.rates == {"cifar10": ["5e-05", "0.1"]}
    assert tiny.largest_rate("cifar10") == "0.1"


@pytest.mark.parametrize(
    ("case", "trains", "answers"),
    [
        ("digits", "digits", "digits"),
        # the parameters have this value already
        ("digits/inference.k/4", "digits", "digits"),
        ("digits/munkey.token_dim/128", "digits", "digits"),
        ("digits/keys/efficientnet-lite0_96", "digits", "digits"),
        ("digits/p_drop/0.3_0.1", "digits", "digits"),
        # Another retrieval of the same model.
        ("digits/inference.k/8", "digits", "digits/inference.k/8"),
        # Another model.
        ("digits/munkey.token_dim/32", "digits/munkey.token_dim/32", "digits/munkey.token_dim/32"),
        (
            "digits/keys/efficientnet-lite0_64",
            "digits/keys/efficientnet-lite0_64",
            "digits/keys/efficientnet-lite0_64",
        ),
        ("digits/p_drop/0.1_0.1", "digits/p_drop/0.1_0.1", "digits/p_drop/0.1_0.1"),
    ],
)
def test_a_case_takes_training_and_answers_of_the_first_case_with_the_same_sections(
    case: str, trains: str, answers: str
):
    plan = small_plan()
    assert plan.first_alike(case, *plan.training_sections) == trains
    assert plan.first_alike(case, *plan.training_sections, "inference") == answers


def test_an_ablation_shares_its_model_with_a_pair_of_the_selection():
    plan = small_plan({"ablations": {"munkey": [{"p_image": 0.1, "p_token": 0.1}]}})
    assert (
        plan.first_alike("digits/p_drop/0.1_0.1", *plan.training_sections)
        == "digits/munkey/0.1_0.1"
    )


def test_a_case_shares_nothing_with_another_data_set():
    plan = small_plan({"datasets": ["digits", "cifar10"]})
    assert plan.first_alike("cifar10/inference.k/8", *plan.training_sections) == "cifar10"


def test_cases_that_differ_in_a_selected_pair_alone_are_no_longer_those_of_the_parameters():
    """Where the selection decides, (0.3, 0.1) of the parameters is not used: its case is a model of its own."""
    plan = small_plan({"munkey.p_drop": "selected"})
    assert (
        plan.first_alike("digits/p_drop/0.3_0.1", *plan.training_sections)
        == "digits/p_drop/0.3_0.1"
    )


def test_vit_and_munkey_are_always_trained_and_sisa_where_a_method_starts_from_it():
    plain = small_plan({"methods": ["knn"]})
    with_sisa = small_plan({"methods": ["sisa", "cf"]})
    assert [family.name for family in plain.families] == ["vit", "munkey", "knn"]
    assert [family.name for family in with_sisa.families] == ["vit", "munkey", "sisa"]
    assert list(plain.originals) == ["original-t", "original-m", "original-k"]
    assert list(plain.oracles) == ["retrain-t", "retrain-m", "retrain-k"]
    assert list(with_sisa.originals) == ["original-t", "original-m", "original-s"]
    assert list(with_sisa.oracles) == ["retrain-t", "retrain-m", "retrain-s"]


def test_every_system_has_a_family():
    plan = small_plan({"methods": ["knn", "cf", "munkey", "sisa"]})
    families = {
        "vit": ["original-t", "retrain-t", "cf"],
        "munkey": ["original-m", "retrain-m", "munkey"],
        "sisa": ["original-s", "retrain-s", "sisa"],
        "knn": ["original-k", "retrain-k", "knn"],
    }
    for family, systems in families.items():
        for system in systems:
            assert plan.find_family(system).name == family
        letter = systems[0][-1]
        assert plan.find_family_by_letter(letter).name == family
    with pytest.raises(KeyError, match="unknown method 'original-x'"):
        plan.find_family("original-x")


def test_a_training_gets_the_sections_of_its_family_with_the_values_of_its_case():
    plan = small_plan(TWO | {"methods": ["sisa"]})
    assert plan.train_settings("digits", "t").keys() == {"data", "model", "train"}
    assert plan.train_settings("digits", "m").keys() == {"data", "model", "train", "munkey"}
    assert plan.train_settings("digits", "s").keys() == {"data", "model", "train", "sisa"}
    assert plan.train_settings("digits", "s")["sisa"] == SisaSettings(shards=5, slices=2)
    assert plan.train_settings("cifar10", "t")["train"].lr == 0.5
    assert plan.train_settings("cifar10/munkey.token_dim/32", "m")["train"].lr == 0.5
    assert plan.train_settings("cifar10/munkey.token_dim/32", "m")["munkey"].token_dim == 32
    assert plan.train_settings("cifar10", "m")["munkey"].token_dim == 128


@pytest.mark.parametrize(
    ("method", "sections"),
    [
        ("cf", {"data", "model", "train", "finetune", "network", "method"}),
        ("ssd", {"data", "model", "train", "finetune", "network", "method"}),
        ("munkey", {"data", "model", "train", "munkey", "method"}),
        ("sisa", {"data", "model", "train", "sisa", "method"}),
        ("knn", {"method", "knn"}),
    ],
)
def test_a_method_gets_its_own_section_and_those_of_its_family(method: str, sections: set[str]):
    plan = small_plan()
    settings = plan.unlearn_settings("digits", method)
    assert settings.keys() == sections
    assert settings["method"] is plan.params.for_case("digits").unlearn[method]


def test_an_override_changes_a_methods_section_for_its_data_set_alone():
    overrides = {"cifar10": {"unlearn": {"ssd": {"alpha": 3.0}}}}
    plan = small_plan({"datasets": ["digits", "cifar10"], "overrides": overrides})
    usual = plan.params.unlearn["ssd"]
    assert plan.unlearn_settings("digits", "ssd")["method"] == usual
    assert plan.unlearn_settings("cifar10", "ssd")["method"] == usual.model_copy(
        update={"alpha": 3.0}
    )


def test_a_candidate_gets_its_point_of_the_grid_and_all_else_as_usual():
    plan = small_plan()
    grid = [plan.unlearn_settings("digits", "ssd", number) for number in range(4)]
    points = [(settings["method"].alpha, settings["method"].lam) for settings in grid]
    assert points == [(2.0, 0.5), (2.0, 1.0), (5.0, 0.5), (5.0, 1.0)]
    usual = plan.unlearn_settings("digits", "ssd")
    for settings in grid:
        assert settings | {"method": usual["method"]} == usual
    with pytest.raises(IndexError):
        plan.unlearn_settings("digits", "ssd", 4)


@pytest.mark.parametrize(
    ("system", "reads"),
    [
        ("original-t", False),
        ("retrain-t", False),
        ("cf", False),
        ("sisa", False),
        ("knn", False),
        ("original-m", True),
        ("retrain-m", True),
        ("munkey", True),
    ],
)
def test_an_evaluation_gets_the_section_inference_only_if_it_reads_it(system: str, reads: bool):
    plan = small_plan()
    settings = plan.evaluate_settings("digits", system)
    assert settings.keys() == {"data", "inference"}
    assert settings["data"] == plan.params.data
    ablated = plan.evaluate_settings("digits/inference.k/8", system)
    if reads:
        assert settings["inference"] == plan.params.inference
        assert ablated["inference"] == plan.params.inference.model_copy(update={"k": 8})
    else:
        assert settings["inference"] == ablated["inference"] == Section()


def test_the_searched_methods_are_those_with_settings_in_the_grid():
    assert small_plan().searched == []
    # the others have nothing to choose
    assert small_plan({"search": True}).searched == ["cf", "ssd"]
    one_value = {"search": True, "search_grid": {"lr_factor": [0.5], "ssd.alpha": [1.0, 2.0]}}
    assert small_plan(one_value).searched == ["cf", "ssd"]  # cf runs with 0.5


def test_the_folder_of_keys_names_an_encoder_and_its_image_size():
    plan = small_plan()
    usual = plan.get_encoder_name("digits")
    small = plan.get_encoder_name("digits/keys/efficientnet-lite0_64")
    assert small != usual
    assert plan.get_encoder_name("digits/inference.k/8") == usual
    assert plan.get_encoder_name("digits/keys/efficientnet-lite0_96") == usual
    for folder, size in ((usual, 96), (small, 64)):
        settings = plan.encoder_settings("digits", folder)
        assert settings == EncoderSettings(**ENCODER, image_size=size, batch_size=64)


def test_post_hoc_methods_start_from_the_network_that_the_parameters_name():
    plan = small_plan({"network": "resnet18"})
    assert [family.name for family in plan.families] == ["resnet18", "munkey", "knn"]
    original = plan.original("digits", "0", "cf")["original"]
    assert original.endswith("seed0/full/original-r/system.safetensors")
    assert plan.find_family("cf").oracle == "retrain-r"
    assert plan.find_family("munkey").oracle == "retrain-m"
    settings = plan.unlearn_settings("digits", "cf")
    assert settings["network"] == NetworkName(name="resnet18")
    assert "model" not in settings
    assert "resnet18" in settings
    assert prepare.find_method("cf", settings).family == "resnet18"
    assert prepare.find_method("munkey", settings).family == "munkey"
    assert {run.method for run in plan.main} >= {"original-r", "retrain-r", "cf"}
    assert not [run for run in plan.main if run.method.endswith("-t")]
