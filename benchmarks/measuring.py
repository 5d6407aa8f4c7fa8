"""How speed is measured: alternately, several times, with a median and quartiles.

Whatever is compared is measured alternately within one run, so that a slow minute affects both sides.
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
    """One line of the table of speeds. n: how often it was measured; q25, q75: quartiles."""

    name: str
    n: int
    median: float
    q25: float
    q75: float
    unit: str


class Machine(Provenance):
    """Where something was measured, and when."""

    cores: int
    date: str


def turned(names: Iterable[str], round_number: int) -> list[str]:
    """The names, in the opposite order in every second round."""
    return list(names)[:: (-1) ** round_number]


def seconds_of(
    sides: Mapping[str, Callable[[], object]], rounds: int, device: str
) -> dict[str, list[float]]:
    """Seconds that each side takes in each round. A first round does not count.

    All sides run in every round, in an order that is turned around each time.
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
    """Median and quartiles of what was measured, printed too."""
    low, middle, high = np.percentile(values, [25, 50, 75]).tolist()
    print(
        f"{name:58} {middle:12.4g} {unit:12} [{low:.4g} .. {high:.4g}]  n = {len(values)}",
        flush=True,
    )
    return {"name": name, "n": len(values), "median": middle, "q25": low, "q75": high, "unit": unit}


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Round by round."""
    return [above / below for above, below in zip(numerators, denominators, strict=True)]


def this_machine(device: str) -> Machine:
    cores, date = len(os.sched_getaffinity(0)), datetime.now(UTC).date().isoformat()
    return {**provenance({}, device), "cores": cores, "date": date}


def file_for(machine: Machine, kind: str, folder: Path) -> Path:
    """Where this machine's results of a kind, `speed`, `memory` or `grid`, are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "-", machine["device"]).strip("-").lower()
    return folder / f"{kind}-{name}.json"
