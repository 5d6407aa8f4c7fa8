"""The cases of scenarios, scenario/NAME, each with forget sets of its own."""

import re
from collections.abc import Mapping

from munkey.experiment.params.case_faults import find_class_faults
from munkey.experiment.params.schema import Params
from munkey.experiment.params.studies import Case
from munkey.studies.scenarios.settings import Scenarios

PREFIX = "scenario/"


def list_cases(params: Params, dataset: str) -> Mapping[str, Case]:
    """Return a case for each scenario."""
    cases = {}
    for name, changes in params.for_case(dataset).section(Scenarios).root.items():
        cases[f"{PREFIX}{name}"] = Case(
            {"forget": changes},
            setting=f"scenarios.{name}",
            forget="forget/{case}/seed{seed}/rate{rate}.csv",
            scope=f"{PREFIX}{name}",
        )
    return cases


def find_faults(params: Params, dataset: str) -> list[str]:
    """Return messages about names that cannot be folders, and requests that a method cannot meet."""
    dataset_params = params.for_case(dataset)
    faults = []
    for name, changes in dataset_params.section(Scenarios).root.items():
        if not re.fullmatch(r"[\w.-]+", name):
            faults.append(
                f"scenarios: {name!r}: this becomes the name of a folder; use only letters, digits,"
                " _, - and ."
            )
        sampling = str(changes.get("sampling", dataset_params.forget.sampling))
        faults += find_class_faults(params, f"scenarios.{name}", sampling)
    return faults
