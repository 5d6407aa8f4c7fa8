"""A tiny result of the pipeline, written by its own functions, to be exported; and an export of one."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import torch
import yaml

from munkey.core.files import write_csv, write_json
from munkey.data.prepared import prepare
from munkey.data.source import Source
from munkey.deploy.model.export import export
from munkey.deploy.model.trained_system import SECTIONS
from munkey.encoders import keys
from munkey.encoders.parts import build, name_cache_folder
from munkey.memory.exemplars import ExemplarMemory
from munkey.models import system
from munkey.models.family import FAMILIES, System
from munkey.models.networks.munkey import MunkeyArchitecture
from munkey.settings import EncoderSettings
from tests.conftest import ROOT, generator, lively
from tests.data.inputs import picture

CLASSES = ["cat", "dog & co", "fish"]
IDS = 10 + 2 * np.arange(24)  # that the model of `model_in` holds
COUNT = 60  # samples; every fifth is of val, every fifth of test
SIDE = 10  # of a stored picture [px]


def sections(folder: Path | None = None) -> dict[str, dict[str, object]]:
    """Those of params.yaml that hold for the tiny result. folder: of its pictures."""
    config = yaml.safe_load((ROOT / "params.yaml").read_text())
    found = {name: dict(config[name]) for name in SECTIONS}
    found["source"] |= {"path": str(folder), "reader": "imagefolder"} if folder else {}
    found["data"] |= {"image_size": 8}
    found["keys"] |= {"image_size": 32}
    found["model"] |= {"patch_size": 4, "width": 8, "depth": 2, "heads": 2}
    found["munkey"] |= {"token_dim": 5}
    return found


def pictures_in(folder: Path) -> list[str]:
    """Write a picture for each sample; their names below the folder."""
    names = [f"{'abc'[i % 3]}/{i:02d}.png" for i in range(COUNT)]
    for i, name in enumerate(names):
        picture(folder / name, size=(SIDE, SIDE), seed=i)
    return names


def clustered(count: int, around: int = 12) -> np.ndarray:
    """Pictures that resemble each other in groups, and so do their keys."""
    random = np.random.default_rng(0)
    groups = random.integers(0, 216, (around, SIDE, SIDE, 3))
    noise = random.integers(0, 40, (count, SIDE, SIDE, 3))
    return (groups[random.integers(around, size=count)] + noise).astype(np.uint8)


def result_in(
    root: Path,
    pictures: Path | None = None,
    dataset: str = "toy",
    images: np.ndarray | None = None,
    members: np.ndarray | None = None,
    encoder: str | None = None,
) -> Path:
    """A tiny trained MUNKEY in root/models/DATASET/seed0/full/original-m. pictures: the folder of its source files.

    images: of its samples, without source files, as many as there are. members: the ids that it was trained on, whose
    source files pets/ID.png are not there.
    """
    from munkey.data.pictures import decode

    chosen, names = sections(pictures), None
    if encoder:
        chosen["keys"]["encoder"] = encoder
    if pictures:
        names = pictures_in(pictures)
        images = np.concatenate(
            list(decode(names, lambda name: (pictures / name).open("rb"), None))
        )
    elif images is None:
        images = np.random.default_rng(0).integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8)
    splits = np.array(
        [("train", "train", "train", "val", "test")[i % 5] for i in range(len(images))]
    )
    if members is not None:
        names = [f"pets/{one}.png" for one in range(COUNT)]
        splits = np.array(
            ["train" if one in members else ("val", "test")[one % 2] for one in range(COUNT)]
        )
    labels = np.arange(len(images), dtype=np.int64) % 3
    prepare(
        Source(images, labels, splits, CLASSES, names), root / "data" / dataset, lambda line: None
    )
    encoder = EncoderSettings(
        **{name: value for name, value in chosen["keys"].items() if name != "depth"}
    )
    extracted = keys.extract(build(encoder, "cpu"), images, encoder.batch_size, "cpu", list)
    folder = name_cache_folder(encoder)
    keys.write(root / "keys" / dataset / folder / "keys.npz", np.arange(len(images)), extracted)
    trained = root / "models" / dataset / "seed0" / "full" / "original-m"
    system.save(
        trained / "system.safetensors",
        tiny_system(np.flatnonzero(splits == "train"), extracted, chosen),
    )
    origin = {"commit": "c0ffee", "device": "a test", "versions": {"torch": torch.__version__}}
    times = {"started": "2026-01-01T00:00:00+00:00", "ended": "2026-01-01T00:00:01+00:00"}
    settings = {name: chosen[name] for name in ("data", "model", "train", "munkey")}
    write_json(trained / "record.json", {"settings": settings, "provenance": origin} | times)
    write_json(root / "settings.json", {dataset: chosen})
    rows = [  # the last two are not its own
        {
            "dataset": dataset,
            "rate": "0.1",
            "seed": seed,
            "method": method,
            "metric": metric,
            "value": value,
        }
        for seed, method, metric, value in [
            (0, "original-m", "TA", 91.5),
            (0, "original-m", "P_s", 0.21),
            (0, "another", "TA", 33.5),
            (1, "original-m", "TA", 44.5),
        ]
    ]
    write_csv(root / "metrics" / f"{dataset}.csv", rows)
    return trained


def tiny_system(
    ids: np.ndarray, extracted: np.ndarray, chosen: dict[str, dict[str, object]]
) -> System:
    architecture = MunkeyArchitecture(
        classes=3, image_size=8, architecture="input-level", token_dim=5, **chosen["model"]
    )
    network = lively(FAMILIES["munkey"].build(architecture, generator()))
    tokens = torch.randn(len(ids), 5, generator=generator(1))
    memory = ExemplarMemory(torch.from_numpy(ids), torch.from_numpy(extracted[ids]), tokens)
    return System("munkey", architecture, network, memory)


def model_in(folder: Path) -> Path:
    """An exported model of the 24 samples IDS in `folder`, whose source files are pets/ID.png."""
    return Path(shutil.copytree(Path(_made().name) / "model", folder))


@cache
def _made() -> "tempfile.TemporaryDirectory[str]":
    """Where the model lies that is made once for all tests of a process."""
    made = tempfile.TemporaryDirectory()
    export(result_in(Path(made.name) / "results" / "tiny", members=IDS), Path(made.name) / "model")
    return made


def picture_in(folder: Path, name: str = "picture.png", seed: int = 0) -> Path:
    """Write a picture; its path."""
    picture(folder / name, size=(SIDE, SIDE), seed=seed)
    return folder / name
