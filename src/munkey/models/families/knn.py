"""KNN (Fix & Hodges 1951; app. B.2): label counts among the nearest keys. It is not trained.

The index is an exemplar memory whose tokens are one-hot labels. The paper gives it no oracle and no gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from munkey.core.device import to_host
from munkey.core.ids import NOBODY
from munkey.models.family import Architecture, Family, Recipe, Retrieval, System, Trained, Training, family
from munkey.settings import DataSettings

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor, nn

    from munkey.data.image_set import ImageSet
    from munkey.encoders.keys import Keys
    from munkey.memory.exemplars import ExemplarMemory
    from munkey.memory.neighbors import Neighbors

FLOOR = 1e-6  # smallest probability, so that losses stay finite


@family
class KnnFamily(Family):
    name = "knn"
    title = "KNN"
    has_memory = True
    inference_knobs = ("k",)

    def retrieval(self, neighbors: Neighbors, inference: Mapping[str, object]) -> Retrieval:
        """Every neighbor has one vote, so K is all that counts."""
        return super().retrieval(neighbors, {"fusion": "ensemble", "temperature": 1.0, **inference})

    def from_keys(self, members: Keys, labels: np.ndarray, classes: int) -> System:
        import torch

        from munkey.memory.exemplars import ExemplarMemory

        tokens = torch.nn.functional.one_hot(torch.from_numpy(labels), classes).float()
        memory = ExemplarMemory(torch.from_numpy(members.ids), torch.from_numpy(members.keys), tokens)
        return System(self.name, Architecture(classes), None, memory)

    def logits(
        self, system: System, samples: ImageSet, data: DataSettings, device: str, retrieval: Retrieval | None
    ) -> np.ndarray:
        assert system.memory is not None
        assert retrieval is not None
        rows = system.memory.rows(retrieval.neighbors.first(retrieval.settings.k).ids)
        return to_host(vote_logits(system.memory, rows)).numpy()

    def stored_architecture(self, stored: Mapping[str, object]) -> Architecture:
        return Architecture(**stored)  # type: ignore[arg-type]  # checked when it was made

    def architecture(self, recipe: Recipe, classes: int, key_dim: int | None = None) -> Architecture:
        return Architecture(classes)

    def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
        raise TypeError("KNN has no weights to build")

    def train(self, training: Training) -> Trained:
        raise TypeError("KNN is not trained: it is made from the keys")


def vote_logits(memory: ExemplarMemory, rows: Tensor) -> Tensor:
    """log of the share of each class among the nearest rows (B, K), floored: (B, C).

    Ties go to the class of the nearer neighbor: the winner's probability is raised by the floor.
    """
    import torch

    present = rows != NOBODY  # (B, K)
    if len(memory):
        votes = memory.tokens[rows.clamp(min=0)] * present[:, :, None]  # (B, K, C)
    else:
        votes = memory.tokens.new_zeros(*rows.shape, memory.tokens.shape[1])
    counts = votes.sum(dim=1)  # (B, C)
    probabilities = (counts / present.sum(dim=1, keepdim=True).clamp(min=1)).clamp(min=FLOOR)
    tied = counts == counts.amax(dim=1, keepdim=True)
    nearest_tied = (votes * tied[:, None]).sum(dim=2).argmax(dim=1)
    each = torch.arange(len(rows), device=rows.device)
    winner = votes[each, nearest_tied].argmax(dim=1)
    probabilities[each, winner] += FLOOR
    return probabilities.log()
