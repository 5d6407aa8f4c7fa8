"""A tiny training on scanned digits: to be killed, resumed, compiled, or run in another number format."""

from functools import cache

import numpy as np
from sklearn.datasets import load_digits

from munkey.core.randomness import Stage
from munkey.data.image_set import ImageSet
from munkey.memory.neighbors import Neighbors
from munkey.models.families.munkey import MunkeySettings
from munkey.models.families.resnet18 import ResNet18Settings
from munkey.models.family import FAMILIES, MemberKeys, Recipe, Training, TrainingResult
from munkey.settings import DataSettings, ModelSettings, TrainSettings
from munkey.training.checkpoint import CheckpointFile

DATA = DataSettings(image_size=8, pixel_mean=0.5, pixel_std=0.5)
MODEL = ModelSettings(patch_size=4, width=16, depth=2, heads=2, mlp_ratio=2.0)
TRAIN = TrainSettings(
    epochs=12,
    batch_size=16,
    lr=4e-3,
    warmup_epochs=0.0,
    betas=[0.9, 0.99],
    weight_decay=0.05,
    crop_scale=[0.8, 1.0],
    crop_ratio=[1.0, 1.0],
    precision="float32",
    compile=False,
)
MUNKEY = MunkeySettings(
    architecture="input-level",
    token_dim=8,
    token_std=0.02,
    p_drop="fixed",
    p_image=0.3,
    p_token=0.1,
    p_retrieve=0.2,
    neighbors=[2, 4],
    aggregation="softmax",
    temperature=0.07,
    head="none",
)
RESNET18 = ResNet18Settings(width=4)


@cache
def digits(count: int = 60) -> ImageSet:
    """Scanned digits of 8 x 8 pixels, ten classes; 60 is not a multiple of the batch."""
    scans = load_digits()
    images = np.repeat(
        np.round(scans.images[:count, :, :, None] * (255 / 16)).astype(np.uint8), 3, axis=-1
    )
    return ImageSet(
        images, np.arange(count), 10 * np.arange(count) + 3, scans.target[:count].astype(np.int64)
    )


def member_keys(ids: np.ndarray) -> MemberKeys:
    """Keys of any direction, and for each sample the first four others as neighbors."""
    keys = np.random.default_rng(0).normal(size=(len(ids), 8)).astype(np.float32)
    others = np.stack([np.setdiff1d(ids, [member])[:4] for member in ids])
    return MemberKeys(keys, Neighbors(others, np.full(others.shape, 0.5, np.float32)))


def trained(
    family: str, checkpoint: CheckpointFile | None = None, depth: int = 2, **train: object
) -> TrainingResult:
    """Train a family on the digits. train: changes of the section `train`."""
    model = MODEL.model_copy(update={"depth": depth})
    settings = TrainSettings.model_validate(TRAIN.model_dump() | train)
    family_settings = {"munkey": MUNKEY, "resnet18": RESNET18}.get(family)
    recipe = Recipe(DATA, model, settings, family_settings, Stage("resumed", family))
    members = member_keys(digits().ids) if family == "munkey" else None
    return FAMILIES[family].train(
        Training(digits(), 10, recipe, "cpu", members=members, checkpoint=checkpoint)
    )
