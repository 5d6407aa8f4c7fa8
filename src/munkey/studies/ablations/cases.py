"""The cases of ablations, KNOB/VALUE, and what their values must not be."""

import re
from collections.abc import Mapping

from munkey.experiment.params.case_faults import find_knob_faults
from munkey.experiment.params.messages import shorten
from munkey.experiment.params.overlays import make_name, read_knobs, read_sections
from munkey.experiment.params.schema import Params
from munkey.experiment.params.studies import Case
from munkey.studies.ablations.settings import Ablations


def list_cases(params: Params, dataset: str) -> Mapping[str, Case]:
    """Return a case for each value of each ablation."""
    cases = {}
    for knob, values in params.for_case(dataset).section(Ablations).root.items():
        for value in values:
            name = f"{knob}/{make_name(value)}"
            cases[name] = Case(read_sections(knob, value), setting=f"ablations: {name}")
    return cases


def find_faults(params: Params, dataset: str) -> list[str]:
    """Return messages about values that are repeated, cannot be folders, or set other knobs."""
    faults = []
    for knob, values in params.for_case(dataset).section(Ablations).root.items():
        names = list(map(make_name, values))
        if len(set(names)) != len(names):
            faults.append(f"ablations.{knob} = {shorten(names)}: each may be listed only once")
        for name in names:
            folder = f"{knob}/{name}"
            if not re.fullmatch(r"[\w.]+/[\w.-]+", folder):
                faults.append(
                    f"ablations: {folder}: this becomes the name of a folder; use only letters,"
                    " digits, _ and ."
                )
        for value in values:
            knobs = read_knobs(knob, value)
            faults += find_knob_faults(f"ablations.{knob}", knobs, also_allowed=("keys",))
    return faults
