"""Export: from a MUNKEY system of a run to a directory that can be used anywhere (docs/serving.md)."""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save as serialized

from munkey.core.device import to_host
from munkey.core.files import atomic
from munkey.core.templates import rendered
from munkey.deploy.errors import ExportError
from munkey.deploy.model.images import content_digests
from munkey.deploy.model.manifest import (
    CARD,
    MEMORY,
    MODEL_FORMAT,
    WEIGHTS,
    EncoderReference,
    EstimatorReference,
    Manifest,
    MemoryReference,
    ModelOrigin,
    PictureSize,
    read_manifest,
)
from munkey.deploy.model.model import built, probe_key
from munkey.deploy.model.sources import location
from munkey.deploy.model.trained_system import Sections, TrainedSystem, find
from munkey.deploy.store import disk
from munkey.deploy.store.store import Store
from munkey.encoders.parts import portable, weights_of
from munkey.models.family import FittedArchitecture
from munkey.models.networks.munkey import MunkeyArchitecture
from munkey.settings import EncoderSettings

MEANINGS = {
    "TA": "accuracy on the test split",
    "RA": "accuracy on the training samples that stay",
    "FA": "accuracy on the forget set",
    "MIA": "membership inference on the forget set; 50: none",
    "VA": "accuracy on the validation split",
}


@dataclass(frozen=True)
class EstimatorRows:
    """What an estimator was fitted to. ids: (N,); keys: (N, d) as its memory has them; labels: (N,)
    places of classes among `classes`; units: of the rows; next_id: of the next row; settings: of
    its family.
    """

    family: str
    settings: dict[str, Any]
    ids: np.ndarray
    keys: np.ndarray
    labels: np.ndarray
    classes: list[Any]
    units: list[str | None]
    next_id: int
    estimator: EstimatorReference


def export(result: str | Path, directory: str | Path, sections: Sections | None = None) -> Path:
    """Write a MUNKEY system of a run to a directory of its own, whole or not at all. Returns the directory.

    result: its folder, or NAME/DATASET/seedS (see `munkey.deploy.model.trained_system.find`). sections:
    of params.yaml, by default as the run left them.
    Raises ExportError, FileExistsError where the directory holds anything, DamagedFileError.
    """
    with disk.new_folder(Path(directory)) as folder:
        source = TrainedSystem(find(result), sections)
        source.require_encoder()
        write(source, folder)
    return Path(directory)


def renew(result: str | Path, directory: Path, sections: Sections) -> Path:
    """Export again where nobody has used what was exported before: a deletion must not come undone.

    The earlier export stays until the new one is whole. Raises ExportError where samples were forgotten or added there,
    and LockedMemoryError while somebody else may do so.
    """
    renewed, before = (
        directory.with_name(f".{directory.name}.{what}") for what in ("renewed", "before")
    )
    for left in (renewed, before):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    if not (directory / MEMORY).exists():
        return export(result, directory, sections)
    # until the new one is in its place, so that no deletion is lost between
    lock = disk.lock(directory / MEMORY)
    try:
        first_new_id = read_manifest(directory).memory.first_new_id
        with Store.open(directory / MEMORY) as store:
            if store.log() or (store.view.ids >= first_new_id).any():
                said = "is in use, samples were forgotten or added there; move it elsewhere first"
                raise ExportError(f"{directory}: {said}")
        export(result, renewed, sections)
        directory.rename(before)
        renewed.rename(directory)
    finally:
        disk.unlock(lock)
    shutil.rmtree(before)
    return directory


