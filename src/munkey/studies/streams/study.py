"""Streams: half of an audit's pool is forgotten in requests, one after another (docs/scenarios.md)."""

from munkey.experiment.params.studies import Study
from munkey.studies.streams.settings import StreamSettings

STUDY = Study(sections={"stream": StreamSettings}, needs=("audits",))
