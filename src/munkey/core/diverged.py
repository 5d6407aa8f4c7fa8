"""Models that diverged: how a job says so, and how the files between jobs carry it.

A run that meets NaN loses a row of a table, not the table. The job that trains or unlearns writes a system without
weights, whose file says why and names the job's log; whoever asks such a system for answers gets NaN, and the reason.
"""

from collections.abc import Mapping

import numpy as np

DIVERGED = "diverged"  # of a system's metadata, of answers, and of a record: why, and which log says more
LOG = "; log: "


class DivergedError(ValueError):
    """A loss, a weight or an answer is not finite; the message says which."""

    def reason(self, log: str) -> str:
        """The message with a job's log; as it is where it names one, that of the job where the trouble began."""
        message = str(self)
        return message if LOG in message else f"{message}{LOG}{log}"


def no_answers(arrays: Mapping[str, np.ndarray], classes: int, why: str) -> dict[str, np.ndarray]:
    """What a diverged model answers: NaN. arrays: the ids of the samples, and what else goes with them."""
    logits = np.full((len(arrays["ids"]), classes), np.nan, dtype=np.float32)
    return {**arrays, "logits": logits, DIVERGED: np.array(why)}


def why_diverged(arrays: Mapping[str, np.ndarray]) -> str:
    """Why the model behind these answers diverged; empty where it did not."""
    return str(arrays[DIVERGED]) if DIVERGED in arrays else ""
