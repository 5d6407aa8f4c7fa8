"""The cases that ablations and the selection add, and the ablations that are refused."""

import pytest

from munkey.pipeline.params import ParamsError, load


def ablated(config, **ablations):
    return load(config | {"ablations": ablations})


def test_a_case_is_the_data_set_with_one_thing_changed(config):
    params = ablated(config, **{"inference.k": [8], "munkey": [{"p_image": 0.2, "p_token": 0.2}]})
    assert params.of("digits/inference.k/8").inference.k == 8
    assert params.of("digits").inference.k == 4
    assert params.of("digits/munkey/0.2_0.2").munkey.p_image == 0.2
    assert params.of("digits/p_drop/0.0_0.0").munkey.p_token == 0.0


@pytest.mark.parametrize(
    ("ablations", "message"),
    [
        ({"inference.k": [99]}, "inference.k/99: inference.k = 99 must be at most keys.depth"),
        ({"munkey.p_image": [0.95]}, "at most 1"),
        ({"inference.kk": [1]}, "unknown key; did you mean 'k'"),
        ({"forget.rates": [[0.5]]}, "not a knob of MUNKEY"),
        ({"keys.depth": [3]}, "not a knob of MUNKEY"),
    ],
)
def test_a_bad_ablation_is_refused_before_any_job(config, ablations, message):
    with pytest.raises(ParamsError) as refused:
        ablated(config, **ablations)
    assert message in str(refused.value)
