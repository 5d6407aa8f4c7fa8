"""Predictions of a system on every sample of every split, and of a memory's members with either pathway cut."""

import numpy as np

from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.settings import DataSettings


def predictions(
    system: System,
    dataset: Dataset,
    data: DataSettings,
    device: str,
    retrieval: Retrieval | None,
    other: Retrieval | None = None,
) -> dict[str, np.ndarray]:
    """What the metrics are computed from. retrieval: of every sample, for a system with a memory.

    other: for an audit, another retrieval to ask a system with pathways with; adds path_NAME logits of all samples.

    ids, labels, splits, logits of all samples; for a family with pathways also memory_ids, and image_logits,
    token_logits and both_logits of these members. Raises KeyError where `retrieval` names a sample that the memory does
    not hold.
    """
    family = FAMILIES[system.family]
    logits = family.logits(system, image_set(dataset, dataset.ids), data, device, retrieval)
    arrays = {"ids": dataset.ids, "labels": dataset.labels, "splits": dataset.splits, "logits": logits}
    if family.has_pathways and system.memory is not None:
        members = system.memory.ids.numpy()
        cut = family.cut_logits(system, image_set(dataset, members), data, device)
        arrays |= {"memory_ids": members} | {f"{name}_logits": values for name, values in cut.items()}
    if other is not None:
        asked = family.path_logits(system, image_set(dataset, dataset.ids), data, device, other)
        arrays |= {f"path_{name}": values for name, values in asked.items()}
    return arrays
