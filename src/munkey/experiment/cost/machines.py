"""The training speed of a machine, from its benchmark file or as given by the user."""

import json
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from munkey.core.device import has_gpu
from munkey.experiment.cost.flops import NetworkCost, count_operations
from munkey.experiment.run.provenance import provenance

RESULTS = Path("benchmarks/results")


@dataclass(frozen=True)
class Machine:
    """A machine that runs the experiment.

    Attributes
    ----------
    speeds
        Pairs of a timed network's operations per forward pass, and its operations per second in
        training; empty if unknown.
    gpu
        Whether jobs run on GPUs.
    measured
        Whether the speeds were measured on this machine.
    """

    name: str
    speeds: list[tuple[int, float]]
    gpu: bool
    measured: bool = True

    def estimate_speed(self, network: NetworkCost) -> float:
        """Return the operations per second of the timed network that is most similar in size."""

        def compute_distance(timed_network: tuple[int, float]) -> float:
            forward, _ = timed_network
            return abs(math.log(forward / network.forward))

        _, speed = min(self.speeds, key=compute_distance)
        return speed


@cache
def build_benchmarked_networks() -> dict[str, NetworkCost]:
    """Return the costs of the networks that `make bench` times, by their titles in its files."""
    import torch

    from munkey.models.networks.vit import ViT, ViTArchitecture

    tiny = ViTArchitecture(
        classes=10, image_size=224, patch_size=16, width=192, depth=12, heads=3, mlp_ratio=4.0
    )
    small = ViTArchitecture(
        classes=10, image_size=16, patch_size=4, width=64, depth=4, heads=4, mlp_ratio=4.0
    )
    costs = {}
    for title, architecture in {"ViT-T/16 at 224 px": tiny, "small ViT": small}.items():
        with torch.device("meta"):
            network = ViT(architecture)
        costs[title] = count_operations(network, architecture.image_size)
    return costs


def find_machine(
    name: str | None = None, tflops: float | None = None, folder: Path = RESULTS
) -> Machine:
    """Return the machine that an estimate is for.

    Parameters
    ----------
    name : str, optional
        The name of a benchmark file `speed-NAME.json`. Default: this machine. Without a benchmark
        of it, a CPU gets the speeds of the first benchmarked CPU, and a GPU's speed is unknown.
    tflops : float, optional
        The sustained speed in 10^12 operations per second, instead of a benchmark.

    Raises
    ------
    ValueError
        If there is no such file (the message lists the machines that have one), or if both a
        machine and a speed are given.
    """
    if tflops and name:
        raise ValueError("give a machine or its speed in TFLOP/s, not both")
    if tflops:
        # The only speed, so the size of its network (1) does not matter.
        return Machine(f"{tflops:g} TFLOP/s", [(1, tflops * 1e12)], gpu=True, measured=False)
    if name is None:
        return _find_this_machine(folder)
    file = folder / f"speed-{name}.json"
    if not file.exists():
        names = [path.stem.removeprefix("speed-") for path in sorted(folder.glob("speed-*.json"))]
        raise ValueError(
            f"no benchmarks of {name}: run `make bench` on it, or choose one of {', '.join(names)}"
        )
    return _read(file)


def _find_this_machine(folder: Path) -> Machine:
    """Return this machine. A CPU without a benchmark gets the speeds of another CPU, if any."""
    gpu = has_gpu()
    device = provenance({}, "cuda" if gpu else "cpu")["device"]
    file = folder / f"speed-{make_slug(device)}.json"
    if file.exists():
        return _read(file)
    if not gpu:
        for other_file in sorted(folder.glob("speed-*.json")):
            other = _read(other_file)
            if not other.gpu:
                name = f"this machine, not benchmarked, at the speed of {other.name}"
                return Machine(name, other.speeds, gpu=False, measured=False)
    return Machine("this machine, not benchmarked", [], gpu, measured=False)


def make_slug(device: str) -> str:
    """Return a device's name as it is written in the names of benchmark files."""
    return re.sub(r"\W+", "-", device).strip("-").lower()


def _read(file: Path) -> Machine:
    """Read a machine's speeds from its benchmark file."""
    content = json.loads(file.read_text())
    medians = {result["name"]: result["median"] for result in content["results"]}
    device = content["machine"]["device"]
    is_gpu = not device.endswith("CPU")
    precision = "bfloat16" if is_gpu else "float32"  # what `precision: auto` chooses
    speeds = []
    for title, network in build_benchmarked_networks().items():
        # The benchmark trains each network and names its results like this.
        images_per_second = medians.get(f"{title}, {precision}: ViT")
        if images_per_second:
            operations_per_second = network.step * images_per_second
            speeds.append((network.forward, operations_per_second))
    return Machine(device, speeds, is_gpu)
