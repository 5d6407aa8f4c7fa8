"""What stands in the grid of the search: the paper's values, and a method's own."""

import itertools

import pytest

from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.plan.plan import Plan
from munkey.unlearn.contract import METHODS, TuningSettings, method


def load_with_search(config, **changes):
    return load(config | {"search": True} | changes)


def test_the_grid_of_the_project_is_that_of_the_paper(config):
    params = load_with_search(config)
    rates = [settings.lr_factor for settings in params.candidates("digits", "cf")]
    assert rates == [0.1, 0.25, 0.5, 1.0]
    scrub = params.candidates("digits", "scrub")
    assert [settings.lr_factor for settings in scrub] == rates
    for settings in scrub:
        assert settings.gamma == 1.0
    ssd = [(settings.alpha, settings.lam) for settings in params.candidates("digits", "ssd")]
    assert ssd == list(itertools.product((1.0, 2.0, 5.0, 10.0, 25.0), (0.5, 1.0)))
    (munkey,) = params.candidates("digits", "munkey")
    assert dict(munkey) == {}
    for settings in params.candidates("digits", "neggrad-plus"):
        assert settings.alpha == 0.95  # ssd.alpha is SSD's alone


def test_values_by_the_name_of_a_method_replace_those_of_all_methods(config):
    params = load_with_search(config, search_grid={"lr_factor": [0.5], "cf.lr_factor": [0.1, 0.2]})
    cf = params.candidates("digits", "cf")
    assert [settings.lr_factor for settings in cf] == [0.1, 0.2]
    (amun,) = params.candidates("digits", "amun")
    assert amun.lr_factor == 0.5


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
            load_with_search(config, search_grid=grid)
        three = dict(list(grid.items())[:3])
        assert len(load_with_search(config, search_grid=three).candidates("digits", "many")) == 1000
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
        with pytest.raises(ParamsError, match="search_grid: mine: only methods"):
            load_with_search(config)
    finally:
        METHODS.remove("mine")


def test_a_grid_of_one_value_is_the_setting_that_runs(config):
    config["methods"] = ["cf", "munkey"]
    params = load_with_search(config, search_grid={"lr_factor": [0.5]})
    plan = Plan(params)
    assert plan.searched == ["cf"]  # MUNKEY has no setting in the grid
    assert plan.list_tried_values("digits")["cf"]["lr_factor"] == [0.5]
    assert Plan(load(config | {"search": False})).searched == []
