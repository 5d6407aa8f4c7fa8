"""The plan of an experiment: what each job reads, and which files its tables are made from."""

import itertools
import re
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from munkey.evaluation.records import Evaluation
from munkey.experiment.params.load import load
from munkey.experiment.plan.plan import Plan, list_files, wildcard_pattern
from munkey.models.family import FAMILIES
from munkey.settings import InferenceSettings, Section
from munkey.studies.ablations.plan import list_ablation_runs
from munkey.studies.selection.plan import list_selection_runs
from munkey.unlearn.contract import METHODS
from tests.experiment.inputs import small_plan


@pytest.fixture
def plan() -> Plan:
    return small_plan()


def memory(plan: Plan, scope: str, case: str = "digits") -> dict[str, str]:
    """The files of keys and neighbors."""
    encoder = plan.get_encoder_name(case)
    return {
        "keyfile": f"results/default/keys/digits/{encoder}/keys.npz",
        "neighbors": f"results/default/neighbors/digits/{encoder}/{scope}.npz",
    }


def test_a_training_reads_the_selected_pair_if_the_parameters_say_so():
    selecting = small_plan({"munkey.p_drop": "selected"})
    selected = {"selected": "results/default/selection/digits/chosen.json"}
    for case in ("digits", "digits/munkey.token_dim/32", "digits/inference.k/8"):
        assert selecting.train_input(case, "0", "full", "m") == selected | memory(selecting, "full")
    assert "selected" in selecting.train_input("digits", "0", "rate0.1", "m")
    assert selecting.train_input("digits", "0", "full", "t") == {}
    # What the selection chooses from must not wait for it.
    assert selecting.train_input("digits/p_drop/0.3_0.1", "0", "full", "m") == memory(
        selecting, "full"
    )


def test_the_main_evaluations_are_all_systems_by_rate_and_seed(plan: Plan):
    systems = ["original-t", "original-m", "original-k", "retrain-t", "retrain-m", "retrain-k"]
    systems += ["knn", "cf", "ssd", "munkey"]
    expected = list(itertools.product(("0.02", "0.1"), (0, 1), systems))
    assert [(run.rate, run.seed, run.method) for run in plan.main] == expected
    assert plan.list_main_runs("digits") == plan.main
    assert {(run.dataset, run.case) for run in plan.main} == {("digits", "")}


def evaluation_of(plan: Plan, system: str) -> Evaluation:
    """The evaluation of a system at rate 0.1 with seed 1."""
    return next(run for run in plan.main if (run.rate, run.seed, run.method) == ("0.1", 1, system))


@pytest.mark.parametrize(
    ("system", "subset", "training"),
    [
        ("original-t", "full", "full/original-t"),
        ("original-m", "full", "full/original-m"),
        ("retrain-t", "rate0.1", "rate0.1/retrain-t"),
        ("retrain-m", "rate0.1", "rate0.1/retrain-m"),
        ("cf", "rate0.1", "full/original-t"),
        ("ssd", "rate0.1", "full/original-t"),
        ("munkey", "rate0.1", "full/original-m"),
        ("sisa", "rate0.1", "full/original-s"),
        ("knn", "rate0.1", "full/original-k"),
    ],
)
def test_an_evaluation_names_its_logits_its_record_and_that_of_its_training(
    system: str, subset: str, training: str
):
    run = evaluation_of(small_plan({"methods": ["knn", "cf", "ssd", "munkey", "sisa"]}), system)
    assert asdict(run) == {
        "dataset": "digits",
        "case": "",
        "rate": "0.1",
        "seed": 1,
        "method": system,
        "logits": f"results/default/logits/digits/seed1/{subset}/{system}.npz",
        "record": f"results/default/models/digits/seed1/{subset}/{system}/record.json",
        "training": f"results/default/models/digits/seed1/{training}/record.json",
        "forget": "results/default/forget/digits/seed1/rate0.1.csv",
        "sampling": "stratified",
    }


def test_ablations_show_munkey_before_and_after_and_its_oracle_at_the_largest_rate(plan: Plan):
    runs = list_ablation_runs(plan, "digits")
    cases = []
    for case in plan.cases["digits"][1:]:
        if "/p_drop/" not in case:
            cases.append(case.removeprefix("digits/"))
    systems = ["original-m", "retrain-m", "munkey"]
    expected = list(itertools.product(cases, ["0.1"], (0, 1), systems))
    assert [(run.case, run.rate, run.seed, run.method) for run in runs] == expected


def test_the_selection_compares_all_pairs_without_the_oracle(plan: Plan):
    runs = list_selection_runs(plan, "digits")
    cases = ["p_drop/0.0_0.0", "p_drop/0.1_0.1", "p_drop/0.3_0.1"]
    expected = list(itertools.product(cases, ["0.1"], (0, 1), ("original-m", "munkey")))
    assert [(run.case, run.rate, run.seed, run.method) for run in runs] == expected


def test_every_data_set_has_evaluations_of_its_own():
    plan = small_plan(
        {"datasets": ["digits", "cifar10"], "overrides": {"cifar10": {"forget": {"rates": [0.05]}}}}
    )
    assert plan.main == plan.list_main_runs("digits") + plan.list_main_runs("cifar10")
    rates = {(run.dataset, run.rate) for run in plan.main}
    assert rates == {("digits", "0.02"), ("digits", "0.1"), ("cifar10", "0.05")}
    for path in list_files(plan.list_main_runs("cifar10")):
        assert "/cifar10/" in path
        assert "digits" not in path
    assert {run.rate for run in list_ablation_runs(plan, "cifar10")} == {"0.05"}


