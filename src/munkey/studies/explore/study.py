"""A page for each data set, on which single samples are looked at (docs/explore.md)."""

from munkey.experiment.params.studies import Study
from munkey.studies.explore.settings import ExploreSettings

STUDY = Study(sections={"explore": ExploreSettings}, needs=("audits", "scenarios"))
