"""The record of one evaluation: its system, its forget set, and its files."""

from dataclasses import dataclass

# The path through a family whose predictions users get. Audits query families with pathways by others, too.
DEPLOYED = "deployed"


@dataclass(frozen=True)
class Evaluation:
    """The files of one system's evaluation on one forget set.

    Attributes
    ----------
    case
        Such as KNOB/VALUE in an ablation; empty in the main run.
    rate
        The forget rate, written as in file paths.
    logits, record, forget
        The files with the system's logits, the job's record, and the forget set's ids.
    training
        The record of the training run that the system is based on.
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
        """The columns that identify this evaluation in a table of metrics."""
        key: dict[str, object] = {"dataset": self.dataset}
        if self.case:
            key["case"] = self.case
        return key | {"rate": self.rate, "seed": self.seed, "method": self.method}
