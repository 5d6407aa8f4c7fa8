"""Ablations of MUNKEY (app. D)."""

from munkey.experiment.params.studies import Study

STUDY = Study(sections={})
