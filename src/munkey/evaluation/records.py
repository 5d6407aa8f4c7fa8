"""One evaluation of a system against a forget set, and its files."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Evaluation:
    """A system on a data set, and the files of its results.

    Attributes
    ----------
    case
        The part of a case's name after the data set, e.g. KNOB/VALUE; empty for the main run.
    rate
        The forget rate, as it is written in paths.
    method
        The name of the system.
    logits, forget
        The files of the logits and of the forget set.
    record
        The record of the job that trained or unlearned the system.
    training
        The record of the training run that the system started from.
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
        """The columns that identify the evaluation in a table of metrics."""
        key: dict[str, object] = {"dataset": self.dataset}
        if self.case:
            key["case"] = self.case
        return key | {"rate": self.rate, "seed": self.seed, "method": self.method}
