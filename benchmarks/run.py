"""`make bench`: run the benchmarks, print their results, and write files to benchmarks/results.

The files are speed-MACHINE.json, memory-MACHINE.json and search-MACHINE.json. A file is written
only if all of its benchmarks were run: `python -m benchmarks.run search` writes only the last one.
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
from benchmarks.memory_file import memory
from benchmarks.search import search
from benchmarks.training import attention, training
from munkey.experiment.run.job import keep_freed_memory

Benchmark = Callable[[str, int], list[Result]]
FILES: dict[str, dict[str, Benchmark]] = {  # the benchmarks in each file, by name
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
    known_names = ", ".join(BENCHMARKS)
    parser.add_argument("names", nargs="*", help=f"any of {known_names}; by default, all")
    parser.add_argument("--rounds", type=int, default=9, help="measurements per benchmark")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    unknown_names = set(arguments.names) - set(BENCHMARKS)
    if unknown_names:
        parser.error(f"unknown: {', '.join(sorted(unknown_names))}; there are {known_names}")
    keep_freed_memory()
    for kind, benchmarks in FILES.items():
        chosen = [name for name in benchmarks if name in (arguments.names or BENCHMARKS)]
        start = time.monotonic()
        results: list[Result] = []
        for name in chosen:
            results += benchmarks[name](arguments.device, arguments.rounds)
        if len(chosen) == len(benchmarks):
            write(kind, results, time.monotonic() - start, arguments.device, arguments.out)


def write(kind: str, results: list[Result], seconds: float, device: str, folder: Path) -> None:
    """Write the results, with a description of this machine, and print the path of the file."""
    machine = this_machine(device)
    description = {
        **machine,
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "minutes": round(seconds / 60, 1),
    }
    path = file_for(machine, kind, folder)
    path.write_text(json.dumps({"machine": description, "results": results}, indent=2) + "\n")
    print(path)


if __name__ == "__main__":
    main()
