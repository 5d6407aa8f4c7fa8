"""Traces of a training of MUNKEY: P_s by epoch, and tokens and features at three moments."""

import numpy as np

from munkey.core.device import to_host
from munkey.data.image_set import ImageSet
from munkey.evaluation import metrics
from munkey.models.family import FAMILIES, Recipe, System


class Trace:
    """A trace of a training on `samples`. The training calls `watch`, which changes nothing."""

    def __init__(self, samples: ImageSet, recipe: Recipe, device: str) -> None:
        self.samples = samples
        self.recipe = recipe
        self.device = device
        self.moments = {0, recipe.train.epochs // 2, recipe.train.epochs}  # start, middle, end
        self.lines: list[dict[str, float]] = []
        self.vectors: dict[str, np.ndarray] = {}

    def watch(self, epoch: int, system: System) -> None:
        """Record accuracies by pathway, and at the three moments tokens and [CLS] features."""
        family = FAMILIES[system.family]
        cut = family.predict_cut_logits(system, self.samples, self.recipe.data, self.device)
        self.lines.append({"epoch": epoch, **metrics.measure_pathways(cut, self.samples.labels)})
        if epoch in self.moments:
            assert system.memory is not None
            features = family.extract_features(system, self.samples, self.recipe.data, self.device)
            self.vectors[f"tokens_{epoch}"] = to_host(system.memory.tokens.detach()).numpy().copy()
            self.vectors[f"features_{epoch}"] = features

    def to_arrays(self) -> dict[str, np.ndarray]:
        """labels (N,); epoch, A_image, A_token, A_both, P_s, a number per epoch; vectors.

        Vectors: tokens_E (N, m) and features_E (N, width), at the three moments E.
        """
        columns = {}
        for name in self.lines[0]:
            columns[name] = np.array([line[name] for line in self.lines])
        return {"labels": np.asarray(self.samples.labels), **self.vectors, **columns}
