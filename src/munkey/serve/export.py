"""Export: from a MUNKEY system of a run to a directory that can be used anywhere (docs/serving.md)."""

import hashlib
import shutil
import tempfile
from pathlib import Path

import numpy as np
from safetensors.torch import save as serialized

from munkey.encoders import registry
from munkey.memory.store import disk
from munkey.memory.store.store import Store
from munkey.models.networks.munkey import MunkeyArchitecture
from munkey.serve import card
from munkey.serve.errors import ExportError
from munkey.serve.manifest import (
    CARD,
    MEMORY,
    SOURCES,
    VERSION,
    WEIGHTS,
    EncoderReference,
    Manifest,
    MemoryReference,
    Provenance,
    Stored,
)
from munkey.serve.model import probe_key
from munkey.serve.results import Result, Sections, find
from munkey.serve.sources import Sources
from munkey.settings import EncoderSettings


def export(result: str | Path, directory: str | Path, sections: Sections | None = None) -> Path:
    """Write a MUNKEY system of a run to a directory of its own, whole or not at all. Returns the directory.

    result: its folder, or NAME/DATASET/seedS (see `munkey.serve.results.find`). sections: of params.yaml, by default as
    the run left them. Raises ExportError, FileExistsError where the directory holds anything, DamagedFileError.
    """
    directory = Path(directory)
    if directory.is_file() or (directory.is_dir() and any(directory.iterdir())):
        raise FileExistsError(f"{directory}: is not empty; an export needs a directory of its own")
    source = Result(find(result), sections)
    source.require_encoder()
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        _write(source, temporary)
        temporary.chmod(0o755)
        temporary.rename(directory)
    except BaseException:
        shutil.rmtree(temporary)
        raise
    disk.sync_folder(directory.parent)
    return directory


def renew(result: str | Path, directory: Path, sections: Sections) -> Path:
    """Export again where nobody has used what was exported before: a deletion must not come undone.

    Raises ExportError where samples were forgotten or added there.
    """
    if (directory / MEMORY).exists():
        memory = Result(find(result), sections).system.memory
        assert memory is not None
        with Store.open(directory / MEMORY) as store:
            if store.deletions or not np.array_equal(store.view.ids, memory.ids.numpy()):
                raise ExportError(
                    f"{directory}: is in use, samples were forgotten or added there; move it elsewhere first"
                )
        shutil.rmtree(directory)
    return export(result, directory, sections)


def _write(result: Result, folder: Path) -> None:
    """The parts of a model into an empty folder."""
    memory, model = result.system.memory, result.system.model
    assert memory is not None
    assert model is not None
    ids = memory.ids.numpy()
    labels = result.dataset.labels[result.dataset.rows(ids)]
    with Store.create(folder / MEMORY, ids, memory.keys.numpy(), memory.tokens.numpy(), labels) as store:
        reference = MemoryReference(
            store=store.state.store.hex(), rows=len(ids), first_new_id=int(result.dataset.ids[-1]) + 1
        )
    Sources.create(folder / SOURCES, {int(one): result.names[int(one)] for one in ids if int(one) in result.names})
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    (folder / WEIGHTS).write_bytes(serialized(weights))
    manifest = _manifest(result, reference)
    (folder / CARD).write_text(card.render(manifest, result.metrics), encoding="utf-8")
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (WEIGHTS, CARD)}
    manifest.model_copy(update={"files": sums}).write(folder)
    disk.sync_folder(folder)


def _manifest(result: Result, memory: MemoryReference) -> Manifest:
    architecture = result.system.architecture
    assert isinstance(architecture, MunkeyArchitecture)
    assert architecture.token_dim is not None
    height, width = result.dataset.images.shape[1:3]
    return Manifest(
        format="munkey model",
        version=VERSION,
        classes=result.dataset.classes,
        stored=Stored(height=height, width=width),
        data=result.data,
        encoder=_encoder(result),
        model=result.model,
        architecture=architecture.architecture,
        token_dim=architecture.token_dim,
        inference=result.inference,
        memory=memory,
        source=str(Path(result.source.path).absolute()) if result.source.path and result.names else None,
        provenance=_provenance(result),
        files={},
    )


def _encoder(result: Result) -> EncoderReference:
    settings = EncoderSettings(**result.keys.model_dump(exclude={"depth"}))
    if "/" in settings.encoder and not settings.encoder.startswith("timm:"):
        settings = settings.model_copy(update={"encoder": str(Path(settings.encoder).absolute())})
    entry = registry.find(settings.encoder)
    probe = probe_key(settings, entry.build(settings, "cpu"), "cpu")
    return EncoderReference(settings=settings, weights=entry.weights(settings), probe=probe)


def _provenance(result: Result) -> Provenance:
    place, origin = result.place, result.record["provenance"]
    return Provenance(
        configuration=place.root.name,
        dataset=place.case,
        seed=place.seed,
        subset=place.subset,
        system=place.system,
        commit=origin["commit"],
        device=origin["device"],
        versions=origin["versions"],
    )
