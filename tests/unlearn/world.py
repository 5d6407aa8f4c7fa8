"""A tiny real experiment for the tests of unlearning: 93 scanned digits, a ViT, MUNKEY, SISA and a KNN index."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from sklearn.datasets import load_digits

from munkey.core.randomness import Stage
from munkey.data.augment import Augmentation
from munkey.data.image_set import ImageSet, LabeledImages, image_set
from munkey.data.prepared import Dataset
from munkey.encoders.keys import Keys
from munkey.memory.neighbors import drop_self, find_nearest
from munkey.models.families.example_tied_dropout import ExampleTiedSettings
from munkey.models.families.sisa import SisaSettings
from munkey.models.families.spm import SpmSettings
from munkey.models.family import FAMILIES, MemberKeys, Recipe, System, Training
from munkey.models.networks.vit import ViTArchitecture
from munkey.settings import FinetuneSettings
from munkey.unlearn.contract import METHODS, Request, Tuning
from tests.models.inputs import quiet
from tests.training import inputs
from tests.training.inputs import DATA, MODEL

PROJECT = Path(__file__).parents[2]
PARAMS = yaml.safe_load((PROJECT / "params.yaml").read_text())
ARCHITECTURE = ViTArchitecture(classes=10, image_size=8, **MODEL.model_dump())
TRAIN = inputs.TRAIN.model_copy(update={"epochs": 60})
MUNKEY = inputs.MUNKEY.model_copy(update={"p_image": 0.1, "p_token": 0.3, "neighbors": [2, 5]})
SISA = SisaSettings(shards=5, slices=2)
EXAMPLE_TIED = ExampleTiedSettings(p_fixed=0.5, p_mem=0.2)
SPM = SpmSettings(support=40)
STAGE = Stage("tiny", "original")
SISA_STAGE = Stage("tiny", "sisa")
CROPS = Augmentation(size=8, scale=[0.5, 1.0], ratio=[0.75, 4 / 3], mean=0.5, std=0.5)
WHOLE = Augmentation(size=8, scale=[1.0, 1.0], ratio=[1.0, 1.0], mean=0.5, std=0.5)  # crops nothing
BATCH = 16  # neither |D_r| = 60, |D_f| = 13 nor |val| = 20 is a multiple of it
EPOCHS = 2
LINEAR_LAYERS = [
    *("blocks.0.attn.qkv", "blocks.0.attn.proj", "blocks.0.mlp.fc1", "blocks.0.mlp.fc2"),
    *("blocks.1.attn.qkv", "blocks.1.attn.proj", "blocks.1.mlp.fc1", "blocks.1.mlp.fc2"),
]

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class World:
    """parts: the retain, forget and validation set. originals: trained systems, by the name of their family."""

    dataset: Dataset
    forget_ids: np.ndarray
    parts: dict[str, ImageSet]
    originals: dict[str, System]


@dataclass(frozen=True)
class Recorded(ImageSet):
    """A set of images that notes the ids of every batch drawn from it."""

    log: list[np.ndarray]

    def batch(self, index: torch.Tensor, device: str) -> LabeledImages:
        self.log.append(self.ids[index.numpy()])
        return super().batch(index, device)


@cache
def world() -> World:
    """The experiment. Its originals are trained once in a process, on one thread."""
    torch.set_num_threads(1)
    digits = load_digits()
    images = np.repeat(
        np.round(digits.images[:93, :, :, None] * (255 / 16)).astype(np.uint8), 3, axis=-1
    )
    images.flags.writeable = False
    splits = np.array(["train"] * 73 + ["val"] * 20)
    ids = 10 * np.arange(93) + 3  # unlike rows, so that one cannot pass for the other
    dataset = Dataset(images, ids, digits.target[:93].astype(np.int64), splits, list("0123456789"))
    members = dataset.get_ids("train")
    samples = image_set(dataset, members)
    forget = members[::6]
    vectors = images[:73, :, :, 0].reshape(73, 64).astype(np.float32)
    keys = Keys(members, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    near = MemberKeys(keys.keys, drop_self(find_nearest(keys, keys, 6), members, 5))

    def trained(family: str, members: MemberKeys | None = None) -> System:
        training = Training(samples, 10, recipe(family), "cpu", quiet, members)
        return FAMILIES[family].train(training).system

    originals = {"munkey": trained("munkey", near)}
    for family in ("vit", "sisa", "example-tied-dropout", "spm"):
        originals[family] = trained(family)
    for family in ("knn", "lda", "ncm", "ranpac", "krr", "newton"):
        originals[family] = fitted(family, keys, samples.labels)
    return World(
        dataset=dataset,
        forget_ids=forget,
        parts={
            "retain": image_set(dataset, np.setdiff1d(members, forget)),
            "forget": image_set(dataset, forget),
            "val": image_set(dataset, dataset.get_ids("val")),
        },
        originals=originals,
    )


def fitted(family: str, keys: Keys, labels: np.ndarray) -> System:
    """A system of keys and labels, with the family's section of params.yaml."""
    kind: Any = FAMILIES[family]
    section = kind.read_section(PARAMS)
    if family == "ranpac":
        section = section.model_copy(update={"features": 100})  # quick to solve for
    return kind.fit(keys, labels, 10, section, STAGE / family)


