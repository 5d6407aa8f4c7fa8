"""Differencing: whoever holds a system before and after a deletion names what was deleted in between.

After Chen et al. 2021, arXiv 2005.02205; attackers and measure: this project.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from munkey.audits.margins import margins
from munkey.core.device import to_host
from munkey.core.randomness import Stage
from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.encoders.keys import Keys
from munkey.memory.neighbors import Neighbors, nearest
from munkey.models.family import Retrieval, System
from munkey.models.networks.closed_form import Head
from munkey.settings import DataSettings, Sections
from munkey.unlearn.contract import Method, Request

DELETIONS = {1: 40, 10: 10, 100: 4}  # by how many are deleted at once: how often, each time of all


@dataclass(frozen=True)
class Holder:
    """Who holds two versions, and knows pictures, labels and keys of all training samples: one of them was deleted.

    near: of each sample, in the memory of all; public: keys of other samples, whose labels are known too. stage: of the
    deletions, which are drawn alike for all methods.
    """

    dataset: Dataset
    keys: Keys
    near: Neighbors
    public: Keys
    stage: Stage
    device: str

    def lines(self, method: Method, original: System, settings: Sections) -> Iterator[dict[str, object]]:
        """How well each attacker names deleted samples, by how many are deleted at once. settings: as for a job.

        Suspected, by `answers`: whose log-probabilities moved farthest; by `margins`, which needs labels: whose fell
        most; by `weights`, of a linear head: in whose direction it moved farthest, classes against each other.
        """
        (ids, keys), labels, generator = self.keys, self._labels(self.keys), self.stage.numpy_generator()
        family, directions = method.original, self._directions()

        def without(system: System, gone: np.ndarray) -> System:
            request = Request(gone, self.stage.torch_generator(), self.device, print, frozenset(), {})
            return method.forgotten(system, request, settings["method"])

        def logits(system: System, at: np.ndarray, near: Neighbors) -> np.ndarray:
            asks = Retrieval(None, keys=keys[at]) if family.asks_keys else family.retrieval(near, settings["inference"])
            data = DataSettings.typed(settings["data"])
            return family.logits(system, image_set(self.dataset, ids[at]), data, self.device, asks)

        before = without(original, ids[:0])  # with the sums that a linear head follows from
        first = logits(before, np.arange(len(ids)), self.near)

        def suspicions(gone: np.ndarray) -> dict[str, np.ndarray]:
            after, last, at, near = without(before, gone), first.copy(), np.arange(len(ids)), self.near
            if after.memory is not None and not family.asks_keys:  # who has none for a neighbor is answered as before
                left, at = np.isin(ids, after.memory.ids), np.flatnonzero(np.isin(near.ids, gone).any(axis=1))
                near = nearest(Keys(ids[at], keys[at]), Keys(ids[left], keys[left]), near.ids.shape[1])
            last[at] = logits(after, at, near)
            moved = log_softmax(first, axis=1) - log_softmax(last, axis=1)
            fell = margins(first, labels) - margins(last, labels)
            found = {"answers": np.linalg.norm(moved, axis=1), "margins": fell}
            if isinstance(before.model, Head) and isinstance(after.model, Head):
                weights = to_host(before.model.weight - after.model.weight).numpy()
                found["weights"] = np.linalg.norm(directions @ (weights - weights.mean(axis=0)).T, axis=1)
            return found

        for batch, times in DELETIONS.items():
            if 2 * batch <= len(ids):
                drawn = [generator.choice(ids, batch, replace=False) for _ in range(times)]
                found = [(np.isin(ids, gone), suspicions(gone)) for gone in drawn]
                line = {"method": method.name, "title": method.title, "batch": batch, "deletions": times}
                for attacker in found[0][1]:
                    share = float(np.mean([precision(scores[attacker], deleted) for deleted, scores in found]))
                    yield {**line, "chance": 100 * batch / len(ids), "attacker": attacker, "precision": share}

    def _labels(self, keys: Keys) -> np.ndarray:
        return self.dataset.labels[self.dataset.rows(keys.ids)]

    def _directions(self) -> np.ndarray:
        """(N, d): unit vectors to each key from the mean of its class's public keys."""
        own = self._labels(self.public) == np.arange(len(self.dataset.classes))[:, None]
        means = own @ self.public.keys / np.maximum(own.sum(axis=1, keepdims=True), 1)
        apart = self.keys.keys - means[self._labels(self.keys)]
        return np.asarray(apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-12))


def precision(scores: np.ndarray, deleted: np.ndarray) -> float:
    """Percent of b deleted ones, (N,) bool, that are among the b most suspected; expected where some tie."""
    count, bar = deleted.sum(), np.sort(scores)[-deleted.sum()]
    hits = deleted[scores > bar].sum() + deleted[scores == bar].mean() * (count - (scores > bar).sum())
    return float(100 * hits / count)
