"""Speed, measured: `make bench` prints n, median and spread, and writes benchmarks/results/speed-MACHINE.json.

Whatever is compared is measured in turns within one run, so that a slow minute hits both sides. All data is random:
speed does not depend on what the pixels show.
"""

import argparse
import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from munkey import evaluate, models, runtime
from munkey.images import ImageSet, Loader, to_unit, uploaded
from munkey.memory import ExemplarMemory
from munkey.precision import DTYPES, Precision
from munkey.randomness import torch_generator
from munkey.system import System
from munkey.train import Augmentation, Exemplars, adamw, classified

PAPER = {"image_size": 224, "classes": 10, "patch_size": 16, "width": 192, "depth": 12, "heads": 3, "mlp_ratio": 4.0}
SMALL = {"image_size": 16, "classes": 10, "patch_size": 4, "width": 64, "depth": 4, "heads": 4, "mlp_ratio": 4.0}
SIDE = {"cpu": 2048, "cuda": 8192}  # of a square matrix product, large enough to be what the machine can do at best
PRODUCT = {device: 2 * side**3 for device, side in SIDE.items()}
CROP = {"scale": [0.08, 1.0], "ratio": [0.75, 4 / 3], "mean": 0.5, "std": 0.5}


def turned(names: Iterable[str], round_number: int) -> list[str]:
    """The names, in the opposite order in every second round."""
    return list(names)[:: (-1) ** round_number]