def test_files_of_evaluations_are_listed_once_in_order():
    first = Evaluation(
        "digits", "", "0.1", 0, "cf", logits="d", record="b", training="c", forget="a"
    )
    second = replace(first, method="ssd", logits="e", record="f")
    assert list_files([second, first]) == ["a", "b", "c", "d", "e", "f"]


def test_the_searches_of_a_run_are_those_of_methods_with_a_grid():
    assert small_plan().list_searches(small_plan().main) == []
    plan = small_plan({"search": True})
    searches = plan.list_searches(plan.main)
    assert Counter(path.split("/")[-2] for path in searches) == {"cf": 4, "ssd": 4}
    assert "results/default/search/digits/seed1/rate0.1/cf/search.json" in searches


def test_a_data_set_with_a_checksum_has_no_state(plan: Plan, tmp_path: Path):
    assert plan.disk_state("digits") is None
    assert small_plan({"source.path": str(tmp_path)}).disk_state("digits") is None


def test_an_unpacked_folder_without_a_checksum_has_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    plan = small_plan({"datasets": ["tinyimagenet"]})
    before = plan.disk_state("tinyimagenet")
    (tmp_path / "data/tiny-imagenet-200/train/n01").mkdir(parents=True)
    assert plan.disk_state("tinyimagenet") != before


def test_the_external_state_holds_files_of_data_sets_and_weights_of_encoders(
    tmp_path: Path,
):
    folder = tmp_path / "encoder"
    pets = tmp_path / "pets.npz"
    folder.mkdir()
    for file in (folder / "config.json", folder / "preprocessor_config.json", pets):
        file.write_text('{"model_type": "vit"}')
    encoder = {"encoder": str(folder), "revision": None, "image_size": None}
    plan = small_plan(
        {
            "datasets": ["digits", "pets"],
            "overrides": {"pets": {"source": {"reader": "npz", "path": str(pets)}}},
            "ablations": {"keys": [encoder]},
        }
    )
    before = plan.external_state
    assert list(before) == ["digits", "pets"]
    assert before["digits"]["files"] is None
    assert before["pets"]["files"]
    with_saved_encoder = next(case for case in plan.cases["digits"] if "/keys/" in case)
    lite = plan.get_encoder_name("digits")
    saved = plan.get_encoder_name(with_saved_encoder)
    assert set(before["digits"]["weights"]) == {lite, saved}
    (folder / "model.safetensors").write_bytes(b"weights")
    pets.write_text("other")
    after = plan.external_state
    assert after["pets"]["files"] != before["pets"]["files"]
    assert after["digits"]["weights"][saved] != before["digits"]["weights"][saved]
    assert after["digits"]["weights"][lite] == before["digits"]["weights"][lite]


def test_a_pattern_of_names_matches_the_names_and_no_other():
    pattern = wildcard_pattern(["cf", "cf-k"])
    for name in ("cf", "cf-k"):
        assert re.fullmatch(pattern, name)
    for name in ("cf-", "eu-k", ""):
        assert not re.fullmatch(pattern, name)
    assert wildcard_pattern(iter([]))
    assert not re.fullmatch(wildcard_pattern([]), "")


@pytest.mark.parametrize("name", METHODS)
def test_the_code_of_unlearning_is_that_of_the_method_and_of_its_family(name: str, plan: Plan):
    method = METHODS[name]
    assert plan.method_code("digits", name) == [
        method.run,
        method.settings,
        FAMILIES[method.family],
    ]


def test_the_code_of_a_munkey_with_a_head_includes_that_of_the_head():
    plan = small_plan({"munkey.head": "krr", "krr.lam": 0.3})
    for roots in (
        plan.family_code("digits", FAMILIES["munkey"]),
        plan.system_code("digits", "munkey"),
        plan.system_code("digits", "retrain-m"),
    ):
        assert FAMILIES["krr"] in roots
        assert FAMILIES["lda"] not in roots


def test_the_builder_of_an_encoder_is_found_by_the_folder_of_its_keys(plan: Plan):
    (builder,) = plan.encoder_builders("digits", plan.get_encoder_name("digits"))
    assert builder.__module__ == "munkey.encoders.embedded"


def test_the_projects_experiment_can_be_planned(config):
    plan = Plan(load(config))
    systems = len(plan.originals) + len(plan.oracles) + len(config["methods"])
    rates = sum(len(rates) for rates in plan.rates.values())
    assert len(plan.main) == rates * len(config["seeds"]) * systems
    for run in plan.main:
        for path in (run.logits, run.record, run.training, run.forget):
            assert "{" not in path
            assert "None" not in path


def test_query_settings_are_those_of_systems_with_a_memory():
    queries = small_plan().query_settings("digits")
    with_settings = {name for name, sections in queries.items() if sections}
    assert with_settings == {
        *("original-m", "retrain-m", "munkey"),
        *("original-k", "retrain-k", "knn"),
    }
    inference = InferenceSettings(k=4, fusion="ensemble", temperature=0.07)
    assert queries["munkey"]["inference"] == inference
    assert queries["knn"]["inference"] == Section()
    assert queries["knn"]["keys"] == queries["munkey"]["keys"]
    assert queries["knn"]["keys"].image_size == 96
