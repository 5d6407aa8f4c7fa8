"""How fast a machine trains, from the benchmark file of this or of a named one, and how much memory it has."""

import json
import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from munkey.core.device import gpu_visible
from munkey.experiment.cost.flops import Measured, Network
from munkey.experiment.run.provenance import provenance
from munkey.settings import ModelSettings

RESULTS = Path("benchmarks/results")
# The models that `make bench` trains, by how it calls them.
BENCHED = {
    "ViT-T/16 at 224 px": Network(ModelSettings(patch_size=16, width=192, depth=12, heads=3, mlp_ratio=4.0), 224, 10),
    "small ViT": Network(ModelSettings(patch_size=4, width=64, depth=4, heads=4, mlp_ratio=4.0), 16, 10),
}
LAUNCHES = 60, 45  # kernels of a training step on a GPU: around the blocks, and of each block [assumed]
LAUNCH_S = 1e-5  # from one kernel's launch to the next, from Python [assumed]


@dataclass(frozen=True)
class Machine:
    """speeds: floating-point operations per second of whole training steps, by a model's name in BENCHED.

    memory: bytes for one job; gpu: whether jobs compute on GPUs; measured: whether the speeds come from a benchmark.
    """

    name: str
    speeds: dict[str, float]
    memory: float
    gpu: bool
    measured: bool = True

    def speed(self, network: Network | Measured) -> float:
        """Operations per second of the benchmarked model whose operations per image are nearest, as a ratio."""
        nearest = min(self.speeds, key=lambda name: abs(math.log(BENCHED[name].forward / network.forward)))
        return self.speeds[nearest]

    def launch_s(self, network: Network | Measured) -> float:
        """Least seconds of a training step, whatever the batch; 0 on a CPU."""
        return LAUNCH_S * (LAUNCHES[0] + LAUNCHES[1] * network.layers) if self.gpu else 0.0


def machine(name: str | None = None, memory_gb: float | None = None, folder: Path = RESULTS) -> Machine:
    """The machine of a benchmark file `speed-NAME.json`, an assumed one, or this one where there is no name.

    This one, where it was not benchmarked, has its own memory and the speeds of another of its kind, assumed: of the
    first CPU in the folder, or of a GPU. Raises ValueError that lists the names there are.
    """
    file = folder / f"speed-{name}.json"
    if name and name not in ASSUMED and not file.exists():
        names = [*(path.stem.removeprefix("speed-") for path in sorted(folder.glob("speed-*.json"))), *ASSUMED]
        raise ValueError(f"no benchmarks of {name}: `make bench` measures a machine; there are {', '.join(names)}")
    known = _this(folder) if name is None else ASSUMED[name] if name in ASSUMED else _measured(file)
    return replace(known, memory=memory_gb * 1e9) if memory_gb else known


def _this(folder: Path) -> Machine:
    gpu = gpu_visible()
    own = folder / f"speed-{slug(provenance({}, 'cuda' if gpu else 'cpu')['device'])}.json"
    if own.exists():
        return _measured(own)
    alike = [] if gpu else [found for found in map(_measured, sorted(folder.glob("speed-*.json"))) if not found.gpu]
    (assumed,) = ASSUMED.values()
    other = [*alike, assumed][0]
    name = f"this machine, not benchmarked, at the speed of {other.name.removesuffix(', assumed')}"
    return replace(other, name=name, memory=_memory(gpu), measured=False)


def slug(device: str) -> str:
    """A device as it stands in the names of benchmark files."""
    return re.sub(r"\W+", "-", device).strip("-").lower()


def _measured(file: Path) -> Machine:
    content = json.loads(file.read_text())
    medians = {result["name"]: result["median"] for result in content["results"]}
    device = content["machine"]["device"]
    gpu = not device.endswith("CPU")
    precision = "bfloat16" if gpu else "float32"  # what precision: auto means
    speeds = {
        title: network.step * medians[f"{title}, {precision}: ViT"]
        for title, network in BENCHED.items()
        if f"{title}, {precision}: ViT" in medians
    }
    return Machine(device, speeds, _memory(gpu), gpu)


def _memory(gpu: bool) -> float:
    """Bytes of memory of this machine's GPU, or of the host."""
    if gpu and gpu_visible():
        from munkey.core.gpu import free_bytes

        return free_bytes()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# A card without a benchmark file. The images/s are the target of docs/performance.md, not a measurement.
_H200: dict[str, float] = dict.fromkeys(BENCHED, 8_000 * BENCHED["ViT-T/16 at 224 px"].step)
ASSUMED = {"h200-assumed": Machine("one H200, assumed", _H200, 141e9, gpu=True, measured=False)}