def recipe(family: str) -> Recipe:
    """How the original of a family is trained."""
    if family == "sisa":
        return sisa_recipe()
    family_settings = {"munkey": MUNKEY, "example-tied-dropout": EXAMPLE_TIED, "spm": SPM}.get(
        family
    )
    return Recipe(DATA, MODEL, TRAIN, family_settings, STAGE / family)


def sisa_recipe(epochs: int = 3) -> Recipe:
    """Two slices; with three epochs, two epochs each."""
    return Recipe(DATA, MODEL, TRAIN.model_copy(update={"epochs": epochs}), SISA, SISA_STAGE)


def tuning(
    epochs: int = EPOCHS, batch_size: int = BATCH, augment: Augmentation = CROPS, lr: float = 1e-3
) -> Tuning:
    """How to fine-tune. No epochs at all are allowed here: then a method does only what it begins with."""
    shared = FinetuneSettings(
        epochs=max(epochs, 1), batch_size=batch_size, betas=[0.9, 0.99], weight_decay=0.05
    )
    return Tuning(shared.model_copy(update={"epochs": epochs}), lr, augment, "float32")


def make_request(
    name: str, *, seed: int = 0, tuned: Tuning | None = None, **fields: Any
) -> Request:
    """A request to a method, with what its job would hand it. fields: of the request, to be changed."""
    method = METHODS[name]
    usual = {
        "forget_ids": world().forget_ids,
        "generator": Stage("tiny", seed, name).torch_generator(),
        "device": "cpu",
        "report": quiet,
        "needs": method.needs,
        "data": world().parts,
        "recipe": recipe(method.family) if method.original.learns else None,
        "finetuning": (tuned or tuning()) if method.finetunes else None,
    }
    return Request(**usual | fields)


def settings(name: str, **changed: Any) -> Any:
    """The method's section of params.yaml, with changes."""
    return METHODS[name].settings(**PARAMS["unlearn"][name] | changed)


def original(name: str) -> System:
    """What a method starts from."""
    return world().originals[METHODS[name].family]


def unlearn(
    name: str,
    *,
    seed: int = 0,
    tuned: Tuning | None = None,
    changed: dict[str, Any] | None = None,
    **fields: Any,
) -> tuple[System, Request]:
    """Run a method on its original. Returns its system and the request with what it reported."""
    request = make_request(name, seed=seed, tuned=tuned, **fields)
    return METHODS[name].run(original(name), request, settings(name, **changed or {})), request


def tensors(system: System) -> Tensors:
    """All weights and the memory, by name."""
    by_name = {}
    if system.model is not None:
        by_name.update(system.model.state_dict())
    if system.memory is not None:
        by_name["memory.ids"] = system.memory.ids
        by_name["memory.keys"] = system.memory.keys
        by_name["memory.tokens"] = system.memory.tokens
    return by_name


def weights(system: System) -> Tensors:
    """A copy of all weights, by name."""
    assert system.model is not None
    return {name: value.clone() for name, value in system.model.state_dict().items()}


def same(a: Tensors, b: Tensors) -> bool:
    """Whether the names and every bit agree."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def recorded() -> tuple[dict[str, ImageSet], dict[str, list[np.ndarray]]]:
    """The parts, and by part the ids of each batch that is drawn from them from now on."""
    parts: dict[str, ImageSet] = {}
    logs: dict[str, list[np.ndarray]] = {}
    for name, part in world().parts.items():
        logs[name] = []
        parts[name] = Recorded(part.images, part.rows, part.ids, part.labels, logs[name])
    return parts, logs


def column(history: list[dict[str, Any]], name: str) -> list[Any]:
    """A number of each epoch that a method reports."""
    return [epoch[name] for epoch in history]


def sizes(batches: list[np.ndarray]) -> list[int]:
    """How many samples each batch has."""
    return [len(batch) for batch in batches]


def whole(part: str) -> LabeledImages:
    """All images of a part as a model reads them at test time, and its labels."""
    samples = world().parts[part]
    images, targets = samples.batch(torch.arange(len(samples)), "cpu")
    return LabeledImages((images - 0.5) / 0.5, targets)


def answer(pixels: torch.Tensor) -> torch.Tensor:
    """Logits of the original ViT, from pixels in [0, 1]."""
    return original("amun").model((pixels - 0.5) / 0.5)


def forget() -> LabeledImages:
    """The forget set in one batch, pixels in [0, 1]."""
    samples = world().parts["forget"]
    return samples.batch(torch.arange(len(samples)), "cpu")


def plain_descent(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Replace AdamW by plain gradient descent: then the change of a weight *is* its gradient, times the rate."""
    for module in modules:
        monkeypatch.setattr(
            f"{module}.adamw", lambda parameters, *_: torch.optim.SGD(list(parameters), lr=0.0)
        )
