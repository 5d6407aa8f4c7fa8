"""Speed of input, deletion, evaluation and retrieval.

The data is random, because speed does not depend on it.
"""

import os
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.measuring import Result, ratios, seconds_of, summary
from benchmarks.training import SMALL, Setup, random_images
from munkey.core.randomness import Stage
from munkey.data.augment import Augmentation
from munkey.data.image_set import ImageSet, to_unit_range
from munkey.encoders.keys import Keys
from munkey.encoders.registry import find
from munkey.memory.exemplars import ExemplarMemory
from munkey.memory.neighbors import Neighbors, find_nearest
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.settings import EncoderSettings, InferenceSettings


def input_pipeline(device: str, rounds: int) -> list[Result]:
    """Compare our batched crops with torchvision's transforms of single images in a DataLoader.

    Both read the same uint8 array.
    """
    size = 224
    samples = random_images(512, size)
    workers = min(len(os.sched_getaffinity(0)), 8)
    sides = {
        "ours": batched_crops(samples, size, device),
        "theirs": loaded_crops(samples, size, workers, device),
    }
    seconds = seconds_of(sides, rounds, device)
    theirs = f"input, torchvision, DataLoader with {workers} workers"
    return [
        summary("input, ours, batched", [len(samples) / s for s in seconds["ours"]], "images/s"),
        summary(theirs, [len(samples) / s for s in seconds["theirs"]], "images/s"),
        summary("input, ours against torchvision", ratios(seconds["theirs"], seconds["ours"]), "x"),
    ]


def batched_crops(samples: ImageSet, size: int, device: str) -> Callable[[], None]:
    """Return a function that runs an epoch of our crops, in batches of 128."""
    augment = Augmentation(size, scale=[0.08, 1.0], ratio=[0.75, 4 / 3], mean=0.5, std=0.5)
    crops = Stage("crops").torch_generator()

    def epoch() -> None:
        for index in torch.randperm(len(samples)).split(128):
            augment(samples.batch(index, device).images, crops)

    return epoch


def loaded_crops(samples: ImageSet, size: int, workers: int, device: str) -> Callable[[], None]:
    """Return a function that runs an epoch of torchvision's crops, in batches of 128."""
    from torch.utils.data import DataLoader, TensorDataset
    from torchvision.transforms import v2

    transform = v2.Compose(
        [
            v2.RandomResizedCrop(size, antialias=True),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5], [0.5]),
        ]
    )

    class Transformed(TensorDataset):
        def __getitem__(self, index: int) -> Tensor:  # type: ignore[override]  # one tensor, not several
            return transform(self.tensors[0][index].permute(2, 0, 1))

    pixels = torch.as_tensor(samples.images)
    loader = DataLoader(
        Transformed(pixels),
        batch_size=128,
        shuffle=True,
        num_workers=workers,
        persistent_workers=True,
    )

    def epoch() -> None:
        for batch in loader:
            batch.to(device)

    return epoch


def deletion(device: str, rounds: int) -> list[Result]:
    """Measure how long MUNKEY takes to forget a tenth of its memory, at several sizes of memory."""
    results = []
    for rows in (1_000, 100_000, 1_000_000):
        keys = torch.zeros(rows, 16, device=device)
        tokens = torch.zeros(rows, 128, device=device)
        memory = ExemplarMemory(torch.arange(rows), keys, tokens)
        forget_ids = np.arange(0, rows, 10)
        seconds = seconds_of({"forget": partial(memory.forget, forget_ids)}, rounds, device)
        milliseconds = [1e3 * s for s in seconds["forget"]]
        name = f"delete {len(forget_ids):,} of {rows:,} rows"
        results.append(summary(name, milliseconds, "ms"))
    return results


def evaluation(device: str, rounds: int) -> list[Result]:
    """Measure predictions of the ViT and of MUNKEY with several numbers of neighbors."""
    samples = random_images(256, SMALL.image_size)
    sides: dict[str, Callable[[], object]] = {
        "ViT": partial(logits, small_system("vit", device), samples, device, None)
    }
    ids = np.random.default_rng(0).integers(0, len(samples), (len(samples), 16))
    neighbors = Neighbors(ids, np.full(ids.shape, 0.5, np.float32))
    for k in (1, 4, 16):
        retrieval = Retrieval(
            neighbors, InferenceSettings(k=k, fusion="ensemble", temperature=0.07)
        )
        sides[f"MUNKEY, K = {k}"] = partial(
            logits, small_system("munkey", device), samples, device, retrieval
        )
    seconds = seconds_of(sides, rounds, device)
    return [
        summary(f"evaluate {name}", [len(samples) / s for s in times], "images/s")
        for name, times in seconds.items()
    ]


def small_system(family: str, device: str) -> System:
    """Make a small system of the family `vit` or `munkey`. MUNKEY has a memory of 256 rows."""
    setup = Setup(SMALL, "munkey" if family == "munkey" else "vit", device, "float32")
    architecture = FAMILIES[family].make_architecture(setup.recipe(), 10)
    model = setup.network().eval()
    if family == "vit":
        return System(family, architecture, model)
    keys = torch.zeros(256, 8, device=device)
    tokens = torch.randn(256, 128).to(device)
    return System(family, architecture, model, ExemplarMemory(torch.arange(256), keys, tokens))


def logits(
    system: System, samples: ImageSet, device: str, retrieval: Retrieval | None
) -> np.ndarray:
    return FAMILIES[system.family].predict_logits(system, samples, SMALL.data, device, retrieval)


def lookup(device: str, rounds: int) -> list[Result]:
    """Measure the search for exact neighbors and the extraction of keys.

    A benchmark whose library is not installed is skipped with a message.
    """
    results = []
    for benchmark in (neighbor_search, key_extraction):
        try:
            results.append(benchmark(device, rounds))
        except ImportError as error:
            print(f"skipped, because a library is missing: {error}")
    return results


def neighbor_search(device: str, rounds: int) -> Result:
    """Measure the search for exact neighbors, always on the CPU.

    Runs a third of the rounds, because each takes long.
    """
    keys = np.random.default_rng(0).normal(size=(50_000, 768)).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    members = Keys(np.arange(50_000), keys)
    queries = Keys(np.arange(1000), keys[:1000])
    search = partial(find_nearest, queries, members, 17)
    seconds = seconds_of({"search": search}, max(1, rounds // 3), "cpu")
    queries_per_second = [len(queries.ids) / s for s in seconds["search"]]
    return summary("neighbors in 50,000 x 768", queries_per_second, "queries/s")


def key_extraction(device: str, rounds: int) -> Result:
    """Measure the extraction of keys by an encoder."""
    settings = EncoderSettings(
        encoder="efficientnet-lite0", image_size=96, batch_size=64, revision=None
    )
    encode = find(settings.encoder).build(settings, device)
    images = to_unit_range(torch.as_tensor(random_images(64, 96).images)).to(device)
    with torch.inference_mode():
        seconds = seconds_of({"encode": partial(encode, images)}, rounds, device)["encode"]
    return summary(
        "keys, efficientnet-lite0 at 96 px", [len(images) / s for s in seconds], "images/s"
    )
