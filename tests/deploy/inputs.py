"""A tiny result of the pipeline, written by its own functions, to be exported; and an export of one."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from munkey.core.files import write_csv, write_json
from munkey.data.prepared import load, prepare
from munkey.data.source import Source
from munkey.deploy.model.export import export
from munkey.deploy.model.trained_system import SECTIONS
from munkey.encoders import embedded, keys
from munkey.encoders.parts import build, name_cache_folder
from munkey.memory.exemplars import ExemplarMemory
from munkey.models import system
from munkey.models.family import FAMILIES, System
from munkey.models.networks.munkey import MunkeyArchitecture
from munkey.settings import EncoderSettings
from tests.conftest import generator, lively, read_config
from tests.data.inputs import picture

CLASSES = ["cat", "dog & co", "fish"]
IDS = 10 + 2 * np.arange(24)  # that the model of `model_in` holds
COUNT = 60  # samples; every fifth is of val, every fifth of test
SIDE = 10  # of a stored picture [px]
LDA_HEAD = {"alpha": 0.3, "temperature": 4.0}


@contextmanager
def encoder_loaded_once() -> Iterator[None]:
    """The encoder's weights are loaded once for all models that are opened in the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "load_packaged", cache(embedded.load_packaged))
        yield


def sections(folder: Path | None = None) -> dict[str, dict[str, object]]:
    """The sections of params.yaml, for tiny models. folder: of the pictures, as their source."""
    params = read_config()
    config = {name: dict(params[name]) for name in SECTIONS}
    if folder:
        config["source"] |= {"path": str(folder), "reader": "imagefolder"}
    config["data"] |= {"image_size": 8}
    config["keys"] |= {"encoder": "efficientnet-lite0", "image_size": 32}
    config["model"] |= {"patch_size": 4, "width": 8, "depth": 2, "heads": 2}
    config["munkey"] |= {"token_dim": 5}
    return config


def write_pictures(folder: Path) -> list[str]:
    """Write a picture for each sample, and return their names below the folder."""
    names = [f"{'abc'[i % 3]}/{i:02d}.png" for i in range(COUNT)]
    for i, name in enumerate(names):
        picture(folder / name, size=(SIDE, SIDE), seed=i)
    return names


def result_in(
    root: Path,
    pictures: Path | None = None,
    dataset: str = "toy",
    images: np.ndarray | None = None,
    members: np.ndarray | None = None,
    encoder: str | None = None,
) -> Path:
    """Write a tiny trained MUNKEY to root/models/DATASET/seed0/full/original-m, and return this folder.

    pictures: the folder of its source files, which are written. images: its samples, without source files. members: the
    ids that it was trained on; their source files pets/ID.png do not exist.
    """
    from munkey.data.pictures import decode

    config = sections(pictures)
    names = None
    if encoder:
        config["keys"]["encoder"] = encoder
    if pictures:
        names = write_pictures(pictures)
        decoded = decode(names, lambda name: (pictures / name).open("rb"), None)
        images = np.concatenate(list(decoded))
    elif images is None:
        images = np.random.default_rng(0).integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8)
    ids = np.arange(len(images))
    splits = np.array(["train", "train", "train", "val", "test"])[ids % 5]
    if members is not None:
        names = [f"pets/{sample_id}.png" for sample_id in range(COUNT)]
        splits = np.array(["val", "test"])[np.arange(COUNT) % 2].astype("<U5")
        splits[members] = "train"
    source = Source(images, ids % 3, splits, CLASSES, names)
    prepare(source, root / "data" / dataset, lambda line: None)
    key_settings = dict(config["keys"])
    del key_settings["depth"]
    encoder_settings = EncoderSettings(**key_settings)
    extracted = keys.extract(
        build(encoder_settings, "cpu"), images, encoder_settings.batch_size, "cpu", list
    )
    folder = name_cache_folder(encoder_settings)
    keys.write(root / "keys" / dataset / folder / "keys.npz", ids, extracted)
    trained = root / "models" / dataset / "seed0" / "full" / "original-m"
    trained_system = tiny_system(np.flatnonzero(splits == "train"), extracted, config)
    system.save(trained / "system.safetensors", trained_system)
    origin = {"commit": "c0ffee", "device": "a test", "versions": {"torch": torch.__version__}}
    times = {"started": "2026-01-01T00:00:00+00:00", "ended": "2026-01-01T00:00:01+00:00"}
    settings = {name: config[name] for name in ("data", "model", "train", "munkey")}
    write_json(trained / "record.json", {"settings": settings, "provenance": origin} | times)
    write_json(root / "settings.json", {dataset: config})
    rows = []
    for seed, method, metric, value in [
        (0, "original-m", "TA", 91.5),
        (0, "original-m", "P_s", 0.21),
        (0, "another", "TA", 33.5),  # the last two are of other systems
        (1, "original-m", "TA", 44.5),
    ]:
        row = {"dataset": dataset, "rate": "0.1", "seed": seed, "method": method}
        rows.append(row | {"metric": metric, "value": value})
    write_csv(root / "metrics" / f"{dataset}.csv", rows)
    return trained


