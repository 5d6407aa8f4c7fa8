"""What stands in the grid of the search: the paper's values, and a method's own."""

import pytest

from munkey.experiment.params.load import ParamsError, load
from munkey.unlearn.contract import METHODS, TuningSettings, method


def searched(config, **changes):
    return load(config | {"search": True} | changes)


def test_the_grid_of_the_paper(config):
    params = searched(config)
    rates = [settings.lr_factor for settings in params.candidates("digits", "cf")]
    assert rates == [0.1, 0.25, 0.5, 1.0]
    scrub = params.candidates("digits", "scrub")
    assert [s.lr_factor for s in scrub] == rates and all(s.gamma == 1.0 for s in scrub)
    pairs = [(s.alpha, s.lam) for s in params.candidates("digits", "ssd")]
    assert pairs == [(a, lam) for a in (1.0, 2.0, 5.0, 10.0, 25.0) for lam in (0.5, 1.0)]
    assert [dict(candidate) for candidate in params.candidates("digits", "munkey")] == [{}]
    neggrad = params.candidates("digits", "neggrad-plus")
    assert {s.alpha for s in neggrad} == {0.95}  # ssd.alpha is SSD's alone


def test_a_method_that_stands_in_the_grid_by_name_has_its_own_values(config):
    params = searched(config, search_grid={"lr_factor": [0.5], "cf.lr_factor": [0.1, 0.2]})
    assert [s.lr_factor for s in params.candidates("digits", "cf")] == [0.1, 0.2]
    assert [s.lr_factor for s in params.candidates("digits", "amun")] == [0.5]


def test_a_grid_of_too_many_combinations_is_refused_before_they_are_made(config):
    class Many(TuningSettings):
        b: float
        c: float
        d: float
        e: float
        f: float
        g: float
        h: float
        i: float
        j: float

    @method("many", title="Many", description="", family="vit", settings=Many)
    def many(system, request, settings):
        return system

    try:
        config["unlearn"]["many"] = dict.fromkeys(Many.model_fields, 1.0)
        config["methods"] = ["many"]
        grid = {f"many.{key}": [float(n) for n in range(1, 11)] for key in Many.model_fields}
        with pytest.raises(
            ParamsError, match=r"search_grid: many: 10,000,000,000 combinations; at most 1,000"
        ):
            searched(config, search_grid=grid)
        three = dict(list(grid.items())[:3])
        assert len(searched(config, search_grid=three).candidates("digits", "many")) == 1000
    finally:
        METHODS.remove("many")


def test_a_grid_of_a_method_with_a_memory_is_refused_only_while_the_search_is_on(config):
    @method("mine", title="Mine", description="", family="munkey", settings=TuningSettings)
    def mine(system, request, settings):
        return system

    try:
        config["unlearn"]["mine"] = {"lr_factor": 1.0}
        config["methods"] = ["mine"]
        load(config | {"search": False})
        with pytest.raises(
            ParamsError, match="search_grid: mine: only methods of a family without a memory"
        ):
            searched(config)
    finally:
        METHODS.remove("mine")
