"""The estimators, one for each family that deletes exactly. Their settings are the family's of params.yaml."""

import numpy as np

from munkey.estimators.classifier import ForgettingClassifier


class ForgettingLinear(ForgettingClassifier):
    """A linear head: logits are keys · coef_ + intercept_, where a key is a row of X at unit norm."""

    @property
    def coef_(self) -> np.ndarray:
        """(C, d) float64, a row for each of `classes_`."""
        return self._held.head.weight.numpy()

    @property
    def intercept_(self) -> np.ndarray:
        """(C,) float64."""
        return self._held.head.bias.numpy()


class ForgettingLDA(ForgettingLinear):
    """Linear discriminant analysis with a shrunk covariance (docs/methods/lda.md).

    alpha: share of the covariance that is taken to be alike in all directions: fewer rows need more. temperature:
    divides the logits. Both are constants: choose them without the rows that may have to go.
    """

    family = "lda"

    def __init__(self, alpha: float = 0.2, temperature: float = 5.0) -> None:
        self.alpha = alpha
        self.temperature = temperature


class ForgettingNCM(ForgettingLinear):
    """The nearest class mean (docs/methods/ncm.md). temperature: divides the logits."""

    family = "ncm"

    def __init__(self, temperature: float = 0.015) -> None:
        self.temperature = temperature


class ForgettingKNN(ForgettingClassifier):
    """The vote of the nearest rows by cosine (docs/methods/knn.md).

    k: how many vote, at most 100; vote: their weights, `equal`, `similarity` (softmax of cosine / temperature) or
    `rank` (1 / (2 + rank)).
    """

    family = "knn"

    def __init__(self, k: int = 16, vote: str = "similarity", temperature: float = 0.02) -> None:
        self.k = k
        self.vote = vote
        self.temperature = temperature
