"""Plans of a small experiment: the project's parameters with what the tests name written out."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from munkey.experiment.cost.machines import RESULTS, Machine, find_machine
from munkey.experiment.params.load import load, read_params
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from tests.conftest import ROOT, changed, read_config

ENCODER = {"encoder": "efficientnet-lite0", "revision": None}
SMALL = {
    "datasets": ["digits"],
    "seeds": [0, 1],
    "methods": ["knn", "cf", "ssd", "munkey"],
    "forget.rates": [0.02, 0.10],
    "keys": ENCODER | {"image_size": 96, "batch_size": 64, "depth": 33},
    "munkey.p_drop": "fixed",
    "munkey.p_image": 0.3,
    "munkey.p_token": 0.1,
    "munkey.token_dim": 128,
    "inference": {"k": 4, "fusion": "ensemble", "temperature": 0.07},
    "selection.p_image": [0.1, 0.3],
    "selection.p_token": [0.1],
    "search": False,
    "search_grid": {"lr_factor": [0.1, 1.0], "ssd.alpha": [2.0, 5.0], "ssd.lam": [0.5, 1.0]},
    "overrides": {},
}
ABLATIONS = {
    "inference.k": [4, 8],
    "munkey.token_dim": [32, 128],
    "keys": [ENCODER | {"image_size": 64}, ENCODER | {"image_size": 96}],
}


def small_config(changes: Mapping[str, object] | None = None) -> dict[str, Any]:
    """The parameters, with values set by their dotted keys. `ablations` and `scenarios` are replaced as a whole."""
    config = read_config()
    values = SMALL | {"ablations": ABLATIONS, "scenarios": {}} | dict(changes or {})
    for key, value in values.items():
        config = changed(config, key, value)
    return config


def small_plan(changes: Mapping[str, object] | None = None) -> Plan:
    return Plan(load(small_config(changes)))


def small_exhibits(changes: Mapping[str, object] | None = None) -> Exhibits:
    """The rows, figures and designs that a small experiment shows."""
    return Exhibits(small_plan(changes))


@cache
def epyc() -> Machine:
    """The machine of the benchmarks that the repository holds."""
    return find_machine("amd-epyc-cpu", folder=ROOT / RESULTS)


def plan_of(*overlays: str, **changes: object) -> Plan:
    """The plan of the project's parameters with presets laid over them, then sections replaced."""
    config = read_params([ROOT / path for path in overlays], ROOT / "params.yaml")
    return Plan(load(config | changes))
