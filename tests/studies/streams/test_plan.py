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


def test_every_method_is_streamed_beside_the_oracles_of_what_learns(streams: StreamPlan):
    systems = streams.list_systems("digits")
    assert [(each["name"], each["title"]) for each in systems[:2]] == [
        ("retrain-t", "Retrain (T)"),
        ("retrain-m", "Retrain (M)"),
    ]
    assert [each["name"] for each in systems[2:]] == ["knn", "cf", "ssd", "munkey"]


def test_a_method_starts_from_the_audits_model_and_an_oracle_from_nothing(streams: StreamPlan):
    models = "results/default/models/digits/audit/pool/seed3/full"
    keys = {"keyfile": "results/default/keys/digits/efficientnet-lite0_96px/keys.npz"}
    original = {"original": f"{models}/original-t/system.safetensors"}
    assert streams.list_input_files("digits", "3", "cf") == HALVES | original
    original = {"original": f"{models}/original-m/system.safetensors"}
    assert streams.list_input_files("digits", "3", "munkey") == HALVES | original | keys
    assert streams.list_input_files("digits", "3", "retrain-m") == HALVES | keys


def test_nothing_need_be_added():
    assert StreamSettings(pairs=2, requests=3, additions=[]).additions == []


def test_additions_after_the_last_request_are_refused():
    with pytest.raises(ParamsError, match=r"additions = \[3, 6, 9\]: there are only 5 requests"):
        small_plan({"stream.requests": 5})


def test_a_stream_depends_on_how_its_system_is_trained_unlearned_and_asked(streams: StreamPlan):
    assert {"method", "finetune", "train", "inference"} <= streams.get_settings(
        "digits", "cf"
    ).keys()
    oracle = streams.get_settings("digits", "retrain-m")
    assert {"munkey", "train", "inference"} <= oracle.keys() and "method" not in oracle


def test_methods_that_forget_whole_classes_alone_have_no_stream():
    forget = {"rates": [0.1], "sampling": "class", "names": None}
    with pytest.raises(ValueError, match=r"no stream: all methods .unsir. can only forget whole"):
        StreamPlan(small_plan({"methods": ["unsir"], "forget": forget})).list_systems("digits")