def measured(sides: dict[str, Callable[[], object]], rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds of each side, side by side in every round, the order turned each time; a round before does not count."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for round_number in range(rounds + 1):
        for name in turned(sides, round_number):
            with runtime.Stopwatch(device) as watch:
                sides[name]()
            if round_number:
                found[name].append(watch.seconds)
    return found


def told(name: str, values: Sequence[float], unit: str) -> dict[str, Any]:
    low, middle, high = np.percentile(values, [25, 50, 75])
    print(f"{name:58} {middle:12.4g} {unit:12} [{low:.4g} .. {high:.4g}]  n = {len(values)}", flush=True)
    return {"name": name, "n": len(values), "median": middle, "q25": low, "q75": high, "unit": unit}


@dataclass(frozen=True)
class Stepper:
    """A model and what trains it for a number of steps."""

    steps: Callable[[int], None]
    model: torch.nn.Module


def flops_of_step(model: torch.nn.Module, arguments: Sequence[torch.Tensor]) -> float:
    """Multiply-adds, counted twice, of one forward and backward pass."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model(*arguments).square().mean().backward()
    return float(counter.get_total_flops())


def stepper(shape: dict[str, Any], munkey: bool, batch: int, device: str, precision: str, **how: bool) -> Stepper:
    """Training steps from raw pixels on: crop, forward, backward, AdamW. how: compile, streamed."""
    size, count = shape["image_size"], 4 * batch
    pixels = np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    samples = ImageSet(pixels, np.arange(count), np.arange(count), np.arange(count) % shape["classes"])
    if device == "cuda" and not how.get("streamed"):
        samples = uploaded(samples, device)
    augment = Augmentation(size, CROP["scale"], CROP["ratio"], CROP["mean"], CROP["std"])
    own = {"token_dim": 128} if munkey else {}
    model = models.build("munkey" if munkey else "vit", shape | own, torch_generator("bench")).to(device).train()
    answer = torch.compile(model) if how.get("compile") else model
    held = exemplars(count, device) if munkey else None
    learned = [*model.parameters(), *([held.tokens] if held else [])]
    optimizer, crops = adamw(learned, [0.9, 0.99], 0.05), torch_generator("crops")
    optimizer.param_groups[0]["lr"] = 1e-4
    computing = Precision(precision, device)

    def steps(number: int) -> None:
        indices = [torch.randint(0, count, (batch,), generator=crops) for _ in range(number)]
        for drawn in Loader(samples, indices, device):
            images = augment(drawn.images, crops)
            with computing.forward():
                logits = held.forward(answer, images, drawn.index) if held else answer(images)
                loss, _ = classified(logits, drawn.labels)
            computing.descend(loss, optimizer)

    return Stepper(steps, model)


def exemplars(count: int, device: str) -> Exemplars:
    settings = SimpleNamespace(
        architecture="input-level", token_dim=128, token_std=0.02, p_image=0.1, p_token=0.3, p_retrieve=0.2,
        neighbors=[2, 16], temperature=0.07,
    )  # fmt: skip
    keys = np.random.default_rng(0).normal(size=(count, 64)).astype(np.float32)
    near = np.random.default_rng(1).integers(0, count, (count, 16))
    return Exemplars(
        np.arange(count), settings, keys, (near, np.full((count, 16), 0.5, np.float32)), ("bench",), device
    )


def sizes(device: str) -> list[tuple[str, dict[str, Any], int]]:
    """Name, shape and batch size of the models that are measured."""
    return [("ViT-T/16 at 224 px", PAPER, 512 if device == "cuda" else 16), ("small ViT", SMALL, 64)]


def training(device: str, rounds: int) -> list[dict[str, Any]]:
    """Whole training steps of ViT and MUNKEY in turns with a matrix product: on a GPU, that is the MFU."""
    found = []
    for precision in ("float32", "bfloat16"):
        products: list[float] = []
        for title, shape, batch in sizes(device):
            steps = 2 if shape is PAPER and device == "cpu" else 20
            seconds = in_turns(shape, batch, device, precision, steps, rounds)
            peaks = [PRODUCT[device] / s for s in seconds.pop("matrix product")]
            products += peaks
            for name, times in seconds.items():
                found.append(told(f"{title}, {precision}: {name}", [steps * batch / s for s in times], "images/s"))
            images = torch.randn(batch, 3, shape["image_size"], shape["image_size"], device=device)
            flops = steps * flops_of_step(stepper(shape, False, batch, device, precision).model, [images])
            share = [100 * flops / s / peak for s, peak in zip(seconds["ViT"], peaks, strict=True)]
            found.append(told(f"{title}, {precision}: ViT's share of the matrix product", share, "%"))
            ratio = [m / v for m, v in zip(seconds["MUNKEY"], seconds["ViT"], strict=True)]
            found.append(told(f"{title}, {precision}: time of MUNKEY / ViT", ratio, "x"))
        found.append(told(f"matrix product, {precision}", [peak / 1e9 for peak in products], "GFLOP/s"))
    return found


def in_turns(
    shape: dict[str, Any], batch: int, device: str, precision: str, steps: int, rounds: int
) -> dict[str, list[float]]:
    """Seconds per round of a matrix product and of so many training steps of each model.

    ViT and MUNKEY are made anew in every round, in turns: where in memory a model lies changes its speed.
    """
    a, b = (torch.randn(SIDE[device], SIDE[device], device=device, dtype=DTYPES[precision]) for _ in range(2))
    how = (batch, device, precision)
    once = {"ViT, compiled": stepper(shape, False, *how, compile=True)}
    if device == "cuda":
        once["ViT, images streamed"] = stepper(shape, False, *how, streamed=True)
    found: dict[str, list[float]] = {name: [] for name in ("matrix product", "ViT", "MUNKEY", *once)}
    for round_number in range(rounds):
        pair = {name: stepper(shape, name == "MUNKEY", *how) for name in turned(["ViT", "MUNKEY"], round_number)}
        sides: dict[str, Callable[[], object]] = {"matrix product": lambda: a @ b}
        sides |= {name: partial(made.steps, steps) for name, made in (pair | once).items()}
        for name, times in measured(sides, 1, device).items():
            found[name] += times
    return found


def attention(device: str, rounds: int) -> list[dict[str, Any]]:
    """Attention of a block as a CPU computes it against torch's fused kernel, which a GPU takes; there and back."""
    found: list[dict[str, Any]] = []
    for precision in ("float32", "bfloat16") if device == "cpu" else ():
        for title, shape, batch in sizes(device):
            length = 1 + (shape["image_size"] // shape["patch_size"]) ** 2
            parts = (batch, length, 3, shape["heads"], shape["width"] // shape["heads"])
            qkv = torch.randn(parts, dtype=DTYPES[precision], requires_grad=True)
            repeat = 4 if shape is PAPER else 100
            sides = {
                "ours": partial(attended, models.attend, qkv, repeat),
                "fused": partial(attended, F.scaled_dot_product_attention, qkv, repeat),
            }
            seconds = measured(sides, rounds, device)
            ratio = [ours / fused for ours, fused in zip(seconds["ours"], seconds["fused"], strict=True)]
            found.append(told(f"attention of {title}, {precision}: time of ours / torch's fused", ratio, "x"))
    return found


def attended(attend: Callable[..., torch.Tensor], qkv: torch.Tensor, repeat: int) -> None:
    for _ in range(repeat):  # in the order in memory in which a model has it
        attend(*qkv.permute(2, 0, 3, 1, 4)).transpose(1, 2).flatten(2).square().mean().backward()
        qkv.grad = None


def input_pipeline(device: str, rounds: int) -> list[dict[str, Any]]:
    """Our batched crop against torchvision's per-image transforms in a DataLoader, from the same uint8 array."""
    from torch.utils.data import DataLoader, TensorDataset
    from torchvision.transforms import v2

    count, size = 512, 224
    pixels = torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8)
    samples = ImageSet(pixels.numpy(), np.arange(count), np.arange(count), np.zeros(count, np.int64))
    augment, crops = Augmentation(size, CROP["scale"], CROP["ratio"], 0.5, 0.5), torch_generator("crops")
    transform = v2.Compose(
        [v2.RandomResizedCrop(size, antialias=True), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])]
    )

    class Transformed(TensorDataset):
        def __getitem__(self, index: int) -> torch.Tensor:
            return transform(self.tensors[0][index].permute(2, 0, 1))

    workers = min(len(os.sched_getaffinity(0)), 8)
    loader = DataLoader(Transformed(pixels), batch_size=128, shuffle=True, num_workers=workers, persistent_workers=True)

    def ours() -> None:
        for index in torch.randperm(count).split(128):
            augment(samples.batch(index, device)[0], crops)

    def theirs() -> None:
        for batch in loader:
            batch.to(device)

    seconds = measured({"ours": ours, "theirs": theirs}, rounds, device)
    ratio = [b / a for a, b in zip(seconds["ours"], seconds["theirs"], strict=True)]
    return [
        told("input, ours, batched", [count / s for s in seconds["ours"]], "images/s"),
        told(
            f"input, torchvision, DataLoader with {workers} workers", [count / s for s in seconds["theirs"]], "images/s"
        ),
        told("input, ours against torchvision", ratio, "x"),
    ]


