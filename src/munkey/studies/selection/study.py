"""The selection of p_image and p_token on validation data (app. E)."""

from munkey.experiment.params.studies import Study

STUDY = Study(sections={})
