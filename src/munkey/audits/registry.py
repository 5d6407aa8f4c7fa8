"""The registry of audits. An audit is a function (evidence, generator) -> Finding.

`needs` names the evidence that an audit uses (munkey.audits.evidence):

    pairs    Pairs             margins of models trained in pairs on swapped halves of a pool
    oracles  OracleComparison  logits of unlearned models and of oracles on one forget set
    logits   Predictions       logits of one model on its retain, forget and test sets
    models   ShippedFiles      the files of a shipped system
    curves   Curves            a measurement of a system and its oracle during further training

Snakemake imports every audit's module for planning, so audits import scipy and scikit-learn inside
functions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from munkey.core.registry import Registry

Need = Literal["pairs", "oracles", "logits", "models", "curves"]


class Finding:
    """Base class of audit results. Subclasses are frozen dataclasses of numbers."""


@dataclass(frozen=True)
class NoFinding(Finding):
    """The finding of an audit that cannot measure anything, such as one with too little data.

    Attributes
    ----------
    why
        The reason, in a sentence.
    """

    why: str


@dataclass(frozen=True)
class Estimate(Finding):
    """A number with its 95% interval, in the unit of the finding."""

    value: float
    low: float
    high: float

    def make_columns(self, name: str) -> dict[str, float]:
        """Return the number as column NAME, and its interval as NAME_low and NAME_high."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


RunT = TypeVar("RunT", bound=Callable[..., Finding])


@dataclass(frozen=True)
class Audit:
    """An entry of the registry of audits. The decorator `audit` explains its fields."""

    name: str
    title: str
    needs: Need
    definition: str
    source: str
    run: Callable[..., Finding]


AUDITS: Registry[Audit] = Registry("audit", "munkey.audits.attacks")


def audit(
    name: str, *, title: str, needs: Need, definition: str, source: str
) -> Callable[[RunT], RunT]:
    """Register an audit: a function (evidence, generator) -> Finding.

    An audit that needs "logits" runs on every system of the main run and must return an `Attack`
    (munkey.audits.roc) or `NoFinding`. Other evidence is gathered only for munkey's own audits.

    Parameters
    ----------
    name : str
        Its name in tables of results.
    title : str
        The title of its columns in the report.
    needs : {"pairs", "oracles", "logits", "models", "curves"}
        The evidence that it is called with.
    definition : str
        A short definition for the table of audits.
    source : str
        Authors, year and venue.

    Returns
    -------
    callable
        The decorator.

    Raises
    ------
    ValueError
        If `needs` is unknown, or if the name is taken or cannot be part of a path.

    Examples
    --------
    >>> import numpy as np
    >>> from munkey.audits.attacks.population import attack_population
    >>> @audit(
    ...     "confidence",
    ...     title="Confidence",
    ...     needs="logits",
    ...     definition="the more confident, the likelier a member",
    ...     source="none",
    ... )
    ... def confidence(predictions, generator):
    ...     score = predictions.logits.max(axis=1)
    ...     return attack_population([score], [np.flatnonzero(predictions.test)], predictions, generator)
    >>> AUDITS["confidence"].needs
    'logits'
    >>> AUDITS.remove("confidence")
    """
    if needs not in get_args(Need):
        valid = ", ".join(get_args(Need))
        raise ValueError(f"audit {name!r}: needs must be one of {valid}, got {needs!r}")

    def register(run: RunT) -> RunT:
        AUDITS.add(name, Audit(name, title, needs, definition, source, run))
        return run

    return register
