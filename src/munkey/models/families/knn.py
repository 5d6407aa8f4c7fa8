"""KNN (Fix & Hodges 1951; app. B.2): a vote of the nearest keys, without any training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from munkey.core.device import to_device, to_host
from munkey.core.ids import NO_NEIGHBOR
from munkey.models.family import FittedFamily, Retrieval, System, family
from munkey.settings import DataSettings, Positive, Section

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from munkey.data.image_set import ImageSet

MIN_PROBABILITY = 1e-6  # keeps losses finite
# Only the vote `similarity` reads the temperature.
SEARCHED_VOTES = (
    ("equal", 0.02),
    ("rank", 0.02),
    ("similarity", 0.01),
    ("similarity", 0.02),
    ("similarity", 0.03),
    ("similarity", 0.05),
    ("similarity", 0.07),
    ("similarity", 0.1),
)


class KnnSettings(Section):
    """The section `knn` of params.yaml."""

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
    search_settings = tuple(
        {"k": k, "vote": vote, "temperature": temperature}
        for k in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 100)
        for vote, temperature in SEARCHED_VOTES
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
        """Return the logits of the vote, (S, C), from the neighbors in `retrieval`.

        Raises KeyError if a neighbor is not in the memory, so that no deleted row can vote.
        """
        import torch

        assert retrieval is not None and retrieval.neighbors is not None, "no neighbors"
        memory = system.require_memory()
        settings = self.get_settings(system)
        neighbors = retrieval.neighbors.truncate(settings.k)
        rows = memory.find_rows(neighbors.ids)
        is_present = rows != NO_NEIGHBOR  # (B, K)
        cosines = to_device(torch.from_numpy(neighbors.cosines), device)
        weights = self.weigh_votes(settings, is_present, cosines)
        # Absent neighbors (row -1) read the label in row 0, with a weight of 0. An empty memory
        # needs one such row.
        labels = memory.tokens if len(memory) else memory.tokens.new_zeros(1, 1)  # (N, 1)
        classes = torch.arange(system.architecture.classes, device=device)
        votes = (labels[rows.clamp(min=0)] == classes).float()  # (B, K, C)
        logits = compute_vote_logits(votes * weights[:, :, None])
        return to_host(logits).numpy()


def compute_vote_logits(votes: Tensor) -> Tensor:
    """Return the log of each class's share of votes (B, K, C), at least log MIN_PROBABILITY.

    MIN_PROBABILITY is added to the share of the winner; in a tie, the nearest neighbor's class
    wins.
    """
    import torch

    vote_sums = votes.sum(dim=1)  # (B, C)
    total = vote_sums.sum(dim=1, keepdim=True).clamp(min=MIN_PROBABILITY)
    probabilities = (vote_sums / total).clamp(min=MIN_PROBABILITY)
    is_highest = vote_sums == vote_sums.amax(dim=1, keepdim=True)
    # The weight of each neighbor that voted for a class with the highest sum, otherwise 0. Weights
    # never increase with the distance, and argmax returns the first of equal weights, so it finds
    # the nearest such neighbor.
    votes_for_highest = (votes * is_highest[:, None]).sum(dim=2)  # (B, K)
    nearest = votes_for_highest.argmax(dim=1)  # (B,)
    queries = torch.arange(len(votes), device=votes.device)
    winner = votes[queries, nearest].argmax(dim=1)
    probabilities[queries, winner] += MIN_PROBABILITY
    return probabilities.log()