def deletion(device: str, rounds: int) -> list[dict[str, Any]]:
    """MUNKEY's forgetting of a tenth of a memory, however large."""
    found = []
    for rows in (1_000, 100_000, 1_000_000):
        keys, tokens = torch.zeros(rows, 16, device=device), torch.zeros(rows, 128, device=device)
        memory = ExemplarMemory(torch.arange(rows, device=device), keys, tokens)
        gone = np.arange(0, rows, 10)
        seconds = measured({"": lambda memory=memory, gone=gone: memory.forget(gone)}, rounds, device)[""]
        found.append(told(f"delete {len(gone):,} of {rows:,} rows", [1e3 * s for s in seconds], "ms"))
    return found


def evaluation(device: str, rounds: int) -> list[dict[str, Any]]:
    """MUNKEY's answers by number of neighbours, paired with the ViT's."""
    count, rng = 256, np.random.default_rng(0)
    samples = ImageSet(
        rng.integers(0, 256, (count, 16, 16, 3), dtype=np.uint8),
        np.arange(count),
        np.arange(count),
        np.zeros(count, int),
    )
    data = SimpleNamespace(image_size=16, pixel_mean=0.5, pixel_std=0.5)
    memory = ExemplarMemory(torch.arange(count), torch.zeros(count, 8), torch.randn(count, 128))
    model = models.build("munkey", SMALL | {"token_dim": 128}, torch_generator("bench")).to(device).eval()
    munkey = System(
        "munkey", {}, model, ExemplarMemory(*(t.to(device) for t in (memory.ids, memory.keys, memory.tokens)))
    )
    vit = System("vit", {}, models.build("vit", SMALL, torch_generator("bench")).to(device).eval(), None)
    near = rng.integers(0, count, (count, 16)), np.full((count, 16), 0.5, np.float32)
    sides: dict[str, Callable[[], object]] = {"ViT": lambda: evaluate.predict(vit, samples, data, device)}
    for k in (1, 4, 16):
        settings = SimpleNamespace(k=k, fusion="ensemble", temperature=0.07)
        sides[f"MUNKEY, K = {k}"] = lambda s=settings: evaluate.predict(munkey, samples, data, device, near, s)
    seconds = measured(sides, rounds, device)
    return [told(f"evaluate {name}", [count / s for s in times], "images/s") for name, times in seconds.items()]


