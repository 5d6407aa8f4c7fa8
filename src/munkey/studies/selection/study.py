"""The selection of p_image and p_token (app. E; docs/running.md)."""

from munkey.experiment.params.studies import Study
from munkey.studies.selection.cases import list_cases
from munkey.studies.selection.plan import list_runs
from munkey.studies.selection.settings import SelectionSettings

STUDY = Study(sections={"selection": SelectionSettings}, list_cases=list_cases, list_runs=list_runs)
