"""Audits: how much is left of what was deleted, by pairs of models that swap halves (docs/audits.md)."""

from munkey.experiment.params.studies import Study
from munkey.studies.audits.cases import find_faults, list_cases
from munkey.studies.audits.plan import list_runs
from munkey.studies.audits.settings import AuditSettings

STUDY = Study(
    sections={"audit": AuditSettings},
    list_cases=list_cases,
    find_faults=find_faults,
    list_runs=list_runs,
)
