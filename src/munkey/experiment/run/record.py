"""The record of a job: its settings, when and where it ran, its duration and memory."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from munkey.core.files import write_json
from munkey.core.knobs import dump_sections
from munkey.experiment.run.provenance import provenance
from munkey.settings import Sections


def write_record(
    path: str | Path,
    settings: Sections,
    device: str,
    started: str,
    history: Sequence[Mapping[str, float]],
    extra_fields: Mapping[str, object],
) -> None:
    """Write the record of a job as JSON, with its resource usage so far and its provenance.

    settings: the sections that the job depends on. started: when it began, from `now`. history: an
    entry for each epoch.
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


def now() -> str:
    """Return the current UTC time as ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def measure_usage() -> dict[str, float]:
    """Measure the peak resident memory (MiB) of this process, and its CPU time (s).

    The CPU time includes that of ended child processes. The memory of a fork includes the libraries
    that it shares with its server, but its CPU time does not include their import.
    """
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS reports bytes, all others KiB.
    units_per_mib = 2**20 if sys.platform == "darwin" else 2**10
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss includes the time before `exec`, when the process was a copy of Snakemake. VmHWM
        # ("high water mark") does not.
        match = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), flags=re.MULTILINE)
        if match:
            peak = int(match[1])
    cpu_s = sum(os.times()[:4])  # user and system time of the process, and of its children
    return {"max_rss_mb": round(peak / units_per_mib, 1), "cpu_s": round(cpu_s, 2)}
