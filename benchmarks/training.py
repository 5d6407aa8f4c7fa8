"""Speed of training steps of ViT and MUNKEY, and of attention.

The data is random, because speed does not depend on it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.measuring import Result, ratios, seconds_of, summary, turned
from munkey.core.randomness import Stage
from munkey.data.augment import Augmentation
from munkey.data.image_set import ImageSet, upload
from munkey.data.loader import Loader
from munkey.memory.neighbors import Neighbors
from munkey.models.families.munkey import Exemplars, MunkeySettings
from munkey.models.family import FAMILIES, MemberKeys, Recipe
from munkey.models.networks.vit import attend
from munkey.settings import DataSettings, ModelSettings, TrainSettings
from munkey.training.loop import adamw, classification_outcome
from munkey.training.precision import DTYPES, Precision

CLASSES = 10
STAGE = Stage("bench")
# Side of a square matrix product that is large enough to reach the machine's best speed.
SIDE = {"cpu": 2048, "cuda": 8192}
FLOPS_OF_PRODUCT = {device: 2 * side**3 for device, side in SIDE.items()}
MUNKEY = MunkeySettings(
    architecture="input-level",
    token_dim=128,
    token_std=0.02,
    p_drop="fixed",
    p_image=0.1,
    p_token=0.3,
    p_retrieve=0.2,
    neighbors=[2, 16],
    aggregation="softmax",
    temperature=0.07,
    head="none",
)

Number = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Size:
    """A size of model.

    Attributes
    ----------
    batch
        Images per step.
    steps
        Steps per measurement.
    """

    title: str
    image_size: int
    model: ModelSettings
    batch: int
    steps: int

    @property
    def data(self) -> DataSettings:
        return DataSettings(image_size=self.image_size, pixel_mean=0.5, pixel_std=0.5)

    @property
    def tokens(self) -> int:
        """The number of tokens to which the ViT attends: [CLS] and the patches."""
        return 1 + (self.image_size // self.model.patch_size) ** 2


SMALL = Size(
    "small ViT", 16, ModelSettings(patch_size=4, width=64, depth=4, heads=4, mlp_ratio=4.0), 64, 20
)


def paper_size(device: str) -> Size:
    """Return the paper's ViT-T/16, with fewer and smaller batches on a CPU."""
    model = ModelSettings(patch_size=16, width=192, depth=12, heads=3, mlp_ratio=4.0)
    if device == "cuda":
        batch = 512
        steps = 20
    else:
        batch = 16
        steps = 2
    return Size("ViT-T/16 at 224 px", 224, model, batch, steps)


def sizes(device: str) -> list[Size]:
    return [paper_size(device), SMALL]


@dataclass(frozen=True)
class Setup:
    """The setup of a training.

    Attributes
    ----------
    streamed
        Whether images are copied to the GPU batch by batch instead of all at once.
    """

    size: Size
    family: Literal["vit", "munkey"]
    device: str
    precision: Number
    compile: bool = False
    streamed: bool = False

    def recipe(self) -> Recipe:
        train = TrainSettings(
            epochs=1,
            batch_size=self.size.batch,
            lr=1e-4,
            warmup_epochs=0,
            betas=[0.9, 0.99],
            weight_decay=0.05,
            crop_scale=[0.08, 1.0],
            crop_ratio=[0.75, 4 / 3],
            precision=self.precision,
            compile=self.compile,
        )
        return Recipe(
            self.size.data,
            self.size.model,
            train,
            MUNKEY if self.family == "munkey" else None,
            STAGE,
        )

    def network(self) -> nn.Module:
        """Build a new model for training."""
        family = FAMILIES[self.family]
        model = family.build(
            family.make_architecture(self.recipe(), CLASSES), STAGE.torch_generator()
        )
        return model.to(self.device).train()


@dataclass(frozen=True)
class Stepper:
    """A model, and a function that trains it for a number of steps."""

    steps: Callable[[int], None]
    model: nn.Module


