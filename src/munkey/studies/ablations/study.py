"""Ablations: the paper's family with other values of its knobs (app. D; docs/running.md)."""

from munkey.experiment.params.studies import Study
from munkey.studies.ablations.cases import find_faults, list_cases
from munkey.studies.ablations.plan import list_runs
from munkey.studies.ablations.settings import Ablations

STUDY = Study(
    dataset_sections={"ablations": Ablations},
    list_cases=list_cases,
    find_faults=find_faults,
    list_runs=list_runs,
)
