"""Peaks of memory, estimated and measured: `python -m benchmarks.peaks`. Linux alone can measure them.

It writes benchmarks/results/peaks.json, which docs/gallery/speed.md shows.
"""

import ctypes
import gc
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from benchmarks.inference import logits, small_system
from benchmarks.measuring import RESULTS, Peak, this_machine
from benchmarks.training import CLASSES, MUNKEY, SMALL, Setup, Size, paper_size, random_images, stepper
from munkey.experiment.cost.flops import Network, answering_bytes, training_bytes

MMAP_THRESHOLD = -3  # of mallopt


def peaks() -> dict[str, tuple[float, float]]:
    """Estimated and measured bytes beside those that the process takes anyway, by what was measured."""
    library = ctypes.CDLL("libc.so.6")
    library.mallopt(MMAP_THRESHOLD, 65536)  # so that a tensor's memory is the system's again once it is free
    torch.set_num_threads(1)
    small = Size("small ViT", SMALL.image_size, SMALL.model, 512, 1)
    large = Size("ViT-T/16 at 224 px", 224, paper_size("cpu").model, 8, 1)
    trained(Setup(Size("", SMALL.image_size, SMALL.model, 8, 1), "munkey", "cpu", "float32"))  # what loads once
    setups = [Setup(small, "vit", "cpu", "float32"), Setup(small, "munkey", "cpu", "float32")]
    setups.append(Setup(large, "vit", "cpu", "float32"))
    found = {
        f"training {setup.family}, {setup.size.title}, batch {setup.size.batch}": (
            float(training_bytes(network_of(setup), setup.size.batch, setup.size.image_size)),
            peak(partial(trained, setup), library),
        )
        for setup in setups
    }
    found["evaluation, small ViT"] = evaluated(Setup(SMALL, "vit", "cpu", "float32"), library)
    return found


def network_of(setup: Setup) -> Network:
    dim = MUNKEY.token_dim if setup.family == "munkey" else 0
    return Network(setup.size.model, setup.size.image_size, CLASSES, extra=int(dim > 0), token_dim=dim)


def trained(setup: Setup) -> None:
    stepper(setup).steps(2)


def evaluated(setup: Setup, library: ctypes.CDLL) -> tuple[float, float]:
    samples, network = random_images(2048, setup.size.image_size), network_of(setup)
    system = small_system("vit", "cpu")
    measured = peak(lambda: logits(system, samples, "cpu", None), library)
    return float(answering_bytes(network, setup.size.image_size) - 4 * network.weights), measured


def peak(work: Callable[[], object], library: ctypes.CDLL) -> float:
    """The most bytes that `work` takes at once."""
    gc.collect()
    library.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = status("VmRSS")
    work()
    return status("VmHWM") - before


def status(name: str) -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return 1024.0 * int(line.split()[1])


if __name__ == "__main__":
    found = [Peak(what=what, estimated=bytes_[0], measured=bytes_[1]) for what, bytes_ in peaks().items()]
    written = {"machine": this_machine("cpu"), "peaks": found}
    (RESULTS / "peaks.json").write_text(json.dumps(written, indent=2) + "\n")
