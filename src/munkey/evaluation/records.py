"""The files of one evaluation: a system against a forget set."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Evaluation:
    """A system of a data set, and the files of its results.

    Attributes
    ----------
    case
        The place KNOB/VALUE of an ablation's or the selection's case, else empty.
    rate
        The forget rate, as in paths.
    training
        The record of the training that the system started from.
    sampling
        How the forget set was drawn.
    """

    dataset: str
    case: str
    rate: str
    seed: int
    method: str
    logits: str
    record: str
    training: str
    forget: str
    sampling: str = "stratified"

    @property
    def key(self) -> dict[str, object]:
        """The columns that identify it in a table of metrics."""
        key: dict[str, object] = {"dataset": self.dataset}
        if self.case:
            key["case"] = self.case
        return key | {"rate": self.rate, "seed": self.seed, "method": self.method}
