"""The record of a job: its settings, when and where it ran, its duration and memory."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from munkey.core.files import write_json
from munkey.experiment.run.job import measure_usage, now
from munkey.experiment.run.provenance import provenance
from munkey.settings import Sections, dump_sections


def write_record(
    path: str | Path,
    settings: Sections,
    device: str,
    started: str,
    history: Sequence[Mapping[str, float]],
    extra_fields: Mapping[str, object],
) -> None:
    """Write the record of a job as JSON, with its resource usage so far and its provenance.

    Parameters
    ----------
    settings
        The sections of the parameters that the job depends on.
    device
        "cpu" or "cuda".
    started
        The time at which the job began, from `now`.
    history
        An entry for each epoch.
    extra_fields
        Further fields of the record, e.g. run times in seconds.
    """
    values = dump_sections(settings)
    record = {
        "started": started,
        "ended": now(),
        "settings": values,
        "history": history,
        "provenance": provenance(values, device),
    }
    write_json(path, {**record, **extra_fields, **measure_usage()})
