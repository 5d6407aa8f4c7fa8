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

TRAINED = ["example-tied-dropout", "munkey", "sisa", "vit"]


def test_originals_and_oracles_are_named_by_the_letter_of_their_family():
    assert {name: (FAMILIES[name].original, FAMILIES[name].oracle) for name in TRAINED} == {
        "example-tied-dropout": ("original-e", "retrain-e"),
        "munkey": ("original-m", "retrain-m"),
        "sisa": ("original-s", "retrain-s"),
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
        "vit": shared,
    }


@pytest.mark.parametrize("family", TRAINED)
def test_a_recipe_holds_the_sections_as_they_stand(params, family):
    made = recipe(params, family, Stage("any"), train={"lr": 0.5})
    assert (made.data.pixel_mean, made.train.lr, made.model, made.stage) == (
        0.4,
        0.5,
        params.model,
        Stage("any"),
    )
    assert made.family == getattr(params, family, None)


def test_a_training_has_a_stage_of_its_own_and_sisa_one_for_all_subsets():
    stages = {name: FAMILIES[name].make_stage(3, "digits", "rate0.1").parts for name in TRAINED}
    assert stages == {
        "example-tied-dropout": ("3", "digits", "rate0.1", "example-tied-dropout"),
        "munkey": ("3", "digits", "rate0.1", "munkey"),
        "sisa": ("3", "digits", "sisa"),
        "vit": ("3", "digits", "rate0.1", "vit"),
    }


def test_only_munkey_reads_neighbors_in_training_as_many_as_its_range_ends_with(params):
    assert FAMILIES["munkey"].count_neighbors(params.munkey) == {"munkey.neighbors": 4}
    one_number = {**params.munkey.model_dump(), "neighbors": [5, 5]}  # is a range too
    assert FAMILIES["munkey"].count_neighbors(type(params.munkey)(**one_number)) == {
        "munkey.neighbors": 5
    }
    assert (
        FAMILIES["vit"].count_neighbors(params.train)
        == FAMILIES["sisa"].count_neighbors(params.sisa)
        == {}
    )


def test_an_epoch_takes_its_typical_time_and_sisas_that_over_all_its_models(params):
    history = [{"seconds": seconds} for seconds in (9.0, 1.0, 2.0)]
    assert FAMILIES["vit"].estimate_epoch_seconds(history, recipe(params, "vit")) == 2.0
    assert (
        FAMILIES["sisa"].estimate_epoch_seconds(
            history, recipe(params, "sisa", train={"epochs": 4})
        )
        == 3.0
    )


def test_a_memory_is_asked_with_the_section_if_its_family_reads_it():
    """KNN has a section of its own."""
    neighbors = Neighbors(None, None)
    knobs = {"k": 3, "fusion": "rank", "temperature": 0.1}
    assert FAMILIES["munkey"].make_retrieval(neighbors, knobs) == Retrieval(
        neighbors, InferenceSettings(**knobs)
    )
    assert FAMILIES["knn"].make_retrieval(neighbors, {}) == Retrieval(neighbors)
    assert [family.name for family in FAMILIES.values() if family.reads_inference] == ["munkey"]


def test_the_selection_has_the_last_word_about_the_pathways_that_are_dropped(params):
    sections = {name: getattr(params, name) for name in ("data", "model", "train", "munkey")}
    stage = Stage(0)
    as_set = FAMILIES["munkey"].make_recipe(sections, stage)
    # neither copied nor checked again
    assert as_set.family is params.munkey and as_set.train is params.train
    selected = FAMILIES["munkey"].make_recipe(sections, stage, {"p_image": 0.4, "p_token": 0.35})
    assert selected.family == params.munkey.model_copy(update={"p_image": 0.4, "p_token": 0.35})
    with pytest.raises(
        ValidationError, match=r"p_image \+ p_token = 0.9 \+ 0.35 must be at most 1"
    ):
        FAMILIES["munkey"].make_recipe(sections, stage, {"p_image": 0.9, "p_token": 0.35})


def test_what_a_family_cannot_do_is_refused():
    with pytest.raises(TypeError, match="vit has no pathways"):
        FAMILIES["vit"].extract_features(None, None, None, "cpu")
    assert FAMILIES["vit"].predict_cut_logits(None, None, None, "cpu") == {}
    assert FAMILIES["vit"].predict_path_logits(None, None, None, "cpu", None) == {}


def test_two_families_cannot_share_a_letter():
    with pytest.raises(
        ValueError, match="'another': the family 'vit' already uses its letter, 't'"
    ):
        family(type("Another", (type(FAMILIES["vit"]),), {"name": "another"}))
    assert "another" not in FAMILIES


@pytest.mark.parametrize("first", ["vit", "munkey"])
def test_whichever_family_is_imported_first_all_are_there(first):
    said = f"import munkey.models.families.{first}; from munkey.models.family import FAMILIES; print(FAMILIES.refusals)"
    assert subprocess.check_output([sys.executable, "-c", said], text=True) == "{}\n"
