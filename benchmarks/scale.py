"""Draws what was measured of the durable memory on to 10⁹ rows: `python -m benchmarks.scale docs/gallery/scale`.

Without a path it measures verify and compact: CPU seconds by number of rows, and bytes of the ledger a deleted row.
The numbers are kept in benchmarks/results/scale.json; docs/scale.md says which command measured each. A curve goes on
from its last measured point as a power of the number of rows.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from benchmarks.measuring import RESULTS
from munkey.memory.store.store import Store
from munkey.report.figures.theme import DASHES, DOUBLE, THEME, canvas, freeze, point_style, save

LARGEST = 1e9


class Curve(TypedDict):
    """rows, seconds: what was measured; power: seconds grow like rows to this power."""

    rows: list[float]
    seconds: list[float]
    power: float


class Kept(TypedDict):
    """bytes: of a row at 768 dimensions, by part; times: by operation."""

    bytes: dict[str, float]
    times: dict[str, Curve]


def kept() -> Kept:
    return cast(Kept, json.loads((RESULTS / "scale.json").read_text()))


def at(curve: Curve, rows: float) -> float:
    """Seconds at so many rows, extrapolated from the last measured point."""
    return float(curve["seconds"][-1] * (rows / curve["rows"][-1]) ** curve["power"])


def draw_bytes(axes: Axes, parts: dict[str, float]) -> None:
    rows = np.array([1e4, LARGEST])
    for number, (name, size) in enumerate(parts.items()):
        style = point_style(number)
        axes.plot(rows, rows * size / 1e9, color=style.color, marker=style.marker, label=name)
    axes.set(
        xscale="log", yscale="log", xlabel="rows", ylabel="gigabytes", title="Size at 768 dimensions: rows times bytes"
    )
    axes.legend(fontsize=6)


def draw_times(axes: Axes, curves: dict[str, Curve]) -> None:
    for number, (name, curve) in enumerate(curves.items()):
        style, last = point_style(number), curve["rows"][-1]
        axes.plot(curve["rows"], curve["seconds"], color=style.color, marker=style.marker, label=name)
        axes.plot([last, LARGEST], [at(curve, last), at(curve, LARGEST)], color=style.color, linestyle=DASHES[1])
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds", title="Time: markers measured, dashes not")
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
        draw_times(right, numbers["times"])
        save(freeze(figure), stem)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]).with_suffix(""))
    else:
        print(*map(measure, (2_000, 20_000, 100_000)), sep="\n")
