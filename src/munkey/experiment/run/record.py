"""The record of a job: its settings, when and where it ran, and the time and memory that it took."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from munkey.core.files import write_json
from munkey.experiment.run.job import now, usage
from munkey.experiment.run.provenance import provenance
from munkey.settings import Sections, values_of


def write_record(
    path: str | Path,
    settings: Sections,
    device: str,
    started: str,
    history: Sequence[Mapping[str, float]],
    facts: Mapping[str, object],
) -> None:
    """Write the record of a job that has just ended, with its usage and its provenance, to a JSON file.

    Parameters
    ----------
    settings
        The sections of the parameters that it was given.
    device
        Cpu or cuda.
    started
        From `now`.
    history
        One entry per epoch.
    facts
        Further entries of the record, e.g. run times in seconds.
    """
    values = values_of(settings)
    origin = provenance(values, device)
    record = {
        "started": started,
        "ended": now(),
        "settings": values,
        "history": history,
        "provenance": origin,
    }
    write_json(path, {**record, **facts, **usage()})