def stepper(setup: Setup) -> Stepper:
    """Return training steps that start from raw pixels: crop, forward, backward, AdamW."""
    device = setup.device
    batch = setup.size.batch
    recipe = setup.recipe()
    samples = random_images(4 * batch, setup.size.image_size)
    if device == "cuda" and not setup.streamed:
        samples = upload(samples, device)
    augment = Augmentation.from_settings(recipe.data, recipe.train)
    crops = Stage("crops").torch_generator()
    model = setup.network()
    forward: Callable[..., Tensor] = torch.compile(model) if setup.compile else model
    memory = exemplars(len(samples), device) if setup.family == "munkey" else None
    learned = list(model.parameters())
    if memory:
        learned.append(memory.tokens)
    optimizer = adamw(learned, recipe.train.betas, recipe.train.weight_decay)
    optimizer.param_groups[0]["lr"] = recipe.train.lr
    precision = Precision(setup.precision, device)

    def steps(number: int) -> None:
        indices = [torch.randint(0, len(samples), (batch,), generator=crops) for _ in range(number)]
        for drawn in Loader(samples, indices, device):
            images = augment(drawn.images, crops)
            with precision.forward():
                if memory:
                    logits = memory.forward(forward, images, drawn.index)
                else:
                    logits = forward(images)
                loss = classification_outcome(logits, drawn.labels).loss
            precision.descend(loss, optimizer)

    return Stepper(steps, model)


def random_images(count: int, size: int) -> ImageSet:
    pixels = np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    return ImageSet(pixels, np.arange(count), np.arange(count), np.arange(count) % CLASSES)


def exemplars(count: int, device: str) -> Exemplars:
    """Make a memory of `count` random keys, with random neighbors that are all equally near."""
    keys = np.random.default_rng(0).normal(size=(count, 64)).astype(np.float32)
    ids = np.random.default_rng(1).integers(0, count, (count, 16))
    neighbors = Neighbors(ids, np.full((count, 16), 0.5, np.float32))
    return Exemplars(np.arange(count), MemberKeys(keys, neighbors), MUNKEY, STAGE, device)


