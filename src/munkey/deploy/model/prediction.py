"""Predictions of a model, and the samples that they are based on."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from munkey.core.ids import NO_LABEL, NO_NEIGHBOR
from munkey.deploy.model.manifest import Manifest

LOOK_UP = "The command munkey find lists the samples nearest to a picture."


@dataclass(frozen=True)
class Evidence:
    """The neighbors of N pictures, nearest first. A missing neighbor has the id -1.

    Attributes
    ----------
    ids, labels : ndarray of int64, shape (N, K)
        Ids of the neighbors, and their class indices.
    cosines, weights : ndarray of float32, shape (N, K)
        Cosines of the keys, and weights of the neighbors. The weights of a picture sum to 1, unless
        it has no neighbors.
    files : tuple of tuple of str or None
        Source files of the neighbors; None if unknown.
    """

    ids: np.ndarray
    cosines: np.ndarray
    weights: np.ndarray
    labels: np.ndarray
    files: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class ExplanationRow:
    """One neighbor of one picture, as a row of an explanation.

    picture: its index, from 0. answer, probability: the picture's predicted class. rank: from 1. id,
    label, weight, cosine, file: those of the neighbor; label and file are None if unknown.
    """

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
    """Predictions for N pictures.

    Attributes
    ----------
    logits, probabilities : ndarray of float32, shape (N, C)
        One column per class.
    labels : ndarray of int64, shape (N,)
        Index of the most probable class of each picture.
    classes : tuple of str
        Name of the most probable class of each picture.
    neighbors : Evidence
        The samples that the predictions are based on.
    names : tuple of str
        The names of all classes.
    files : tuple of str or None
        The file of each picture; None if unknown.
    basis : str
        A sentence that describes how the model predicts.
    """

    logits: np.ndarray
    probabilities: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    neighbors: Evidence
    names: tuple[str, ...]
    files: tuple[str | None, ...]
    basis: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    def explanation(self) -> Iterator[ExplanationRow]:
        """Yield a row for each neighbor that the predictions are based on, picture by picture."""
        neighbors = self.neighbors
        for picture, rank in zip(*np.nonzero(neighbors.ids != NO_NEIGHBOR), strict=True):
            label = int(neighbors.labels[picture, rank])
            label_name = None
            if label != NO_LABEL:
                label_name = self.names[label]
            yield ExplanationRow(
                picture=int(picture),
                answer=self.classes[picture],
                probability=float(self.probabilities[picture, self.labels[picture]]),
                rank=int(rank) + 1,
                id=int(neighbors.ids[picture, rank]),
                label=label_name,
                weight=float(neighbors.weights[picture, rank]),
                cosine=float(neighbors.cosines[picture, rank]),
                file=neighbors.files[picture][rank],
            )


def describe_basis(manifest: Manifest, samples: int) -> str:
    """Describe in a few sentences how a model predicts. samples: their number in the memory."""
    all_samples = f"all {samples:,} samples" if samples > 1 else "its only sample"
    listing = "Listed are the nearest samples, with their classes and how much each counts"
    match manifest.family:
        case "lda":
            return (
                "LDA predicts with weights computed from the class means and the common scatter of"
                f" {all_samples} together, so no neighbor decides. {LOOK_UP}"
            )
        case "ncm":
            return (
                "NCM predicts the class whose mean is nearest. The means are those of"
                f" {all_samples}, so no neighbor decides. {LOOK_UP}"
            )
        case "ranpac":
            return (
                "RanPAC predicts with weights computed from sums of random features of"
                f" {all_samples} together, so no neighbor decides. {LOOK_UP}"
            )
        case "krr":
            return (
                f"KRR predicts with a weighted sum over {all_samples}. Nearer samples weigh more."
                f" {LOOK_UP}"
            )
        case "knn":
            return (
                f"KNN predicts by a vote of the samples nearest by cosine. {listing} in the vote."
            )
    head = ""
    if manifest.head is not None:
        from munkey.models.family import read_added_head

        family, _ = read_added_head(manifest.head)
        head = f" The logits of {family.title}, computed from {all_samples}, are added to its own."
    return (
        "MUNKEY reads the picture together with the tokens of the samples nearest to it."
        f" {listing}. For a sample that was added after training, it reads an average of the tokens"
        f" of the nearest training samples.{head}"
    )


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the softmax of logits (N, C), computed without overflow."""
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)
