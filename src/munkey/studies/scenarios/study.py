"""Scenarios: the same systems after other requests than random ones (docs/scenarios.md)."""

from munkey.experiment.params.studies import Study
from munkey.studies.scenarios.cases import find_faults, list_cases
from munkey.studies.scenarios.plan import list_runs
from munkey.studies.scenarios.settings import Scenarios

STUDY = Study(
    dataset_sections={"scenarios": Scenarios},
    list_cases=list_cases,
    find_faults=find_faults,
    list_runs=list_runs,
)
