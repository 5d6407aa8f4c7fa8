"""A tiny real experiment for the tests of the unlearning methods: 93 scanned digits, a ViT, MUNKEY, a KNN index."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import yaml
from sklearn.datasets import load_digits

from munkey.data import Dataset
from munkey.images import ImageSet, image_set
from munkey.neighbors import nearest, without_self
from munkey.params import DataParams, FinetuneParams, MunkeyParams, TrainParams
from munkey.randomness import torch_generator
from munkey.sisa import train as train_sisa
from munkey.system import System, knn_index
from munkey.train import Augmentation, Recipe, Tuning, train
from munkey.unlearn import METHODS, Request

PROJECT = Path(__file__).parent.parent
PARAMS = yaml.safe_load((PROJECT / "params.yaml").read_text())
DATA = DataParams(image_size=8, pixel_mean=0.5, pixel_std=0.5)
ARCHITECTURE = {
    "image_size": 8,
    "classes": 10,
    "patch_size": 4,
    "width": 16,
    "depth": 2,
    "heads": 2,
    "mlp_ratio": 2.0,
}
STAGE = ("tiny", "original")
CROPS = Augmentation(size=8, scale=[0.5, 1.0], ratio=[0.75, 4 / 3], mean=0.5, std=0.5)
WHOLE = Augmentation(size=8, scale=[1.0, 1.0], ratio=[1.0, 1.0], mean=0.5, std=0.5)  # crops nothing: no randomness
SISA_STAGE = ("tiny", "sisa")
BATCH, EPOCHS = 16, 2  # neither |D_r| = 60, |D_f| = 13 nor |val| = 20 is a multiple of the batch

SISA_ARCHITECTURE = ARCHITECTURE | {"shards": 5, "slices": 2}
SETTINGS: dict[str, Any] = {
    "epochs": 60,
    "batch_size": BATCH,
    "lr": 4e-3,
    "warmup_epochs": 0.0,
    "betas": [0.9, 0.99],
    "weight_decay": 0.05,
    "crop_scale": [0.8, 1.0],
    "crop_ratio": [1.0, 1.0],
    "precision": "float32",
    "compile": False,
}


@dataclass(frozen=True)
class Recorded(ImageSet):
    """A data set that notes the ids of every batch drawn from it."""

    log: Any = None

    def batch(self, index: torch.Tensor, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        self.log.append(self.ids[index.numpy()])
        return super().batch(index, device)


@cache
def world() -> SimpleNamespace:
    """dataset, its parts, and the three originals by base; trained once, on one thread."""
    torch.set_num_threads(1)
    digits = load_digits()
    images = np.repeat(np.round(digits.images[:93, :, :, None] * (255 / 16)).astype(np.uint8), 3, axis=-1)
    images.flags.writeable = False
    splits = np.array(["train"] * 73 + ["val"] * 20)
    ids = 10 * np.arange(93) + 3  # unlike rows, so that one cannot pass for the other
    dataset = Dataset(images, ids, digits.target[:93].astype(np.int64), splits, [str(c) for c in range(10)])
    members = dataset.ids_of("train")
    forget = members[::6]
    samples = image_set(dataset, members)
    settings = TrainParams(**SETTINGS)
    keys = images[:73, :, :, 0].reshape(73, 64).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    near = without_self(*nearest(keys, members, keys, members, 6), members, 5)
    munkey = MunkeyParams(
        architecture="input-level",
        token_dim=8,
        token_std=0.02,
        p_drop="fixed",
        p_image=0.1,
        p_token=0.3,
        p_retrieve=0.2,
        neighbors=[2, 5],
        temperature=0.07,
    )

    def fitted(kind: str, architecture: dict[str, Any], memory: Any) -> System:
        stage = (*STAGE, kind)
        return train(kind, architecture, samples, memory, DATA, settings, stage, "cpu", lambda _: None)[0]

    return SimpleNamespace(
        dataset=dataset,
        forget_ids=forget,
        parts={
            "retain": image_set(dataset, np.setdiff1d(members, forget)),
            "forget": image_set(dataset, forget),
            "val": image_set(dataset, dataset.ids_of("val")),
        },
        originals={
            "vit": fitted("vit", ARCHITECTURE, None),
            "munkey": fitted("munkey", ARCHITECTURE | {"token_dim": 8}, (munkey, keys, near)),
            "keys": knn_index(members, keys, samples.labels, 10),
            "sisa": train_sisa(SISA_ARCHITECTURE, samples, sisa_recipe(), "cpu", lambda _: None)[0],
        },
    )


def sisa_recipe(epochs: int = 3) -> Recipe:
    """Two slices of two epochs each."""
    return Recipe(DATA, TrainParams(**SETTINGS | {"epochs": epochs}), SISA_STAGE)


def tuning(epochs: int = EPOCHS, batch_size: int = BATCH, augment: Augmentation = CROPS, lr: float = 1e-3) -> Tuning:
    shared = FinetuneParams(epochs=max(epochs, 1), batch_size=batch_size, betas=[0.9, 0.99], weight_decay=0.05)
    return Tuning(shared.model_copy(update={"epochs": epochs}), lr, augment, "float32")


def request(name: str, *, seed: int = 0, tuned: Tuning | None = None, **fields: Any) -> Request:
    given = {"needs": METHODS[name].needs, "data": world().parts} | fields
    if METHODS[name].base == "sisa":
        given.setdefault("recipe", sisa_recipe())
    generator = torch_generator("tiny", seed, name)
    return Request(
        world().forget_ids, generator, "cpu", given.pop("report", lambda _: None), tuned or tuning(), **given
    )


def settings(name: str, **changed: Any) -> Any:
    """The method's section of params.yaml, with changes."""
    return METHODS[name].settings(**PARAMS["unlearn"][name] | changed)


def original(name: str) -> System:
    return world().originals[METHODS[name].base]


def unlearn(
    name: str, *, seed: int = 0, tuned: Tuning | None = None, changed: dict[str, Any] | None = None, **fields: Any
) -> tuple[System, Request]:
    """Run a method on its original. Returns its system and the request with what it reported."""
    asked = request(name, seed=seed, tuned=tuned, **fields)
    return METHODS[name].run(original(name), asked, settings(name, **changed or {})), asked


def tensors(system: System) -> dict[str, torch.Tensor]:
    """All weights and the memory, by name."""
    found = {} if system.model is None else dict(system.model.state_dict())
    if system.memory is not None:
        found |= {f"memory.{name}": getattr(system.memory, name) for name in ("ids", "keys", "tokens")}
    return found


def weights(system: System) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in system.model.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def recorded() -> tuple[dict[str, ImageSet], dict[str, list[np.ndarray]]]:
    """The parts, and by part the ids of each batch that is drawn from them from now on."""
    logs: dict[str, list[np.ndarray]] = {part: [] for part in world().parts}
    parts = {
        name: Recorded(part.images, part.rows, part.ids, part.labels, log=logs[name])
        for name, part in world().parts.items()
    }
    return parts, logs


def whole(part: str, labels: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """All normalised images of a part at test time, and its labels."""
    samples = world().parts[part]
    samples = samples if labels is None else replace(samples, labels=labels)
    images, targets = samples.batch(torch.arange(len(samples)), "cpu")
    return (images - 0.5) / 0.5, targets


def plain_descent(monkeypatch: Any, *modules: str) -> None:
    """Replace AdamW by plain gradient descent: then the change of a weight *is* its gradient, times the rate."""
    for module in modules:
        monkeypatch.setattr(f"{module}.adamw", lambda parameters, *_: torch.optim.SGD(list(parameters), lr=0.0))
