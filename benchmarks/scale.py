"""Draws what was measured of the durable memory on to 10⁹ rows: `python -m benchmarks.scale docs/gallery/scale`.

Without a path it measures verify and compact: CPU seconds by number of rows, and bytes of the ledger a deleted row.
The numbers are kept in benchmarks/results/scale.json, which names what is in the file of `make bench` instead of
repeating it. A curve goes on from its last measured point as a power of the number of rows.
"""

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypedDict, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from benchmarks.measuring import RESULTS, Machine, Result
from munkey.deploy.store.store import Store
from munkey.report.figures.theme import DASHES, DOUBLE, THEME, canvas, freeze, point_style, save

LARGEST = 1e9


class Curve(TypedDict):
    """rows, seconds: what was measured; power: seconds grow like rows to this power; by: docs/gallery/scale.md."""

    rows: list[float]
    seconds: list[float]
    power: float
    by: int


class Named(TypedDict):
    """A curve as it is kept. seconds: numbers, or the names of what `make bench` measured."""

    rows: list[float]
    seconds: list[float | str]
    power: float
    by: int


class Kept(TypedDict):
    """bytes: of a row at 768 dimensions, by part; beside: the same of what is not drawn; times: by operation.

    measured: the file beside this one that has what the curves name.
    """

    bytes: dict[str, float]
    beside: dict[str, float]
    measured: str
    times: dict[str, Named]


class Measured(TypedDict):
    """What `make bench` writes of a machine."""

    machine: Machine
    results: list[Result]


def kept() -> Kept:
    return cast(Kept, json.loads((RESULTS / "scale.json").read_text()))


def measured(numbers: Kept) -> Measured:
    return cast(Measured, json.loads((RESULTS / numbers["measured"]).read_text()))


def seconds(row: Result) -> float:
    """The median of milliseconds, or of queries per second for one of them."""
    return row["median"] / 1e3 if row["unit"] == "ms" else 1 / row["median"]


def curves(times: Mapping[str, Named], results: Iterable[Result]) -> dict[str, Curve]:
    """The curves with seconds in place of names. Raises KeyError for a name that was not measured."""
    rows = {row["name"]: row for row in results}
    return {
        what: {
            "rows": curve["rows"],
            "seconds": [seconds(rows[one]) if isinstance(one, str) else one for one in curve["seconds"]],
            "power": curve["power"],
            "by": curve["by"],
        }
        for what, curve in times.items()
    }


def at(curve: Curve, rows: float) -> float:
    """Seconds at so many rows, extrapolated from the last measured point."""
    return float(curve["seconds"][-1] * (rows / curve["rows"][-1]) ** curve["power"])


SIZES = (1e6, 1e8, 1e9)  # rows, of the tables
UNITS = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "h": 5400.0, "min": 120.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6}
GROWTH = {0: "constant", 0.5: "∝ √N", 1: "∝ N"}  # by power


def in_bytes(size: float) -> str:
    unit, one = next((unit, UNITS[unit]) for unit in ("TB", "GB", "MB") if size >= UNITS[unit] or unit == "MB")
    return f"{float(f'{size / one:.3g}'):,g} {unit}"


def in_seconds(seconds: float) -> str:
    """With two digits; in minutes from two minutes on, in hours from one and a half."""
    if seconds >= UNITS["min"]:
        unit, one = ("h", 3600.0) if seconds >= UNITS["h"] else ("min", 60.0)
    else:
        unit, one = next((unit, UNITS[unit]) for unit in ("s", "ms", "µs") if seconds >= UNITS[unit] or unit == "µs")
    return f"{float(f'{seconds / one:.2g}'):g} {unit}"


def power_of_ten(count: float) -> str:
    """10⁶ of a million, 2·10³ of two thousand."""
    power = math.floor(math.log10(count))
    digits = str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    first = f"{count / 10**power:g}"
    return f"10{digits}" if first == "1" else f"{first}·10{digits}"


def bytes_table(numbers: Kept) -> str:
    """Bytes of a row, and of all rows at each size."""
    header = f"| part | bytes a row | {' | '.join(map(power_of_ten, SIZES))} |"
    lines = [
        f"| {part} | {size:g} | {' | '.join(in_bytes(size * rows) for rows in SIZES)} |"
        for part, size in (numbers["bytes"] | numbers["beside"]).items()
    ]
    return "\n".join([header, "|---" * (2 + len(SIZES)) + "|", *lines])


def times_table(times: Mapping[str, Curve]) -> str:
    """What was measured, at how many rows, how it grows, and what follows for more."""
    larger = SIZES[1:]
    header = f"| what | measured | by | grows | {' | '.join(map(power_of_ten, larger))} |"
    lines = [
        f"| {what} | {', '.join(map(in_seconds, curve['seconds']))} at {', '.join(map(power_of_ten, curve['rows']))} |"
        f" {curve['by']} | {GROWTH[curve['power']]} | {' | '.join(in_seconds(at(curve, rows)) for rows in larger)} |"
        for what, curve in times.items()
    ]
    return "\n".join([header, "|---" * (4 + len(larger)) + "|", *lines])


def draw_bytes(axes: Axes, parts: dict[str, float]) -> None:
    rows = np.array([1e4, LARGEST])
    for number, (name, size) in enumerate(parts.items()):
        axes.plot(rows, rows * size / 1e9, label=name, **point_style(number))
    axes.set(
        xscale="log", yscale="log", xlabel="rows", ylabel="gigabytes", title="Size at 768 dimensions: rows times bytes"
    )
    axes.legend(fontsize=6)


def draw_times(axes: Axes, times: dict[str, Curve]) -> None:
    for number, (name, curve) in enumerate(times.items()):
        style, last = point_style(number), curve["rows"][-1]
        axes.plot(curve["rows"], curve["seconds"], label=name, **style)
        drawn_on = [at(curve, last), at(curve, LARGEST)]
        axes.plot([last, LARGEST], drawn_on, color=style["color"], linestyle=DASHES[1])
        axes.plot(LARGEST, drawn_on[-1], markerfacecolor="none", **style)
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds", title="Time: hollow markers not measured")
    axes.legend(fontsize=6)


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(rows: int) -> dict[str, float]:
    """Of a memory of so many rows of which a tenth is deleted; in a folder in memory, where a sync costs nothing."""
    random = np.random.default_rng(0)
    keys, tokens = (random.standard_normal((rows, width), dtype="f4") for width in (768, 128))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        ledger = Path(name) / "memory" / "store.db"
        with Store.create(ledger.parent, np.arange(rows), keys, tokens) as store:
            checking = cpu_seconds(store.verify)
            store.delete(np.arange(0, rows, 10))
            store.purge()
            size = ledger.stat().st_size / (rows / 10)
            return {"rows": rows, "verify": checking, "compact": cpu_seconds(store.compact), "bytes": size}


def main(stem: Path) -> None:
    with matplotlib.rc_context(THEME):
        figure = canvas(DOUBLE, 3.2)
        left, right = figure.subplots(1, 2)
        numbers = kept()
        draw_bytes(left, numbers["bytes"])
        draw_times(right, curves(numbers["times"], measured(numbers)["results"]))
        save(freeze(figure), stem)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]).with_suffix(""))
    else:
        print(*map(measure, (2_000, 20_000, 100_000)), sep="\n")
