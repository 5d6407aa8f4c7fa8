"""Evaluation: the answers of a system to every sample, kept as logits; all metrics are measured from them."""

from pathlib import Path

from munkey.core.files import write_npz
from munkey.data import prepared
from munkey.encoders import keys
from munkey.evaluation.predict import predictions
from munkey.memory import neighbors as neighbor_files
from munkey.models import system as systems
from munkey.models.family import FAMILIES, Retrieval
from munkey.models.training_inputs import Sections
from munkey.settings import DataSettings


def evaluate(
    images: Path,
    system: Path,
    logits: Path,
    settings: Sections,
    device: str,
    neighbors: Path | None = None,
    keyfile: Path | None = None,
) -> None:
    """Write the logits of a system on every split; where it has pathways, also with either of them cut.

    settings: `data`, `inference`, and `audit` where it is asked in a second way for an audit. neighbors, keyfile: of a
    system with a memory, with which it is asked.
    """
    dataset, loaded = prepared.load(images.parent), systems.load(system, device=device)
    retrieval = other = None
    if keyfile:
        retrieval = Retrieval(None, keys=keys.read(keyfile, dataset.ids).keys)
    if loaded.memory is not None and neighbors:
        near, family = neighbor_files.read(neighbors, dataset.ids), FAMILIES[loaded.family]
        retrieval = family.retrieval(near, settings["inference"])
        if asked := settings.get("audit"):
            other = family.retrieval(near, {**settings["inference"], **asked})
    write_npz(logits, predictions(loaded, dataset, DataSettings(**settings["data"]), device, retrieval, other))
