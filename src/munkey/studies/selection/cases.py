"""The cases of the selection, p_drop/PAIR: one for each pair (p_image, p_token)."""

from collections.abc import Mapping
from itertools import product

from munkey.experiment.params.overlays import make_name
from munkey.experiment.params.schema import Params, memory_family
from munkey.experiment.params.studies import Case
from munkey.studies.selection.settings import SelectionSettings


def list_pairs(params: Params) -> dict[str, dict[str, float]]:
    """Return the pairs to compare, and (0, 0), which is shown for reference, by case."""
    settings = params.section(SelectionSettings)
    pairs = {}
    for p_image, p_token in [(0.0, 0.0), *product(settings.p_image, settings.p_token)]:
        pair = {"p_image": p_image, "p_token": p_token}
        pairs[f"p_drop/{make_name(pair)}"] = pair
    return pairs


def list_cases(params: Params, dataset: str) -> Mapping[str, Case]:
    """Return a case for each pair."""
    family = memory_family().name
    cases = {}
    for name, pair in list_pairs(params).items():
        cases[name] = Case({family: {"p_drop": "fixed"} | pair}, setting=f"selection: {name}")
    return cases
