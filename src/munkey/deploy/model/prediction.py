"""What a model answered, and what the answer rests on."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from munkey.core.ids import NOBODY


@dataclass(frozen=True)
class Evidence:
    """The neighbors of N pictures, nearest first; where there are fewer than K, ids and labels are -1.

    ids, labels: (N, K) int64; cosines, weights: (N, K) float32, the weights of a picture sum to 1; files: the source
    file of each, None where it is not known.
    """

    ids: np.ndarray
    cosines: np.ndarray
    weights: np.ndarray
    labels: np.ndarray
    files: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class ExplanationRow:
    """One line of an explanation. picture: which answer it belongs to, from 0; label: a class's name."""

    picture: int
    answer: str
    probability: float
    rank: int
    id: int
    label: str | None
    weight: float
    cosine: float
    file: str | None


@dataclass(frozen=True)
class Prediction:
    """The answers to N pictures. logits, probabilities: (N, C) float32; labels: (N,) the most probable class.

    classes: its name; names: of all classes; pictures: (N, H, W, 3) uint8, as the encoder saw them; files: where they
    came from, None where that is not known.
    """

    logits: np.ndarray
    probabilities: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    neighbors: Evidence
    names: tuple[str, ...]
    pictures: np.ndarray
    files: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def explained(self) -> Iterator[ExplanationRow]:
        """A line for each neighbor that the answers rest on."""
        near = self.neighbors
        for picture, rank in zip(*np.nonzero(near.ids != NOBODY), strict=True):
            label = int(near.labels[picture, rank])
            yield ExplanationRow(
                picture=int(picture),
                answer=self.classes[picture],
                probability=float(self.probabilities[picture, self.labels[picture]]),
                rank=int(rank) + 1,
                id=int(near.ids[picture, rank]),
                label=None if label == NOBODY else self.names[label],
                weight=float(near.weights[picture, rank]),
                cosine=float(near.cosines[picture, rank]),
                file=near.files[picture][rank],
            )


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
