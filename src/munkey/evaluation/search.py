"""Search for the settings of a method on validation data alone (app. B.2): which unlearned model to take."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """The accuracies of one candidate in percent. Neither the test set nor the oracle takes part in the choice."""

    val_accuracy: float
    forget_accuracy: float

    @property
    def gap(self) -> float:
        """The validation utility gap |val - forget| (sec. 3.2)."""
        return abs(self.val_accuracy - self.forget_accuracy)


def choose(candidates: Sequence[Candidate], original_val_accuracy: float, drop: float | None) -> int:
    """The position of the candidate with the smallest gap; the first of equal ones.

    drop: only candidates that lose at most this many points of the original's validation accuracy are eligible. If all
    lose more, the one that loses least is taken. None: no such limit [ours: by its gap alone, a collapsed model wins].
    """
    if drop is None:
        eligible = list(range(len(candidates)))
    else:
        eligible = [i for i, c in enumerate(candidates) if original_val_accuracy - c.val_accuracy <= drop]
    if not eligible:
        return max(range(len(candidates)), key=lambda i: candidates[i].val_accuracy)
    return min(eligible, key=lambda i: candidates[i].gap)
