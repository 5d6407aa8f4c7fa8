"""Streams: which systems there are, and what each of their jobs reads and depends on."""

import pytest

from munkey.experiment.params.load import ParamsError
from munkey.studies.streams.plan import StreamPlan
from munkey.studies.streams.settings import StreamSettings
from tests.experiment.inputs import small_plan

HALVES = {
    "forget": "results/default/audit/digits/halves/seed3.csv",
    "absent": "results/default/audit/digits/halves/seed2.csv",
}


@pytest.fixture(scope="module")
def streams() -> StreamPlan:
    return StreamPlan(small_plan({"stream.pairs": 3}))


def test_every_method_has_a_stream_and_so_have_oracles_of_families_that_learn(streams: StreamPlan):
    systems = streams.list_systems("digits")
    names = [system["name"] for system in systems]
    assert names == ["retrain-t", "retrain-m", "knn", "cf", "ssd", "munkey"]
    assert [system["title"] for system in systems[:2]] == ["Retrain (T)", "Retrain (M)"]


def test_a_method_starts_from_the_audits_model_and_an_oracle_from_nothing(streams: StreamPlan):
    models = "results/default/models/digits/audit/pool/seed3/full"
    keys = {"keyfile": "results/default/keys/digits/efficientnet-lite0_96px/keys.npz"}
    original = {"original": f"{models}/original-t/system.safetensors"}
    assert streams.list_input_files("digits", "3", "cf") == HALVES | original
    original = {"original": f"{models}/original-m/system.safetensors"}
    assert streams.list_input_files("digits", "3", "munkey") == HALVES | original | keys
    assert streams.list_input_files("digits", "3", "retrain-m") == HALVES | keys


def test_an_oracle_is_trained_with_the_selected_pair():
    streams = StreamPlan(small_plan({"stream.pairs": 3, "munkey.p_drop": "selected"}))
    selected = {"selected": "results/default/selection/digits/chosen.json"}
    files = streams.list_input_files("digits", "3", "retrain-m")
    assert files.items() >= selected.items()
    assert "selected" not in streams.list_input_files("digits", "3", "retrain-t")


def test_a_stream_can_have_no_additions():
    assert StreamSettings(pairs=2, requests=3, additions=[]).additions == []


def test_additions_after_the_last_request_are_refused():
    with pytest.raises(ParamsError, match=r"additions = \[3, 6, 9\]: .* 5 requests"):
        small_plan({"stream.requests": 5})


def test_a_stream_depends_on_the_settings_of_training_unlearning_and_queries(streams: StreamPlan):
    method = streams.get_settings("digits", "cf")
    assert method.keys() >= {"method", "finetune", "train", "inference"}
    oracle = streams.get_settings("digits", "retrain-m")
    assert oracle.keys() >= {"munkey", "train", "inference"}
    assert "method" not in oracle


def test_methods_that_forget_only_whole_classes_have_no_stream():
    forget = {"rates": [0.1], "sampling": "class", "names": None}
    streams = StreamPlan(small_plan({"methods": ["unsir"], "forget": forget}))
    with pytest.raises(ValueError, match=r"no stream: .*unsir"):
        streams.list_systems("digits")