def retrieval(device: str, rounds: int) -> list[dict[str, Any]]:
    """Exact neighbours on the CPU, and keys from the embedded encoder; each where its library is installed."""
    found = []
    try:
        from munkey.neighbors import nearest

        rng = np.random.default_rng(0)
        held = rng.normal(size=(50_000, 768)).astype(np.float32)
        held /= np.linalg.norm(held, axis=1, keepdims=True)
        ids, queries = np.arange(len(held)), held[:1000]
        seconds = measured({"": lambda: nearest(queries, ids[:1000], held, ids, 17)}, max(1, rounds // 3), "cpu")[""]
        found.append(told("neighbours in 50,000 x 768", [len(queries) / s for s in seconds], "queries/s"))
    except ImportError:
        print("neighbours: faiss is not installed here")
    try:
        from munkey.encoders import find

        settings = SimpleNamespace(encoder="efficientnet-lite0", image_size=96, batch_size=64, revision=None)
        encode = find("efficientnet-lite0").build(settings, device)
        images = np.random.default_rng(0).integers(0, 256, (64, 96, 96, 3), dtype=np.uint8)
        batch = to_unit(torch.from_numpy(images)).to(device)
        with torch.inference_mode():
            seconds = measured({"": lambda: encode(batch)}, rounds, device)[""]
        found.append(told("keys, efficientnet-lite0 at 96 px", [len(images) / s for s in seconds], "images/s"))
    except ImportError:
        print("keys: the encoder's package is not installed here")
    return found


BENCHMARKS = {
    "training": training,
    "attention": attention,
    "input": input_pipeline,
    "deletion": deletion,
    "evaluation": evaluation,
    "retrieval": retrieval,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help=f"which of {', '.join(BENCHMARKS)}; none: all, and the file is written"
    )
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    unknown = set(given.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    runtime.keep_freed_memory()
    started = time.time()
    results = [line for name in given.names or BENCHMARKS for line in BENCHMARKS[name](given.device, given.rounds)]
    if given.names:
        return
    machine = runtime.provenance({}, given.device) | {
        "cores": len(os.sched_getaffinity(0)), "threads": torch.get_num_threads(), "system": platform.platform(),
        "date": datetime.now(UTC).date().isoformat(), "minutes": round((time.time() - started) / 60, 1),
    }  # fmt: skip
    given.out.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "-", machine["device"]).strip("-").lower()
    path = given.out / f"speed-{name}.json"
    path.write_text(json.dumps({"machine": machine, "results": results}, indent=2) + "\n")
    print(path)


if __name__ == "__main__":
    main()
