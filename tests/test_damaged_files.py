"""Whatever happens to a byte of any file that a job reads, the job finds it and does not go on from it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch

from munkey.core import files
from munkey.core.files import DamagedFileError
from munkey.data import forget_sets, prepared
from munkey.data.source import Source
from munkey.encoders import keys
from munkey.memory import neighbors
from munkey.memory.neighbors import Neighbors
from munkey.models import system
from munkey.models.family import System
from munkey.training import checkpoint
from munkey.training.checkpoint import Checkpoint, CheckpointFile
from munkey.training.loop import adamw
from tests.conftest import MUNKEY, generator, unit_rows

FLIPS = 200  # positions in each kind of file
IDS = np.arange(30)
RNG = np.random.default_rng(0)


class Kind(NamedTuple):
    """A kind of file. make(folder): writes one; read(path): as a job does."""

    name: str
    make: Callable[[Path], object]
    read: Callable[[Path], object]


def make_dataset(folder: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
    splits = np.repeat(["train", "val", "test"], 10)
    prepared.prepare(
        Source(images, IDS % 2, splits, ["cat", "dog"], [f"{i}.png" for i in IDS]), folder
    )


def make_checkpoint(folder: Path) -> None:
    weight, scaler = (
        torch.nn.Parameter(torch.randn(300, generator=generator())),
        torch.amp.GradScaler("cpu"),
    )
    optimizer = adamw([weight], [0.9, 0.99], 0.0)
    weight.sum().backward()
    optimizer.step()
    Checkpoint(CheckpointFile(folder / "c.pt", 0.0), [generator()]).save(
        optimizer, scaler, [{"epoch": 1, "loss": 0.5}]
    )


def read_checkpoint(path: Path) -> None:
    if checkpoint.read_checkpoint(path) is None:
        aside = path.with_name("c.pt.damaged")
        assert aside.exists() and not path.exists()
        raise DamagedFileError(path, "set aside")


def read_dataset(path: Path) -> object:
    return prepared.load(path.parent).images.sum()


METRICS = [{"method": "cf", "metric": "TA", "value": value} for value in RNG.random(40).tolist()]
RECORD = {
    "history": [{"epoch": epoch, "loss": 1 / epoch} for epoch in range(1, 20)],
    "unlearn_s": 1.5,
}
NEAR = Neighbors(RNG.integers(0, 30, (30, 4)), RNG.random((30, 4), dtype=np.float32))
LOGITS = {"ids": IDS, "logits": RNG.normal(size=(30, 10)).astype(np.float32)}
KINDS = [
    Kind("images.npy", make_dataset, read_dataset),
    Kind("samples.csv", make_dataset, read_dataset),
    Kind("classes.json", make_dataset, read_dataset),
    Kind(
        "metrics.csv",
        lambda folder: files.write_csv(folder / "metrics.csv", METRICS),
        files.read_table,
    ),
    Kind(
        "main.csv",
        lambda folder: files.write_text(folder / "main.csv", pd.DataFrame(METRICS).to_csv()),
        files.read_table,
    ),
    Kind(
        "record.json",
        lambda folder: files.write_json(folder / "record.json", RECORD),
        files.read_json,
    ),
    Kind(
        "forget.csv",
        lambda folder: forget_sets.write(folder / "forget.csv", IDS[::2]),
        forget_sets.read,
    ),
    Kind(
        "keys.npz", lambda folder: keys.write(folder / "keys.npz", IDS, unit_rows(30, 6)), keys.read
    ),
    Kind(
        "near.npz",
        lambda folder: neighbors.write_neighbors(folder / "near.npz", IDS, NEAR),
        lambda path: neighbors.read_neighbors(path, IDS),
    ),
    Kind(
        "logits.npz", lambda folder: files.write_npz(folder / "logits.npz", LOGITS), files.read_npz
    ),
    Kind(
        "0.npy", lambda folder: files.write_npy(folder / "0.npy", LOGITS["logits"]), files.read_npy
    ),
    Kind("c.pt", make_checkpoint, read_checkpoint),
]


def flips(content: bytes) -> list[bytes]:
    """The content with one bit flipped, at many places all over the file."""
    draw = np.random.default_rng(0)
    flipped = []
    for position in draw.integers(0, len(content), FLIPS):
        damaged = bytearray(content)
        damaged[position] ^= 1 << draw.integers(8)
        flipped.append(bytes(damaged))
    return flipped


def cuts(content: bytes) -> list[bytes]:
    """The content cut short, emptied, and with something added."""
    return [
        b"",
        *(content[: len(content) * part // 7] for part in range(1, 7)),
        content[:-1],
        content + b"\n",
    ]


def noticed(path: Path, content: bytes, read: Callable[[Path], object]) -> bool:
    """Whether a reader refuses this content, and names the file."""
    path.write_bytes(content)
    try:
        read(path)
    except DamagedFileError as error:
        return str(path) in str(error)
    return False


def unnoticed(
    path: Path, damage: Callable[[bytes], list[bytes]], read: Callable[[Path], object]
) -> str:
    """How many of the damaged contents are read as if they were whole."""
    read(path)
    contents = damage(path.read_bytes())
    return f"{sum(not noticed(path, content, read) for content in contents)} of {len(contents)}"


@pytest.mark.parametrize("damage", [flips, cuts])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_damage_of_a_file_goes_unnoticed(kind, damage, tmp_path):
    kind.make(tmp_path)
    path = tmp_path / kind.name
    assert unnoticed(path, damage, kind.read).startswith("0 of")


@pytest.mark.parametrize("damage", [flips, cuts])
def test_no_damage_of_a_system_goes_unnoticed(damage, munkey_system: System, tmp_path):
    path = tmp_path / "system.safetensors"
    system.save(path, munkey_system)
    assert unnoticed(path, damage, lambda path: system.load(path, MUNKEY)).startswith("0 of")


def test_an_empty_forget_list_is_refused_though_its_sum_is_right(tmp_path):
    files.write_csv(tmp_path / "forget.csv", [], ["id"])
    with pytest.raises(DamagedFileError, match=r"forget\.csv: contains no sample to forget"):
        forget_sets.read(tmp_path / "forget.csv")
