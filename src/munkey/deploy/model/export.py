"""Export a trained system to a directory that works without its run (docs/serving.md)."""

import hashlib
import secrets
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from safetensors.torch import save as serialize_tensors

from munkey.core.device import to_host
from munkey.core.files import atomic, create_folder
from munkey.core.templates import render_template
from munkey.deploy.errors import ExportError
from munkey.deploy.model.fitted import list_fixed_constants
from munkey.deploy.model.images import digest_contents
from munkey.deploy.model.manifest import (
    CARD,
    MANIFEST_NAME,
    MEMORY,
    MODEL_FORMAT,
    WEIGHTS,
    EncoderReference,
    Manifest,
    MemoryReference,
    ModelOrigin,
    PictureSize,
    read_manifest,
)
from munkey.deploy.model.model import build_encoder, compute_probe_key
from munkey.deploy.model.sources import locate_file
from munkey.deploy.model.trained_system import Sections, TrainedSystem, find_system
from munkey.encoders.parts import fingerprint_weights, make_portable
from munkey.memory.database import is_in_use
from munkey.memory.memory_file import Classes, MemoryFile
from munkey.models.family import FittedArchitecture
from munkey.models.networks.munkey import MunkeyArchitecture
from munkey.settings import EncoderSettings

METRIC_MEANINGS = {
    "TA": "accuracy on the test split",
    "RA": "accuracy on the remaining training samples",
    "FA": "accuracy on the forget set",
    "MIA": "membership inference on the forget set; 50 is chance",
    "VA": "accuracy on the validation split",
}


def export(result: str | Path, directory: str | Path, sections: Sections | None = None) -> Path:
    """Write a trained system to a new directory.

    If the export fails, no directory is left behind.

    Parameters
    ----------
    result : str or Path
        The folder of the system, or NAME/DATASET/seedN (`trained_system.find_system`).
    directory : str or Path
        A new or empty directory.
    sections : mapping, optional
        Settings by section of params.yaml; by default, those of the run. The settings that the
        system was trained with always come from its record.

    Returns
    -------
    Path
        The directory.

    Raises
    ------
    ExportError
        If the result cannot be found, the family cannot be exported, a file of the run is missing,
        or the keys in the memory are not those of the encoder in the settings.
    FileExistsError
        If the directory exists and contains files.
    DamagedFileError
        If a file of the run is damaged.
    """
    with create_folder(Path(directory)) as folder:
        source = TrainedSystem(find_system(result), sections)
        source.require_encoder()
        write_model(source, folder)
    return Path(directory)


def renew_export(result: str | Path, directory: Path, sections: Sections) -> Path:
    """Export a system again, in place of an earlier export that is still unchanged.

    Parameters are as for `export`. The earlier export stays until the new one is complete. Raises
    ExportError if samples were forgotten or added there, because replacing it would undo that, or if
    anybody has it open.
    """
    replacement = directory.with_name(f".{directory.name}.renewed")
    previous = directory.with_name(f".{directory.name}.before")
    for remnant in (replacement, previous):  # left by a killed process
        shutil.rmtree(remnant, ignore_errors=True)
    if not (directory / MANIFEST_NAME).exists():
        return export(result, directory, sections)
    first_new_id = read_manifest(directory).memory.first_new_id
    if is_in_use(directory / MEMORY):
        raise ExportError(
            f"{directory}: is open, for example in `munkey serve`; end that first, or it would go on"
            " with a memory that is no longer there"
        )
    # No other change until the new export is in place, so that no deletion in between is lost.
    with MemoryFile.open(directory / MEMORY) as file, file.hold_off_changes():
        snapshot = file.snapshot()
        if snapshot.sequence or (snapshot.memory.ids >= first_new_id).any():
            raise ExportError(
                f"{directory}: is in use (samples were forgotten or added there); move it"
                " elsewhere first"
            )
        export(result, replacement, sections)
        directory.rename(previous)
        replacement.rename(directory)
    shutil.rmtree(previous)
    return directory