def add_head(result: Path, head: Mapping[str, float | str] = LDA_HEAD) -> Path:
    """Give the MUNKEY of a result in this folder a head, and return the folder."""
    file = result / "system.safetensors"
    trained = system.load(file)
    dataset = load(result.parents[4] / "data/toy")
    memory = replace(trained.memory, labels=torch.from_numpy(dataset.labels[IDS]))
    architecture = replace(trained.architecture, head=head)
    system.save(file, replace(trained, architecture=architecture, memory=memory))
    return result


def tiny_system(
    ids: np.ndarray, extracted: np.ndarray, config: dict[str, dict[str, object]]
) -> System:
    architecture = MunkeyArchitecture(
        classes=3, image_size=8, architecture="input-level", token_dim=5, **config["model"]
    )
    network = lively(FAMILIES["munkey"].build(architecture, generator()))
    tokens = torch.randn(len(ids), 5, generator=generator(1))
    memory = ExemplarMemory(torch.from_numpy(ids), torch.from_numpy(extracted[ids]), tokens)
    return System("munkey", architecture, network, memory)


def model_in(folder: Path) -> Path:
    """An exported model of the 24 samples IDS in `folder`, whose source files are pets/ID.png."""
    return Path(shutil.copytree(Path(_make_model_once().name) / "model", folder))


@cache
def _make_model_once() -> "tempfile.TemporaryDirectory[str]":
    """The folder of a model that is exported once for all tests of a process."""
    folder = tempfile.TemporaryDirectory()
    export(
        result_in(Path(folder.name) / "results" / "tiny", members=IDS), Path(folder.name) / "model"
    )
    return folder


def picture_in(folder: Path, name: str = "picture.png", seed: int = 0) -> Path:
    """Write a picture, and return its path."""
    picture(folder / name, size=(SIDE, SIDE), seed=seed)
    return folder / name


def png_of(picture: Image.Image | np.ndarray) -> bytes:
    """A picture as a PNG file."""
    if isinstance(picture, np.ndarray):
        picture = Image.fromarray(picture)
    file = BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def contents(directory: Path) -> dict[str, bytes]:
    """What nothing may change: all but the files that SQLite keeps beside the memory, which are empty."""
    transient = ("-shm", "-lock")
    files = {}
    for file in directory.rglob("*"):
        if file.is_file() and not file.name.endswith(transient):
            files[str(file)] = file.read_bytes()
    if files.get(str(directory / "memory.db-wal")) == b"":
        del files[str(directory / "memory.db-wal")]
    return files


def holds_bytes(directory: Path, content: bytes) -> bool:
    """Whether any file below the directory has these bytes."""
    return any(file.is_file() and content in file.read_bytes() for file in directory.rglob("*"))
