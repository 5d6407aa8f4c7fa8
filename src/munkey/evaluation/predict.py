"""Predictions of a system on all splits, and on its memory's samples with either pathway cut."""

from typing import NamedTuple

import numpy as np

from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.settings import DataSettings


class Queries(NamedTuple):
    """The samples to predict.

    Attributes
    ----------
    ids
        The sorted ids of the samples.
    retrieval
        Their neighbors, for a system with a memory.
    other
        Another retrieval, for audits of a system with pathways. It adds the logits path_NAME.
    """

    ids: np.ndarray
    retrieval: Retrieval | None = None
    other: Retrieval | None = None


def predict_samples(
    system: System, dataset: Dataset, queries: Queries, data: DataSettings, device: str
) -> dict[str, np.ndarray]:
    """Return the arrays that metrics are computed from.

    These are ids, labels, splits and logits of the samples, and units if the data set has them. A
    family with pathways also has memory_ids, memory_labels, image_logits, token_logits and
    both_logits of the memory's samples. Raises KeyError if a neighbor is not in the memory.
    """
    family = FAMILIES[system.family]
    samples = image_set(dataset, queries.ids)
    arrays = {
        "ids": queries.ids,
        "labels": samples.labels,
        "splits": dataset.splits[samples.rows],
        "logits": family.predict_logits(system, samples, data, device, queries.retrieval),
    }
    if dataset.units:
        arrays["units"] = np.array([dataset.units[row] or "" for row in samples.rows])
    if family.has_pathways and system.memory is not None:
        members = image_set(dataset, system.memory.ids.numpy())
        cut = family.predict_cut_logits(system, members, data, device)
        arrays |= {"memory_ids": members.ids, "memory_labels": members.labels}
        for name, logits in cut.items():
            arrays[f"{name}_logits"] = logits
    if queries.other is not None:
        paths = family.predict_path_logits(system, samples, data, device, queries.other)
        for name, logits in paths.items():
            arrays[f"path_{name}"] = logits
    return arrays
