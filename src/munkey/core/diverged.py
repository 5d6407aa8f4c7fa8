"""Models that diverged: how jobs report them to later jobs.

A diverged model costs a run one row of a table, not the table. The job that trains or unlearns it
writes a system without weights; its file has the reason and the path of the log. Later jobs write
NaN as its logits, with the reason.
"""

from collections.abc import Mapping

import numpy as np

DIVERGED = "diverged"  # key of the reason in the metadata of systems, with logits and in records
LOG = "; log: "


class DivergedError(ValueError):
    """A loss, a weight or a logit is not finite; the message says which."""

    def reason(self, log: str) -> str:
        """Return the message and a job's log, unless the message has that of an earlier job."""
        message = str(self)
        if LOG in message:
            return message
        return f"{message}{LOG}{log}"


def make_nan_logits(
    arrays: Mapping[str, np.ndarray], classes: int, why: str
) -> dict[str, np.ndarray]:
    """Return the logits of a diverged model: NaN.

    Parameters
    ----------
    arrays
        The ids of the samples, and further arrays to keep.
    """
    logits = np.full((len(arrays["ids"]), classes), np.nan, dtype=np.float32)
    return {**arrays, "logits": logits, DIVERGED: np.array(why)}


def explain_divergence(arrays: Mapping[str, np.ndarray]) -> str:
    """Return why the model that made these arrays diverged, or "" if it did not."""
    return str(arrays[DIVERGED]) if DIVERGED in arrays else ""
