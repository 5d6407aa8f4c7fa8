"""`make bench`: run the benchmarks, print n, median and spread, and write benchmarks/results/speed-MACHINE.json."""

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
from munkey.pipeline.job import keep_freed_memory

BENCHMARKS: dict[str, Callable[[str, int], list[Result]]] = {
    "training": training,
    "attention": attention,
    "input": input_pipeline,
    "deletion": deletion,
    "evaluation": evaluation,
    "retrieval": lookup,
    "memory": memory,
    "search": search,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    listed = ", ".join(BENCHMARKS)
    parser.add_argument("names", nargs="*", help=f"which of {listed}; none: all, and the file is written")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {listed}")
    keep_freed_memory()
    started = time.monotonic()
    names = arguments.names or list(BENCHMARKS)
    results = [result for name in names for result in BENCHMARKS[name](arguments.device, arguments.rounds)]
    if not arguments.names:
        write(results, time.monotonic() - started, arguments.device, arguments.out)


def write(results: list[Result], seconds: float, device: str, folder: Path) -> None:
    """Write all results, with the machine that they come from, and print where."""
    machine = this_machine(device)
    described = {
        **machine,
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "minutes": round(seconds / 60, 1),
    }
    path = file_for(machine, "speed", folder)
    path.write_text(json.dumps({"machine": described, "results": results}, indent=2) + "\n")
    print(path)


if __name__ == "__main__":
    main()
