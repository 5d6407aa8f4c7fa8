"""What a model answered, and what the answer rests on."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from munkey.core.ids import NOBODY
from munkey.deploy.model.manifest import Manifest

LOOK_UP = "The command munkey find lists the samples nearest to a picture."


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

    classes: its name; names: of all classes; pictures: (N, H, W, 3) uint8, as the encoder saw them, None for rows of
    numbers; files: where they came from, None where that is not known; basis: how the model answers, in a sentence.
    """

    logits: np.ndarray
    probabilities: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    neighbors: Evidence
    names: tuple[str, ...]
    pictures: np.ndarray | None
    files: tuple[str | None, ...]
    basis: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    def explanation(self) -> Iterator[ExplanationRow]:
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


def basis_of(manifest: Manifest, samples: int) -> str:
    """How a model of this kind, which holds so many samples, answers: a sentence for whoever asks what decided."""
    everybody = f"all {samples:,} samples" if samples > 1 else "its only sample"
    of_neighbors = "Listed are the nearest samples, with their classes and how much each counts"
    match manifest.family:
        case "lda":
            how = (
                "LDA answers by weights computed from the classes' means and the common scatter of"
            )
            return f"{how} {everybody} together, so no neighbor decides. {LOOK_UP}"
        case "ncm":
            how = "NCM answers with the class whose mean is nearest. The means are those of"
            return f"{how} {everybody}, so no neighbor decides. {LOOK_UP}"
        case "knn":
            return f"KNN answers by a vote of the samples nearest by cosine. {of_neighbors} in the vote."
    how = "MUNKEY reads the picture together with the tokens of the samples nearest to it"
    added = "for one that was added after training, an average of its nearest training samples' tokens was read"
    head = (
        f" LDA's logits, computed from {everybody}, are added to its own."
        if manifest.head is not None
        else ""
    )
    return f"{how}. {of_neighbors}; {added}.{head}"


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
