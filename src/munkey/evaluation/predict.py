"""A system's predictions on all splits, and on its memory's samples with either pathway cut off."""

from typing import NamedTuple

import numpy as np

from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.settings import DataSettings


class Queries(NamedTuple):
    """The samples to predict: their sorted ids, and their neighbors for a system with a memory.

    With `other`, the predictions include the logits of single paths, which audits query.
    """

    ids: np.ndarray
    retrieval: Retrieval | None = None
    other: Retrieval | None = None


def predict_samples(
    system: System, dataset: Dataset, queries: Queries, data: DataSettings, device: str
) -> dict[str, np.ndarray]:
    """Return the arrays that metrics are computed from, by name.

    These are the samples' `ids`, `labels`, `splits`, `logits`, and `units` if the data set has
    them. A family with pathways adds `memory_ids`, `memory_labels`, and, of the memory's samples,
    `image_logits`, `token_logits` and `both_logits`; with `queries.other`, also `path_NAME`. Raises
    KeyError if a neighbor is not in the memory.
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
