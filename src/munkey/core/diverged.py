"""Models that diverged: how a job reports them, and how files pass it on.

NaN costs a run a row of a table, not the table. The job that trains or unlearns writes a system
without weights; its file gives the reason and names the log. Later jobs write NaN as the answers
of such a system, with the reason.
"""

from collections.abc import Mapping

import numpy as np

DIVERGED = "diverged"  # key of the reason in metadata of systems, in answers and in records
LOG = "; log: "


class DivergedError(ValueError):
    """A loss, a weight or an answer is not finite; the message says which."""

    def reason(self, log: str) -> str:
        """Return the message with a job's log, unless it names the log of an earlier job."""
        message = str(self)
        if LOG in message:
            return message
        return f"{message}{LOG}{log}"


def make_nan_logits(
    arrays: Mapping[str, np.ndarray], classes: int, why: str
) -> dict[str, np.ndarray]:
    """Return the answers of a diverged model: NaN.

    Parameters
    ----------
    arrays
        Ids of the samples, and further arrays.
    """
    logits = np.full((len(arrays["ids"]), classes), np.nan, dtype=np.float32)
    return {**arrays, "logits": logits, DIVERGED: np.array(why)}


def explain_divergence(arrays: Mapping[str, np.ndarray]) -> str:
    """Return why the model of these answers diverged; empty if it did not."""
    return str(arrays[DIVERGED]) if DIVERGED in arrays else ""
