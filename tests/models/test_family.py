"""What a family is called, which parameters its training depends on, and where its randomness comes from."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from munkey.core.randomness import Stage
from munkey.memory.neighbors import Neighbors
from munkey.models.family import FAMILIES, Retrieval, family
from munkey.settings import InferenceSettings
from tests.models.inputs import recipe

TRAINED = ["example-tied-dropout", "munkey", "sisa", "spm", "vit"]


def test_originals_and_oracles_are_named_by_the_letter_of_their_family():
    assert {name: (FAMILIES[name].original, FAMILIES[name].oracle) for name in TRAINED} == {
        "example-tied-dropout": ("original-e", "retrain-e"),
        "munkey": ("original-m", "retrain-m"),
        "sisa": ("original-s", "retrain-s"),
        "spm": ("original-b", "retrain-b"),
        "vit": ("original-t", "retrain-t"),
    }


def test_a_training_depends_on_the_sections_that_it_reads():
    shared = ["data", "model", "train"]
    assert {name: FAMILIES[name].sections for name in ("knn", "lda", *TRAINED)} == {
        "example-tied-dropout": [*shared, "example-tied-dropout"],
        "knn": ["knn"],
        "lda": ["lda"],
        "munkey": [*shared, "munkey"],
        "sisa": [*shared, "sisa"],
        "spm": [*shared, "spm"],
        "vit": shared,
    }


@pytest.mark.parametrize("family", TRAINED)
def test_a_recipe_has_the_sections_of_the_parameters(params, family):
    recipe_of_family = recipe(params, family, Stage("any"), train={"lr": 0.5})
    assert recipe_of_family.data.pixel_mean == 0.4
    assert recipe_of_family.train.lr == 0.5
    assert recipe_of_family.model == params.model
    assert recipe_of_family.stage == Stage("any")
    assert recipe_of_family.family == getattr(params, family, None)


def test_every_training_has_its_own_stage_and_sisa_one_for_all_subsets():
    stages = {name: FAMILIES[name].make_stage(3, "digits", "rate0.1").parts for name in TRAINED}
    assert stages == {
        "example-tied-dropout": ("3", "digits", "rate0.1", "example-tied-dropout"),
        "munkey": ("3", "digits", "rate0.1", "munkey"),
        "sisa": ("3", "digits", "sisa"),
        "spm": ("3", "digits", "rate0.1", "spm"),
        "vit": ("3", "digits", "rate0.1", "vit"),
    }


def test_only_munkey_reads_neighbors_in_training_up_to_the_end_of_its_range(params):
    assert FAMILIES["munkey"].count_neighbors(params.munkey) == {"munkey.neighbors": 4}
    one_number = params.munkey.model_copy(update={"neighbors": [5, 5]})  # is a range too
    assert FAMILIES["munkey"].count_neighbors(one_number) == {"munkey.neighbors": 5}
    assert FAMILIES["vit"].count_neighbors(params.train) == {}
    assert FAMILIES["sisa"].count_neighbors(params.sisa) == {}


def test_the_seconds_of_an_epoch_are_the_median_and_for_sisa_the_sum_over_its_models(params):
    history = [{"seconds": 9.0}, {"seconds": 1.0}, {"seconds": 2.0}]
    of_sisa = recipe(params, "sisa", train={"epochs": 4})
    assert FAMILIES["vit"].estimate_epoch_seconds(history, recipe(params, "vit")) == 2.0
    assert FAMILIES["sisa"].estimate_epoch_seconds(history, of_sisa) == 3.0


def test_the_retrieval_has_the_section_inference_only_if_the_family_reads_it():
    """KNN has a section of its own."""
    neighbors = Neighbors(None, None)
    knobs = {"k": 3, "fusion": "rank", "temperature": 0.1}
    assert FAMILIES["munkey"].make_retrieval(neighbors, knobs) == Retrieval(
        neighbors, InferenceSettings(**knobs)
    )
    assert FAMILIES["knn"].make_retrieval(neighbors, {}) == Retrieval(neighbors)
    assert [family.name for family in FAMILIES.values() if family.reads_inference] == ["munkey"]


def test_the_selected_probabilities_replace_those_of_the_settings(params):
    sections = {name: getattr(params, name) for name in ("data", "model", "train", "munkey")}
    stage = Stage(0)
    as_set = FAMILIES["munkey"].make_recipe(sections, stage)
    # neither copied nor checked again
    assert as_set.family is params.munkey
    assert as_set.train is params.train
    selected = FAMILIES["munkey"].make_recipe(sections, stage, {"p_image": 0.4, "p_token": 0.35})
    assert selected.family == params.munkey.model_copy(update={"p_image": 0.4, "p_token": 0.35})
    with pytest.raises(ValidationError, match=r"p_image \+ p_token = 0.9 \+ 0.35"):
        FAMILIES["munkey"].make_recipe(sections, stage, {"p_image": 0.9, "p_token": 0.35})


def test_a_vit_has_no_pathways():
    with pytest.raises(TypeError, match="vit has no pathways"):
        FAMILIES["vit"].extract_features(None, None, None, "cpu")
    assert FAMILIES["vit"].predict_cut_logits(None, None, None, "cpu") == {}
    assert FAMILIES["vit"].predict_path_logits(None, None, None, "cpu", None) == {}


def test_two_families_cannot_share_a_letter():
    with pytest.raises(ValueError, match=r"'another': .*'vit' .*'t'"):
        family(type("Another", (type(FAMILIES["vit"]),), {"name": "another"}))
    assert "another" not in FAMILIES


@pytest.mark.parametrize("first", ["vit", "munkey"])
def test_all_families_are_registered_whichever_is_imported_first(first):
    code = f"import munkey.models.families.{first}; from munkey.models.family import FAMILIES; print(FAMILIES.refusals)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "{}\n"
