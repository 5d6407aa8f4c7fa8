"""A small model in a directory, as an export would write it: random weights, keys of a real encoder."""

import hashlib
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.torch import save

from munkey.deploy.model import manifest as manifests
from munkey.deploy.model.manifest import EncoderReference, Manifest, MemoryReference, ModelOrigin, PictureSize
from munkey.deploy.model.model import probe_key
from munkey.deploy.store.store import Store
from munkey.encoders.registry import find
from munkey.models.family import FAMILIES
from munkey.settings import DataSettings, EncoderSettings, InferenceSettings, LookupSettings, ModelSettings
from tests.conftest import MUNKEY, generator, lively, unit_rows

IDS = 10 + 2 * np.arange(24)
CLASSES = ["cat", "dog", "ant"]
ENCODER = EncoderSettings(encoder="efficientnet-lite0", revision=None, image_size=32, batch_size=16)


def pictures(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)


def picture_in(folder: Path, name: str = "picture.png", seed: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pictures(1, seed)[0]).save(folder / name)
    return folder / name


def model_in(folder: Path) -> Path:
    """A model of 24 samples in `folder`, ids 10, 12, ..., whose source files are pets/ID.png."""
    return Path(shutil.copytree(Path(_made().name) / "model", folder))


@cache
def _made() -> "tempfile.TemporaryDirectory[str]":
    """Where a model lies that is made once for all tests of a process."""
    made = tempfile.TemporaryDirectory()
    folder = Path(made.name) / "model"
    folder.mkdir()
    build = find(ENCODER.encoder).build(ENCODER, "cpu")
    probe = probe_key(ENCODER, build, "cpu")
    keys = unit_rows(len(IDS), len(probe))
    tokens, files = unit_rows(len(IDS), 5, seed=1), [f"pets/{one}.png" for one in IDS]
    with Store.create(folder / manifests.MEMORY, IDS, keys, tokens, IDS % 3, files) as store:
        memory = MemoryReference(store=store.state.store.hex(), rows=len(IDS), first_new_id=100)
    weights = lively(FAMILIES["munkey"].build(MUNKEY, generator())).state_dict()
    (folder / manifests.WEIGHTS).write_bytes(save({name: value.contiguous() for name, value in weights.items()}))
    (folder / manifests.CARD).write_text("# A model for tests\n")
    sums = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (manifests.WEIGHTS, manifests.CARD)
    }
    _manifest(probe, memory, sums).write(folder)
    return made


def _manifest(probe: list[float], memory: MemoryReference, sums: dict[str, str]) -> Manifest:
    settings = {name: getattr(MUNKEY, name) for name in ("patch_size", "width", "depth", "heads", "mlp_ratio")}
    return Manifest(
        format="munkey model",
        version=manifests.MODEL_FORMAT,
        classes=CLASSES,
        stored=PictureSize(height=8, width=8),
        data=DataSettings(image_size=8, pixel_mean=0.5, pixel_std=0.5),
        encoder=EncoderReference(settings=ENCODER, weights=find(ENCODER.encoder).weights(ENCODER), probe=probe),
        model=ModelSettings(**settings),
        architecture="input-level",
        token_dim=MUNKEY.token_dim,
        inference=InferenceSettings(k=4, fusion="ensemble", temperature=0.5),
        lookup=LookupSettings(approximate_from=100_000, lists=1000, probes=32),
        memory=memory,
        source=None,
        provenance=ModelOrigin(
            configuration="test",
            dataset="pets",
            seed=0,
            subset="full",
            system="original-m",
            commit="",
            device="cpu",
            versions={},
        ),
        files=sums,
    )
