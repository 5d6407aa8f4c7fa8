"""`make bench`: run the benchmarks, print n, median and spread, and write three files of benchmarks/results.

speed-MACHINE.json, memory-MACHINE.json and search-MACHINE.json: each where all that belongs in it was measured, so that
`python -m benchmarks.run search` writes the last.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.inference import deletion, evaluation, input_pipeline, lookup
from benchmarks.measuring import RESULTS, Result, file_for, this_machine
from benchmarks.memory import memory
from benchmarks.search import search
from benchmarks.training import attention, training
from munkey.experiment.run.job import keep_freed_memory

Benchmark = Callable[[str, int], list[Result]]
FILES: dict[str, dict[str, Benchmark]] = {  # what belongs in which file, by name
    "speed": {
        "training": training,
        "attention": attention,
        "input": input_pipeline,
        "deletion": deletion,
        "evaluation": evaluation,
        "retrieval": lookup,
    },
    "memory": {"memory": memory},
    "search": {"search": search},
}
BENCHMARKS = {
    name: benchmark for benchmarks in FILES.values() for name, benchmark in benchmarks.items()
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    listed = ", ".join(BENCHMARKS)
    parser.add_argument("names", nargs="*", help=f"which of {listed}; none: all")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {listed}")
    keep_freed_memory()
    for kind, benchmarks in FILES.items():
        chosen = [name for name in benchmarks if name in (arguments.names or BENCHMARKS)]
        started = time.monotonic()
        results = [
            result
            for name in chosen
            for result in benchmarks[name](arguments.device, arguments.rounds)
        ]
        if len(chosen) == len(benchmarks):
            write(kind, results, time.monotonic() - started, arguments.device, arguments.out)


def write(kind: str, results: list[Result], seconds: float, device: str, folder: Path) -> None:
    """Write all results, with the machine that they come from, and print where."""
    machine = this_machine(device)
    described = {
        **machine,
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "minutes": round(seconds / 60, 1),
    }
    path = file_for(machine, kind, folder)
    path.write_text(json.dumps({"machine": described, "results": results}, indent=2) + "\n")
    print(path)


if __name__ == "__main__":
    main()
