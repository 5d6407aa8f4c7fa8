"""Traces of MUNKEY's training: P_s after each epoch, and tokens and features at three moments."""

import numpy as np

from munkey.core.device import to_host
from munkey.data.image_set import ImageSet
from munkey.evaluation import metrics
from munkey.models.family import FAMILIES, Recipe, System


class TrainingTrace:
    """Records a training run on `samples`, without affecting it."""

    def __init__(self, samples: ImageSet, recipe: Recipe, device: str) -> None:
        self.samples = samples
        self.recipe = recipe
        self.device = device
        self.moments = {0, recipe.train.epochs // 2, recipe.train.epochs}  # start, middle, end
        self.records: list[dict[str, float]] = []  # one per recorded epoch
        self.vectors: dict[str, np.ndarray] = {}

    def watch(self, epoch: int, system: System) -> None:
        """Record each pathway's accuracy and, at the three moments, tokens and [CLS] features."""
        family = FAMILIES[system.family]
        data = self.recipe.data
        logits_by_pathway = family.predict_cut_logits(system, self.samples, data, self.device)
        accuracies = metrics.measure_pathways(logits_by_pathway, self.samples.labels)
        self.records.append({"epoch": epoch, **accuracies})
        if epoch in self.moments:
            tokens = to_host(system.require_memory().tokens.detach()).numpy()
            features = family.extract_features(system, self.samples, data, self.device)
            # Training updates the tokens in place, so keep a copy.
            self.vectors[f"tokens_{epoch}"] = tokens.copy()
            self.vectors[f"features_{epoch}"] = features

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the trace as arrays by name.

        `labels` is (N,). `epoch`, `A_image`, `A_token`, `A_both` and `P_s` have one value per
        recorded epoch. `tokens_E` (N, m) and `features_E` (N, width) exist for three epochs E.
        """
        columns = {}
        for name in self.records[0]:
            columns[name] = np.array([record[name] for record in self.records])
        return {"labels": np.asarray(self.samples.labels), **self.vectors, **columns}
