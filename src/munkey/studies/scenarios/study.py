"""Scenarios: requests that are not random (docs/scenarios.md)."""

from munkey.experiment.params.studies import Study

STUDY = Study(sections={})