def write(result: TrainedSystem, folder: Path) -> None:
    """The parts of a model into an empty folder."""
    memory, model = result.system.memory, result.system.model
    assert memory is not None
    ids, data = memory.ids.numpy(), result.dataset
    keys, tokens = (to_host(part.detach()).numpy() for part in (memory.keys, memory.tokens))
    rows, files = data.rows(ids), [result.names.get(one) for one in ids.tolist()]
    units = None if data.units is None else [data.units[row] for row in rows]
    # empty: its name is the digests' key
    with Store.create(folder / MEMORY, ids[:0], keys[:0], tokens[:0]) as store:
        contents = content_digests((data.images[row] for row in rows), store.state.store)
        store.add(ids, keys, tokens, data.labels[rows], files, units, contents)
        reference = MemoryReference(
            store=store.state.store.hex(),
            rows=len(ids),
            first_new_id=int(result.dataset.ids[-1]) + 1,
        )
    manifest = _manifest(result, reference)
    static = {CARD: card(manifest, result.metrics).encode()}
    if model is not None and WEIGHTS in manifest.static_files:
        static[WEIGHTS] = serialized(
            {name: to_host(tensor).contiguous() for name, tensor in model.state_dict().items()}
        )
    for name, content in static.items():
        with atomic(folder / name) as temporary:
            temporary.write_bytes(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in static.items()}
    manifest.model_copy(update={"files": sums}).write(folder)


def write_rows(folder: Path, rows: EstimatorRows) -> None:
    """A model of an estimator's rows into an empty folder."""
    tokens = rows.labels[:, None].astype(np.float32)
    with Store.create(
        folder / MEMORY, rows.ids, rows.keys, tokens, rows.labels, units=rows.units
    ) as store:
        name = store.state.store.hex()
    Manifest(
        format="munkey model",
        version=MODEL_FORMAT,
        family=rows.family,  # type: ignore[arg-type]  # one of those that are fitted
        classes=rows.classes,
        token_dim=1,
        settings=rows.settings,
        memory=MemoryReference(store=name, rows=len(rows.ids), first_new_id=rows.next_id),
        estimator=rows.estimator,
    ).write(folder)


def card(manifest: Manifest, metrics: Mapping[str, Mapping[str, float]]) -> str:
    """The card. metrics: by rate of the forget set and name, as in the metrics of the run."""
    values = {"manifest": manifest, "metrics": metrics, "meanings": MEANINGS}
    return rendered(Path(__file__).parents[1] / "card.md.j2", values)


def _manifest(result: TrainedSystem, memory: MemoryReference) -> Manifest:
    built, network = result.system.architecture, result.system.family == "munkey"
    assert result.system.memory is not None
    height, width = result.dataset.images.shape[1:3]
    place, origin = result.place, result.record["provenance"]
    return Manifest(
        format="munkey model",
        version=MODEL_FORMAT,
        family=result.system.family,  # type: ignore[arg-type]  # one that can be exported
        classes=list(result.dataset.classes),
        stored=PictureSize(height=height, width=width, white=result.source.white),
        data=result.data,
        encoder=_encoder(EncoderSettings(**result.keys.model_dump(exclude={"depth"}))),
        model=result.model if network else None,
        architecture=built.architecture if isinstance(built, MunkeyArchitecture) else None,
        inference=result.inference if network else None,
        head=dict(built.head) if isinstance(built, MunkeyArchitecture) and built.head else None,
        settings=dict(built.settings) if isinstance(built, FittedArchitecture) else None,
        token_dim=result.system.memory.tokens.shape[1],
        memory=memory,
        source=location(result.folder) if result.folder else None,
        estimator=result.estimator,
        provenance=ModelOrigin(
            configuration=place.root.name,
            dataset=place.case,
            seed=place.seed,
            subset=place.subset,
            system=place.system,
            **{name: origin[name] for name in ("commit", "device", "versions")},
        ),
        files={},
    )


@cache
def _encoder(settings: EncoderSettings) -> EncoderReference:
    """The encoder of these settings, loaded once for all exports of a process."""
    settings = portable(settings)
    probe = probe_key(settings, built(settings, "cpu"), "cpu")
    return EncoderReference(settings=settings, weights=weights_of(settings), probe=probe)