@cache
def multiplies_bfloat16() -> bool:
    """Return whether a bfloat16 matrix product is faster than a float32 one on this machine's CPU.

    The best of three times is compared. Some processors support bfloat16, but are slower with it.
    For others, torch emulates it, which is hundreds of times slower.
    """
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    best_seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        square = torch.ones(SIDE["cpu"] // 2, SIDE["cpu"] // 2, dtype=dtype)
        seconds = seconds_of({"product": partial(torch.mm, square, square)}, 3, "cpu")
        best_seconds[dtype] = min(seconds["product"])
    return best_seconds[torch.bfloat16] < best_seconds[torch.float32]


def precisions(device: str) -> tuple[Number, ...]:
    """Return the precisions to measure. bfloat16 is measured only where it is fast."""
    if device == "cuda" or multiplies_bfloat16():
        return ("float32", "bfloat16")
    return ("float32",)


def training(device: str, rounds: int) -> list[Result]:
    """Measure training steps of ViT and MUNKEY, alternately with a matrix product.

    On a GPU, the ViT's share of the matrix product's speed is its model FLOPs utilization (MFU).
    """
    results = []
    for precision in precisions(device):
        speeds_of_product: list[float] = []
        for size in sizes(device):
            seconds = seconds_of_steps(size, device, precision, rounds)
            products = [FLOPS_OF_PRODUCT[device] / s for s in seconds.pop("matrix product")]
            speeds_of_product += products
            results += [
                summary(
                    f"{size.title}, {precision}: {name}",
                    [size.steps * size.batch / s for s in times],
                    "images/s",
                )
                for name, times in seconds.items()
            ]
            flops = size.steps * flops_of_step(Setup(size, "vit", device, precision))
            share = [
                100 * flops / s / product
                for s, product in zip(seconds["ViT"], products, strict=True)
            ]
            results.append(
                summary(f"{size.title}, {precision}: ViT's share of the matrix product", share, "%")
            )
            ratio = ratios(seconds["MUNKEY"], seconds["ViT"])
            results.append(summary(f"{size.title}, {precision}: time of MUNKEY / ViT", ratio, "x"))
        speeds = [speed / 1e9 for speed in speeds_of_product]
        results.append(summary(f"matrix product, {precision}", speeds, "GFLOP/s"))
    return results


def flops_of_step(setup: Setup) -> float:
    """Count the floating-point operations of a forward and backward pass, two per multiply-add."""
    from torch.utils.flop_counter import FlopCounterMode

    images = torch.randn(
        setup.size.batch, 3, setup.size.image_size, setup.size.image_size, device=setup.device
    )
    with FlopCounterMode(display=False) as counter:
        setup.network()(images).square().mean().backward()
    return float(counter.get_total_flops())


def seconds_of_steps(
    size: Size, device: str, precision: Number, rounds: int
) -> dict[str, list[float]]:
    """Measure the seconds per round of a matrix product and of `size.steps` steps of each model.

    ViT and MUNKEY are built again in every round, in alternating order, because the location of a
    model in memory affects its speed.
    """
    a, b = (
        torch.randn(SIDE[device], SIDE[device], device=device, dtype=DTYPES[precision])
        for _ in range(2)
    )
    pair = {
        "ViT": Setup(size, "vit", device, precision),
        "MUNKEY": Setup(size, "munkey", device, precision),
    }
    made_once = {"ViT, compiled": stepper(Setup(size, "vit", device, precision, compile=True))}
    if device == "cuda":
        made_once["ViT, images streamed"] = stepper(
            Setup(size, "vit", device, precision, streamed=True)
        )
    seconds: dict[str, list[float]] = {name: [] for name in ("matrix product", *pair, *made_once)}
    for round_number in range(rounds):
        steppers = {name: stepper(pair[name]) for name in turned(pair, round_number)}
        steppers |= made_once
        sides: dict[str, Callable[[], object]] = {"matrix product": lambda: a @ b}
        for name, model_stepper in steppers.items():
            sides[name] = partial(model_stepper.steps, size.steps)
        for name, times in seconds_of(sides, 1, device).items():
            seconds[name] += times
    return seconds


def attention(device: str, rounds: int) -> list[Result]:
    """Compare our attention for CPUs with torch's fused kernel, in the forward and backward pass.

    Measures nothing on a GPU, where the fused kernel is used.
    """
    results: list[Result] = []
    if device != "cpu":
        return results
    for precision in precisions(device):
        for size in sizes(device):
            shape = (
                size.batch,
                size.tokens,
                3,
                size.model.heads,
                size.model.width // size.model.heads,
            )
            qkv = torch.randn(shape, dtype=DTYPES[precision], requires_grad=True)
            repeats = 100 if size is SMALL else 4
            sides = {
                "ours": partial(attend_both_ways, attend, qkv, repeats),
                "fused": partial(attend_both_ways, F.scaled_dot_product_attention, qkv, repeats),
            }
            seconds = seconds_of(sides, rounds, device)
            name = f"attention of {size.title}, {precision}: time of ours / torch's fused"
            results.append(summary(name, ratios(seconds["ours"], seconds["fused"]), "x"))
    return results


def attend_both_ways(kernel: Callable[..., Tensor], qkv: Tensor, repeats: int) -> None:
    """Run attention forward and backward.

    Parameters
    ----------
    qkv
        Queries, keys and values (B, n, 3, heads, d), in a model's memory layout.
    """
    for _ in range(repeats):
        kernel(*qkv.permute(2, 0, 3, 1, 4)).transpose(1, 2).flatten(2).square().mean().backward()
        qkv.grad = None
