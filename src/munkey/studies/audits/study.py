"""Audits: how much is left of what was deleted (docs/audits.md)."""

from munkey.experiment.params.studies import Study

STUDY = Study(sections={})
