"""How jobs and files report a model that diverged.

Its job writes a system without weights, with the reason and the log's path. Later jobs write NaN as
logits, so that only this model's row of a table is lost.
"""

from collections.abc import Mapping

import numpy as np

DIVERGED = "diverged"  # key of the reason in systems' metadata, files of logits, and records
LOG_PREFIX = "; log: "


class DivergedError(ValueError):
    """A loss, weight, or logit is not finite. The message says which."""

    def reason(self, log: str) -> str:
        """Return the message with the path of a job's log.

        A message that already names the log of an earlier job is unchanged.
        """
        message = str(self)
        if LOG_PREFIX in message:
            return message
        return f"{message}{LOG_PREFIX}{log}"


def make_nan_logits(
    arrays: Mapping[str, np.ndarray], classes: int, why: str
) -> dict[str, np.ndarray]:
    """Return the arrays, which include `ids`, with NaN as logits and the reason."""
    logits = np.full((len(arrays["ids"]), classes), np.nan, dtype=np.float32)
    return {**arrays, "logits": logits, DIVERGED: np.array(why)}


def explain_divergence(arrays: Mapping[str, np.ndarray]) -> str:
    """Return why the model that gave these logits diverged, or "" if it did not."""
    if DIVERGED not in arrays:
        return ""
    return str(arrays[DIVERGED])
