"""What relearning trains further, what each of its jobs reads, and which knobs it depends on."""

import pytest

from munkey.experiment.params.load import ParamsError, load
from munkey.settings import Section
from munkey.studies.relearning.plan import RelearnPlan
from tests.experiment.inputs import small_config, small_plan


@pytest.fixture
def relearn() -> RelearnPlan:
    return RelearnPlan(small_plan())


def test_every_trained_system_is_trained_further_once_for_each_seed(relearn: RelearnPlan):
    systems = relearn.list_systems("digits")
    assert [(system["name"], system["role"], system["family"]) for system in systems] == [
        ("original-t", "nothing", "vit"),
        ("retrain-t", "oracle", "vit"),
        ("cf", "method", "vit"),
        ("ssd", "method", "vit"),
        ("original-m", "nothing", "munkey"),
        ("retrain-m", "oracle", "munkey"),
        ("munkey", "method", "munkey"),
    ]


def test_the_original_learns_from_the_retain_set_and_answers_from_its_whole_memory(
    relearn: RelearnPlan,
):
    files = relearn.list_input_files("digits", "1", "original-m")
    assert files["neighbors"].endswith("/seed1/rate0.1.npz")
    assert files["retrieved"].endswith("/full.npz")
    for system in ("munkey", "retrain-m"):
        files = relearn.list_input_files("digits", "1", system)
        assert files["neighbors"] == files["retrieved"]
        assert files["neighbors"].endswith("/seed1/rate0.1.npz")
        assert files["keyfile"].endswith("/keys.npz")


def test_relearning_reads_the_selected_pair_if_training_does():
    relearn = RelearnPlan(small_plan({"munkey.p_drop": "selected"}))
    assert "selected" in relearn.list_input_files("digits", "0", "munkey")
    assert "selected" not in relearn.list_input_files("digits", "0", "cf")


def test_a_job_depends_on_the_settings_of_training_and_queries_of_its_family(relearn: RelearnPlan):
    cf = relearn.get_settings("digits", "cf")
    assert set(cf) == {"data", "model", "train", "inference", "relearn"}
    assert cf["inference"] == Section()
    munkey = relearn.get_settings("digits", "munkey")
    assert set(munkey) == {"data", "model", "train", "munkey", "inference", "relearn"}
    assert munkey["relearn"] == relearn.settings


@pytest.mark.parametrize("steps", [[0], [1, 2], [0, 2, 1], [0, 1, 1], [0, 1.5]])
def test_steps_must_start_with_0_and_ascend(steps: list[float]):
    with pytest.raises(ParamsError, match=r"audit\.relearn"):
        load(small_config({"audit.relearn.steps": steps}))


def test_methods_without_training_are_refused():
    relearn = RelearnPlan(small_plan({"methods": ["knn", "lda"]}))
    with pytest.raises(ValueError, match=r"nothing to relearn: .*knn, lda"):
        relearn.list_systems("digits")
