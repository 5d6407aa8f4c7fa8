"""Differencing: comparing a system before and after a deletion reveals the deleted samples.

After Chen et al. 2021, arXiv 2005.02205; the attackers and the measure are ours.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from munkey.audits.margins import compute_margins
from munkey.core.device import to_host
from munkey.core.randomness import Stage
from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.encoders.keys import Keys
from munkey.memory.neighbors import Neighbors, find_nearest
from munkey.memory.sums import RandomFeatures
from munkey.models.family import Retrieval, System
from munkey.models.networks.closed_form import Head
from munkey.settings import DataSettings, Sections
from munkey.unlearn.contract import Method, Request

# How many deletions of each size are attacked. Each starts from the system with all samples.
DELETIONS = {1: 40, 10: 10, 100: 4}


@dataclass(frozen=True)
class Attacker:
    """An attacker who has two versions, and pictures, labels and keys of all training samples.

    Attributes
    ----------
    near
        Each sample's neighbors in the memory of all samples.
    public
        The keys of other samples, whose labels are also known.
    stage
        The random stage of the deletions, which are the same for all methods.
    """

    dataset: Dataset
    keys: Keys
    near: Neighbors
    public: Keys
    stage: Stage
    device: str

    def make_rows(
        self, method: Method, original: System, settings: Sections
    ) -> Iterator[dict[str, object]]:
        """Yield a row for each size of a deletion and each attacker, with the attacker's precision.

        Each attacker names as many samples as were deleted. Its precision is the percentage of them
        that were indeed deleted. The attacker `answers` names the samples whose log-probabilities
        changed most. `margins`, which needs labels, names those whose margin fell most. `weights`,
        which needs a linear head, names those in whose direction from their class mean the weights
        moved most. Deletions of more than half of the samples are skipped.

        Parameters
        ----------
        settings
            The sections `method`, `data` and, for a family that reads it, `inference`.
        """
        ids = self.keys.ids
        keys = self.keys.keys
        labels = self._get_labels(self.keys)
        generator = self.stage.numpy_generator()
        family = method.original
        method_settings = settings["method"]
        data = DataSettings.parse(settings["data"])

        def forget_rows(system: System, deleted_ids: np.ndarray) -> System:
            request = Request(
                forget_ids=deleted_ids,
                generator=self.stage.torch_generator(),
                device=self.device,
                report=print,
                needs=frozenset(),
                data={},
            )
            return method.unlearn(system, request, method_settings)

        def predict(system: System, rows: np.ndarray, near: Neighbors) -> np.ndarray:
            if family.asks_keys:
                retrieval = Retrieval(None, keys=keys[rows])
            else:
                retrieval = family.make_retrieval(near, settings["inference"], keys[rows])
            samples = image_set(self.dataset, ids[rows])
            return family.predict_logits(system, samples, data, self.device, retrieval)

        # Deletes nothing, but gives a linear head the sums that it needs for deletions.
        before = forget_rows(original, ids[:0])
        logits_before = predict(before, np.arange(len(ids)), self.near)
        directions = None
        if isinstance(before.model, Head):
            directions = self._compute_directions(before.model.features)

        def score_samples(deleted_ids: np.ndarray) -> dict[str, np.ndarray]:
            """Return how much each attacker suspects each sample, (N,), after a deletion."""
            after = forget_rows(before, deleted_ids)
            rows = np.arange(len(ids))
            near = self.near
            if family.has_memory and not family.asks_keys:
                assert after.memory is not None
                if not family.has_added_head(after):
                    # Predictions change only for samples with a deleted neighbor.
                    rows = np.flatnonzero(np.isin(near.ids, deleted_ids).any(axis=1))
                is_remaining = np.isin(ids, after.memory.ids)
                remaining = Keys(ids[is_remaining], keys[is_remaining])
                near = find_nearest(Keys(ids[rows], keys[rows]), remaining, near.ids.shape[1])
            logits_after = logits_before.copy()
            logits_after[rows] = predict(after, rows, near)
            change = log_softmax(logits_before, axis=1) - log_softmax(logits_after, axis=1)
            scores = {
                "answers": np.linalg.norm(change, axis=1),
                "margins": compute_margins(logits_before, labels)
                - compute_margins(logits_after, labels),
            }
            if directions is not None:
                assert isinstance(before.model, Head) and isinstance(after.model, Head)
                weights = to_host(before.model.weight - after.model.weight).numpy()
                relative = weights - weights.mean(axis=0)
                scores["weights"] = np.linalg.norm(directions @ relative.T, axis=1)
            return scores

        for batch, times in DELETIONS.items():
            if 2 * batch > len(ids):
                continue
            deletions = [generator.choice(ids, batch, replace=False) for _ in range(times)]
            precisions: dict[str, list[float]] = defaultdict(list)
            for deleted_ids in deletions:
                is_deleted = np.isin(ids, deleted_ids)
                for attacker, scores in score_samples(deleted_ids).items():
                    precisions[attacker].append(compute_precision(scores, is_deleted))
            for attacker, values in precisions.items():
                yield {
                    "method": method.name,
                    "title": method.title,
                    "batch": batch,
                    "deletions": times,
                    "chance": 100 * batch / len(ids),
                    "attacker": attacker,
                    "precision": float(np.mean(values)),
                }

    def _get_labels(self, keys: Keys) -> np.ndarray:
        return self.dataset.labels[self.dataset.rows(keys.ids)]

    def _compute_directions(self, features: RandomFeatures | None) -> np.ndarray:
        """Return unit vectors (N, w) to each key from the mean of its class's public keys.

        Parameters
        ----------
        features
            The random features of keys that the weights apply to; None if they apply to keys.
        """
        keys = self.keys.keys
        public_keys = self.public.keys
        if features is not None:
            keys = features.transform(keys)
            public_keys = features.transform(public_keys)
        classes = np.arange(len(self.dataset.classes))
        is_of_class = self._get_labels(self.public) == classes[:, None]  # (C, M)
        counts = is_of_class.sum(axis=1, keepdims=True)
        means = is_of_class @ public_keys / np.maximum(counts, 1)
        offsets = keys - means[self._get_labels(self.keys)]
        lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
        return np.asarray(offsets / np.maximum(lengths, 1e-12))


def compute_precision(scores: np.ndarray, deleted: np.ndarray) -> float:
    """Return the percentage of the b highest scores (N,) that belong to the b deleted samples.

    If samples tie for the last places, the result is the expected value with random tie-breaking.

    Parameters
    ----------
    deleted
        Whether each sample was deleted, (N,) bool.
    """
    count = deleted.sum()
    threshold = np.sort(scores)[-count]
    is_above = scores > threshold
    is_tied = scores == threshold
    hits = deleted[is_above].sum() + deleted[is_tied].mean() * (count - is_above.sum())
    return float(100 * hits / count)
