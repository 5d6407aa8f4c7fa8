"""How speed is measured: repeatedly, with a median and quartiles.

Sides that are compared are measured alternately within one run, so that a slow minute affects both.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

import numpy as np

from munkey.core.device import Stopwatch
from munkey.experiment.run.provenance import Provenance, provenance

RESULTS = Path(__file__).parent / "results"


class Result(TypedDict):
    """A row of the table of speeds.

    Attributes
    ----------
    n
        The number of measurements.
    q25, q75
        Quartiles.
    """

    name: str
    n: int
    median: float
    q25: float
    q75: float
    unit: str


class Machine(Provenance):
    """The machine of a measurement, and its date."""

    cores: int
    date: str


def turned(names: Iterable[str], round_number: int) -> list[str]:
    """Return the names, in reverse order if the round is odd."""
    ordered_names = list(names)
    if round_number % 2:
        ordered_names.reverse()
    return ordered_names


def seconds_of(
    sides: Mapping[str, Callable[[], object]], rounds: int, device: str
) -> dict[str, list[float]]:
    """Measure the seconds that each side takes in each round. A first round is not counted.

    All sides run in every round, and their order is reversed each time.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for round_number in range(rounds + 1):
        for name in turned(sides, round_number):
            with Stopwatch(device) as watch:
                sides[name]()
            if round_number:
                seconds[name].append(watch.seconds)
    return seconds


def summary(name: str, values: Sequence[float], unit: str) -> Result:
    """Return the median and quartiles of measured values, and print them."""
    low, middle, high = np.percentile(values, [25, 50, 75]).tolist()
    print(
        f"{name:58} {middle:12.4g} {unit:12} ({low:.4g} – {high:.4g})  n = {len(values)}",
        flush=True,
    )
    return {"name": name, "n": len(values), "median": middle, "q25": low, "q75": high, "unit": unit}


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Divide two series of measurements, which were made in the same rounds, round by round."""
    pairs = zip(numerators, denominators, strict=True)
    return [numerator / denominator for numerator, denominator in pairs]


def this_machine(device: str) -> Machine:
    """Describe the machine that this process runs on, with today's date."""
    cores = len(os.sched_getaffinity(0))  # those that this process may use
    date = datetime.now(UTC).date().isoformat()
    return {**provenance({}, device), "cores": cores, "date": date}


def file_for(machine: Machine, kind: str, folder: Path) -> Path:
    """Return the file for a machine's results, after creating the folder.

    Parameters
    ----------
    kind
        `speed`, `memory`, `search` or `grid`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "-", machine["device"]).strip("-").lower()
    return folder / f"{kind}-{name}.json"
