"""A system's predictions on all splits, and on its memory's samples with either pathway cut off."""

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
        The samples' neighbors; None if the system has no memory.
    other
        The retrieval with which audits query single paths of a system with pathways. If given, the
        predictions include the logits of these paths.
    """

    ids: np.ndarray
    retrieval: Retrieval | None = None
    other: Retrieval | None = None


def predict_samples(
    system: System, dataset: Dataset, queries: Queries, data: DataSettings, device: str
) -> dict[str, np.ndarray]:
    """Return the arrays that metrics are computed from, by name.

    The arrays are the samples' `ids`, `labels`, `splits` and `logits`, and `units` if the data set
    has them. A family with pathways adds `memory_ids` and `memory_labels` of the memory's samples,
    and their logits when only the image, only the token, or both are used: `image_logits`,
    `token_logits` and `both_logits`. With `queries.other`, there are also the logits `path_NAME` of
    each path. Raises KeyError if a neighbor is not in the memory.
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
        logits_by_pathway = family.predict_cut_logits(system, members, data, device)
        arrays |= {"memory_ids": members.ids, "memory_labels": members.labels}
        for name, logits in logits_by_pathway.items():
            arrays[f"{name}_logits"] = logits
    if queries.other is not None:
        path_logits = family.predict_path_logits(system, samples, data, device, queries.other)
        for name, logits in path_logits.items():
            arrays[f"path_{name}"] = logits
    return arrays
