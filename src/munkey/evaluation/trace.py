"""Traces of training runs of MUNKEY: P_s by epoch, and tokens and features at three moments."""

import numpy as np

from munkey.core.device import to_host
from munkey.data.image_set import ImageSet
from munkey.evaluation import metrics
from munkey.models.family import FAMILIES, Recipe, System


class Trace:
    """The trace of a training run on `samples`, which calls `watch` after each epoch."""

    def __init__(self, samples: ImageSet, recipe: Recipe, device: str) -> None:
        self.samples = samples
        self.recipe = recipe
        self.device = device
        self.moments = {0, recipe.train.epochs // 2, recipe.train.epochs}  # start, middle, end
        self.rows: list[dict[str, float]] = []
        self.vectors: dict[str, np.ndarray] = {}

    def watch(self, epoch: int, system: System) -> None:
        """Record accuracies by pathway and, at the three moments, tokens and [CLS] features."""
        family = FAMILIES[system.family]
        data = self.recipe.data
        cut_logits = family.predict_cut_logits(system, self.samples, data, self.device)
        accuracies = metrics.measure_pathways(cut_logits, self.samples.labels)
        self.rows.append({"epoch": epoch, **accuracies})
        if epoch in self.moments:
            tokens = to_host(system.require_memory().tokens.detach()).numpy()
            features = family.extract_features(system, self.samples, data, self.device)
            self.vectors[f"tokens_{epoch}"] = tokens.copy()  # training continues in place
            self.vectors[f"features_{epoch}"] = features

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the trace by name.

        These are labels (N,); epoch, A_image, A_token, A_both and P_s, with one number per epoch; and
        tokens_E (N, m) and features_E (N, width) for the epoch E of each moment.
        """
        columns = {}
        for name in self.rows[0]:
            columns[name] = np.array([row[name] for row in self.rows])
        return {"labels": np.asarray(self.samples.labels), **self.vectors, **columns}
