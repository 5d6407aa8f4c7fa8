"""Which files belong to one system, evaluated against one forget set."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Evaluation:
    """A system of a data set, and where its results lie.

    case: KNOB/VALUE for a case of an ablation or of the selection, else empty. rate: of the forget set, as it stands in
    paths. training: the record of the training that the system started from. sampling: of the forget set.
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
        """What names it in a table of metrics."""
        case = {"case": self.case} if self.case else {}
        return {"dataset": self.dataset} | case | {"rate": self.rate, "seed": self.seed, "method": self.method}
