"""Relearning: does what was forgotten come back in further training (docs/audits.md)?"""

from munkey.experiment.params.studies import Study
from munkey.studies.relearning.settings import RelearnSettings

STUDY = Study(sections={"audit.relearn": RelearnSettings})