def write_model(result: TrainedSystem, folder: Path) -> None:
    """Write a trained system into an empty folder: memory, weights, model card, and manifest."""
    memory = result.system.memory
    model = result.system.model
    assert memory is not None, "only systems with a memory are exported"
    data = result.dataset
    ids = memory.ids.numpy()
    keys = to_host(memory.keys.detach()).numpy()
    tokens = to_host(memory.tokens.detach()).numpy()
    rows = data.rows(ids)
    files = [result.names.get(sample_id) for sample_id in ids.tolist()]
    units = None
    if data.units is not None:
        units = [data.units[row] for row in rows]
    store = secrets.token_bytes(16)  # the memory's name; the content digests are keyed with it
    first_new_id = int(data.ids[-1]) + 1  # ids ascend, so the last one is the largest
    classes = Classes(tuple(data.classes), result.dtype)
    MemoryFile.create(
        folder / MEMORY,
        ids,
        keys,
        tokens,
        data.labels[rows],
        files,
        units,
        digest_contents((data.images[row] for row in rows), store),
        classes=classes,
        next_id=first_new_id,
        name=store,
    ).close()
    manifest = _make_manifest(result, MemoryReference(store=store.hex(), first_new_id=first_new_id))
    card = render_card(manifest, classes, len(ids), result.metrics)
    content_by_name = {CARD: card.encode()}
    if model is not None and WEIGHTS in manifest.static_files:
        tensors = {}
        for name, tensor in model.state_dict().items():
            tensors[name] = to_host(tensor).contiguous()
        content_by_name[WEIGHTS] = serialize_tensors(tensors)
    checksums: dict[str, str] = {}
    for name, content in content_by_name.items():
        with atomic(folder / name) as temporary:
            temporary.write_bytes(content)
        checksums[name] = hashlib.sha256(content).hexdigest()
    manifest.model_copy(update={"files": checksums}).write(folder)


def render_card(
    manifest: Manifest,
    classes: Classes,
    row_count: int,
    metrics: Mapping[str, Mapping[str, float]],
) -> str:
    """Render the model card.

    row_count: number of samples in the memory. metrics: values from the run, by forget rate, then by
    metric.
    """
    values = {
        "manifest": manifest,
        "classes": classes.texts,
        "row_count": row_count,
        "metrics": metrics,
        "meanings": METRIC_MEANINGS,
        "constants": list_fixed_constants(manifest),
    }
    return render_template(Path(__file__).parents[1] / "card.md.j2", values)


def _make_manifest(result: TrainedSystem, memory: MemoryReference) -> Manifest:
    """Make the manifest of a trained system, without the digests of its files."""
    assert result.system.memory is not None
    architecture = result.system.architecture
    family_entries: dict[str, Any] = {}  # those of MUNKEY, or those of a fitted family
    if isinstance(architecture, MunkeyArchitecture):
        family_entries["model"] = result.model
        family_entries["architecture"] = architecture.architecture
        family_entries["inference"] = result.inference
        if architecture.head:
            family_entries["head"] = dict(architecture.head)
    elif isinstance(architecture, FittedArchitecture):
        family_entries["settings"] = dict(architecture.settings)
    height, width = result.dataset.images.shape[1:3]
    encoder_settings = EncoderSettings(**result.keys.model_dump(exclude={"depth"}))
    source = None
    if result.folder:
        source = locate_file(result.folder)
    place = result.place
    origin = result.record["provenance"]
    return Manifest(
        format="munkey model",
        version=MODEL_FORMAT,
        family=result.system.family,  # type: ignore[arg-type]  # an exportable family
        stored=PictureSize(height=height, width=width, white=result.source.white),
        data=result.data,
        encoder=_make_encoder_reference(encoder_settings),
        **family_entries,
        token_dim=result.system.memory.tokens.shape[1],
        memory=memory,
        source=source,
        estimator=result.estimator,
        provenance=ModelOrigin(
            configuration=place.root.name,
            dataset=place.case,
            seed=place.seed,
            subset=place.subset,
            system=place.system,
            commit=origin["commit"],
            device=origin["device"],
            versions=origin["versions"],
        ),
        files={},
    )


@cache
def _make_encoder_reference(settings: EncoderSettings) -> EncoderReference:
    """Make the reference to an encoder. Cached, so that a process loads each encoder only once."""
    settings = make_portable(settings)
    probe = compute_probe_key(settings, build_encoder(settings, "cpu"), "cpu")
    return EncoderReference(settings=settings, weights=fingerprint_weights(settings), probe=probe)
