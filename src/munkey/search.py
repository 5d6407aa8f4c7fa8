"""Hyper-parameter search on validation alone (app. B.2): which of several unlearned models to take."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """Accuracies in percent of one candidate; neither test set nor oracle has a say."""

    val_accuracy: float
    forget_accuracy: float

    @property
    def gap(self) -> float:
        """The validation utility gap |val - forget| (sec. 3.2)."""
        return abs(self.val_accuracy - self.forget_accuracy)


def choose(candidates: Sequence[Candidate], original_val_accuracy: float, drop: float | None) -> int:
    """The position of the candidate with the smallest gap; of equal ones the first.

    drop: only among those that lose at most so many points of the original's validation accuracy; where all lose more,
    the one that loses least; None for no such limit [ours: the gap alone prefers a model that collapsed].
    """
    if drop is None:
        sound = list(range(len(candidates)))
    else:
        sound = [i for i, c in enumerate(candidates) if original_val_accuracy - c.val_accuracy <= drop]
    if not sound:
        return max(range(len(candidates)), key=lambda i: candidates[i].val_accuracy)
    return min(sound, key=lambda i: candidates[i].gap)
