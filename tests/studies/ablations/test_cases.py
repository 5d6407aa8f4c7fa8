"""The cases that ablations and the selection add, and the ablations that are refused."""

import pytest

from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.plan.plan import Plan
from munkey.studies.ablations import tables as ablations


def load_ablations(config, **ablations):
    return load(config | {"ablations": ablations})


def test_a_case_is_the_data_set_with_one_thing_changed(config):
    params = load_ablations(
        config, **{"inference.k": [8], "munkey": [{"p_image": 0.2, "p_token": 0.2}]}
    )
    assert params.for_case("digits/inference.k/8").inference.k == 8
    assert params.for_case("digits").inference.k == 4
    assert params.for_case("digits/munkey/0.2_0.2").munkey.p_image == 0.2
    assert params.for_case("digits/p_drop/0.0_0.0").munkey.p_token == 0.0


BOTH = {"munkey.aggregation": "rank", "inference.fusion": "rank"}


def test_a_value_of_several_knobs_changes_several_sections(config):
    other = {"munkey.aggregation": "rank", "inference.fusion": "softmax"}
    params = load_ablations(config, aggregation=[BOTH, other])
    case = params.for_case("digits/aggregation/rank")
    assert (case.munkey.aggregation, case.inference.fusion) == ("rank", "rank")
    assert case.munkey.token_dim == params.munkey.token_dim
    assert case.inference.k == params.inference.k
    usual = params.for_case("digits")
    assert (usual.munkey.aggregation, usual.inference.fusion) == ("softmax", "ensemble")
    assert params.for_case("digits/aggregation/rank_softmax").inference.fusion == "softmax"


def test_a_fusion_is_trained_with_its_aggregation_or_shares_the_model_of_the_data_set(config):
    plan = Plan(load(config))
    trains = {}
    for place in plan.cases["digits"]:
        if "/aggregation/" in place or "/inference.fusion/" in place:
            trains[place] = plan.first_alike(place, *plan.training_sections)
    assert trains == {
        "digits/inference.fusion/ensemble": "digits",
        "digits/inference.fusion/softmax": "digits",
        "digits/inference.fusion/rank": "digits",
        "digits/aggregation/ensemble": "digits/aggregation/ensemble",
        "digits/aggregation/softmax": "digits",  # as the parameters have it already
        "digits/aggregation/rank": "digits/aggregation/rank",
    }
    for place in trains:
        name = place.rpartition("/")[-1]
        case = plan.params.for_case(place)
        assert case.inference.fusion == name
        assert case.munkey.aggregation == (name if "aggregation" in place else "softmax")


def test_the_tables_of_the_report_find_the_cases_of_the_parameters(config):
    changes = load(config).list_cases("digits")
    assert changes.keys() >= ablations.STRATEGIES.keys() | ablations.FUSIONS.keys()


@pytest.mark.parametrize(
    ("ablations", "message"),
    [
        ({"inference.k": [99]}, "inference.k/99: inference.k = 99"),
        ({"munkey.p_image": [0.95]}, "at most 1"),
        ({"inference.kk": [1]}, "unknown key; did you mean 'k'"),
        ({"forget.rates": [[0.5]]}, "not a knob of MUNKEY"),
        ({"keys.depth": [3]}, "not a knob of MUNKEY"),
        ({"keys": [{"depth": 3}]}, "ablations.keys: keys.depth is not a knob"),
        ({"aggregation": ["rank"]}, "ablations.aggregation: aggregation is not a knob"),
        (
            {"aggregation": [BOTH | {"forget.rates": [0.5]}]},
            "ablations.aggregation: forget.rates is not a knob",
        ),
        (
            {"aggregation": [BOTH | {"inference.fusio": 1}]},
            "aggregation/rank_1: inference.fusio = 1: unknown key",
        ),
        (
            {"munkey": [{"p_image": 0.2, "inference.k": 3}]},
            "munkey/0.2_3: munkey.inference = {'k': 3}: unknown key",
        ),
        (
            {"aggregation": [BOTH, BOTH]},
            "ablations.aggregation = ['rank', 'rank']",
        ),
        ({"my name": [BOTH]}, "ablations: my name/rank: "),
        ({"keys": [{}]}, "ablations: keys/: "),
    ],
)
def test_a_bad_ablation_is_refused_before_any_job(config, ablations, message):
    with pytest.raises(ParamsError) as refused:
        load_ablations(config, **ablations)
    assert message in str(refused.value)
