"""A system's predictions on all splits, and on its memory's samples with either pathway cut off."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from munkey.core.randomness import Stage
from munkey.data.image_set import image_set, perturb
from munkey.data.prepared import Dataset
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.settings import DataSettings, FurtherPath

PROBE_ROWS = 2000  # a linear probe is fitted to at most this number of samples, or more if there
PROBE_ROWS_PER_CLASS = 20  # are more than a hundred classes


class Queries(NamedTuple):
    """The samples to predict: their sorted ids, and their neighbors for a system with a memory.

    Attributes
    ----------
    other
        If given, the predictions include the logits of the family's single paths.
    paths
        Further paths, which audits query.
    perturbed
        The neighbors or keys of the perturbed samples, for a system with a memory.
    """

    ids: np.ndarray
    retrieval: Retrieval | None = None
    other: Retrieval | None = None
    paths: Sequence[FurtherPath] = ()
    perturbed: Retrieval | None = None


def predict_samples(
    system: System, dataset: Dataset, queries: Queries, data: DataSettings, device: str
) -> dict[str, np.ndarray]:
    """Return the arrays that metrics are computed from, by name.

    These are the samples' `ids`, `labels`, `splits`, `logits`, and `units` if the data set has
    them. A family with pathways adds `memory_ids`, `memory_labels`, and, of the memory's samples,
    `image_logits`, `token_logits` and `both_logits`; with `queries.other` or
    `queries.paths`, also `path_NAME`. Raises KeyError if a neighbor is not in the memory.
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
    if "perturbed" in queries.paths:
        arrays["path_perturbed"] = family.predict_logits(
            system, perturb(samples), data, device, queries.perturbed
        )
    if "probe" in queries.paths:
        other_ids = np.setdiff1d(dataset.get_ids("train"), queries.ids)
        count = max(PROBE_ROWS, PROBE_ROWS_PER_CLASS * len(dataset.classes))
        generator = Stage("linear probe").numpy_generator()
        fitted = image_set(dataset, np.sort(generator.permutation(other_ids)[:count]))
        arrays["path_probe"] = fit_probe(
            family.extract_image_features(system, fitted, data, device),
            fitted.labels,
            family.extract_image_features(system, samples, data, device),
            len(dataset.classes),
        )
    return arrays


def fit_probe(
    features: np.ndarray, labels: np.ndarray, query_features: np.ndarray, classes: int
) -> np.ndarray:
    """Fit a linear probe, and return its logits (S, C) for queries.

    A class without samples gets the lowest of the other logits. All logits are NaN if a feature is
    not finite.

    Parameters
    ----------
    features, labels
        (N, width) and (N,): those of the samples to fit to.
    query_features
        (S, width).
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if not (np.isfinite(features).all() and np.isfinite(query_features).all()):
        return np.full((len(query_features), classes), np.nan, dtype=np.float32)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    scores = probe.fit(features, labels).decision_function(query_features)
    if scores.ndim == 1:  # log p1 / p0 of two classes
        scores = np.stack([np.zeros(len(scores)), scores], axis=1)
    logits = np.repeat(scores.min(axis=1, keepdims=True), classes, axis=1)
    logits[:, probe.classes_] = scores
    return np.asarray(logits, dtype=np.float32)
