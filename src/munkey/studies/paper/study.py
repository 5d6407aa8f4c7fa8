"""The paper's numbers beside ours, and whether a run is in the paper's setting (docs/running.md)."""

from munkey.experiment.params.studies import Study

STUDY = Study(needs=("ablations", "selection"))
