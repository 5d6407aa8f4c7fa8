"""The registry of audits. An audit is a function (evidence, generator) -> Finding, or Refused with a sentence.

What it needs is named by one word, and that word is the class of its evidence (munkey.audits.evidence):

    pairs    Pairs     margins of models trained in pairs on swapped halves of a pool
    oracles  Compared  logits of unlearned models and of oracles on one forget set
    logits   Answers   logits of one model on its retain, forget and test sets
    models   Shipped   the files that are shipped
    curves   Curves    a number of a system and of its oracle, while both are trained further

An audit's module is imported while Snakemake plans, so it imports scipy and scikit-learn inside functions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from munkey.core.registry import Registry

Need = Literal["pairs", "oracles", "logits", "models", "curves"]


class Finding:
    """What an audit returns: a frozen dataclass of numbers."""


@dataclass(frozen=True)
class Refused(Finding):
    """In place of a number that the data cannot give. why: a sentence."""

    why: str


@dataclass(frozen=True)
class Estimate(Finding):
    """A number with its 95 % interval, in the unit that its owner names."""

    value: float
    low: float
    high: float

    def columns(self, name: str) -> dict[str, float]:
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


Run = TypeVar("Run", bound=Callable[..., Finding])


@dataclass(frozen=True)
class Audit:
    """An entry of the registry. definition: one line; source: authors, year and where.

    run: (evidence, generator) -> Finding, where the evidence is of the class that `needs` names.
    """

    name: str
    title: str
    needs: Need
    definition: str
    source: str
    run: Callable[..., Finding]


AUDITS: Registry[Audit] = Registry("audit", "munkey.audits.attacks")


def audit(name: str, *, title: str, needs: Need, definition: str, source: str) -> Callable[[Run], Run]:
    """Register an audit. Raises ValueError for a kind of evidence that does not exist."""
    if needs not in get_args(Need):
        raise ValueError(f"audit {name!r} needs {needs!r}; there are: {', '.join(get_args(Need))}")

    def register(run: Run) -> Run:
        AUDITS.add(name, Audit(name, title, needs, definition, source, run))
        return run

    return register
