"""KNN (Fix & Hodges 1951; app. B.2): a vote of the nearest keys. Nothing is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from munkey.core.device import to_device, to_host
from munkey.core.ids import NOBODY
from munkey.models.family import FittedFamily, Retrieval, System, family
from munkey.settings import DataSettings, Positive, Section

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from munkey.data.image_set import ImageSet

FLOOR = 1e-6  # smallest probability, so that losses stay finite


class KnnSettings(Section):
    """The family's section of params.yaml.

    Attributes
    ----------
    k
        The number of nearest keys that vote.
    vote
        The weights of the votes: `equal`; `similarity`, softmax(cosine / temperature); or `rank`,
        1 / (2 + rank) with ranks from 0.
    temperature
        The temperature of the vote `similarity`.
    """

    k: Annotated[int, Field(ge=1, le=100)]
    vote: Literal["equal", "similarity", "rank"]
    temperature: Positive


@family
class KnnFamily(FittedFamily[KnnSettings]):
    name = "knn"
    title = "KNN"
    letter = "k"
    settings = KnnSettings
    tuned = ("k", "vote", "temperature")
    place = 3
    tried = (
        ("k", (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 100)),
        ("vote", ("equal", "similarity", "rank")),
        ("temperature", (0.01, 0.02, 0.03, 0.05, 0.07, 0.1)),
    )

    def count_neighbors(self, settings: KnnSettings) -> dict[str, int]:
        return {"knn.k": settings.k}

    def weigh_votes(self, settings: KnnSettings, present: Tensor, cosines: Tensor) -> Tensor:
        from munkey.memory.exemplars import compute_rank_weights, compute_similarity_weights

        if settings.vote == "equal":
            return present.float()
        if settings.vote == "rank":
            return compute_rank_weights(present)
        return compute_similarity_weights(cosines, present, settings.temperature)

    def predict_logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval | None,
    ) -> np.ndarray:
        """Compute logits of the vote.

        Raises KeyError if a neighbor is not a row of the memory, so no deleted row can vote.
        """
        import torch

        assert retrieval is not None and retrieval.neighbors is not None
        memory = system.require_memory()
        settings = self.get_settings(system)
        near = retrieval.neighbors.truncate(settings.k)
        rows = memory.find_rows(near.ids)
        is_present = rows != NOBODY  # (B, K)
        cosines = to_device(torch.from_numpy(near.cosines), device)
        weights = self.weigh_votes(settings, is_present, cosines)
        labels = memory.tokens  # (N, 1)
        if not len(memory):  # use any label, because all weights are 0
            labels = labels.new_zeros(1, 1)
        classes = torch.arange(system.architecture.classes, device=device)
        votes = (labels[rows.clamp(min=0)] == classes).float()  # (B, K, C)
        logits = compute_vote_logits(votes * weights[:, :, None])
        return to_host(logits).numpy()


def compute_vote_logits(votes: Tensor) -> Tensor:
    """Compute logits (B, C): the log of each class's share of the votes, at least log FLOOR.

    A tie goes to the nearer neighbor's class, whose probability is raised by FLOOR.

    Parameters
    ----------
    votes
        The weighted votes (B, K, C), nearest neighbor first.
    """
    import torch

    counts = votes.sum(dim=1)  # (B, C)
    total = counts.sum(dim=1, keepdim=True).clamp(min=FLOOR)
    probabilities = (counts / total).clamp(min=FLOOR)
    is_highest = counts == counts.amax(dim=1, keepdim=True)
    # Positive for neighbors that voted for a class with the highest count. argmax returns the first
    # of equal weights, which is the nearest, since weights never increase with distance.
    votes_for_highest = (votes * is_highest[:, None]).sum(dim=2)
    nearest = votes_for_highest.argmax(dim=1)
    rows = torch.arange(len(votes), device=votes.device)
    winner = votes[rows, nearest].argmax(dim=1)
    probabilities[rows, winner] += FLOOR
    return probabilities.log()
