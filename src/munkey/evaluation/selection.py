"""Choosing (p_image, p_token) by pathway sensitivity and validation utility gap (sec. 3.2, app. E).

Neither the oracle nor the test set takes part in the choice.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import pandas as pd

from munkey.core.diverged import DIVERGED
from munkey.settings import SelectionSettings

SHOWN = ("TA", "RA", "FA", "VA", "MIA")  # after deletion; beside the choice in its table


class NothingPassesError(ValueError):
    """No pair keeps both pathways alive; the message lists the whole grid."""


@dataclass(frozen=True)
class Pair:
    """A pair of the grid. P_s, gap: means over seeds.

    P_s: pathway sensitivity before deletion, on the training set. gap: between the validation accuracy and the accuracy
    on the forget set, after deletion, in percentage points. A pair for reference is shown but never chosen. Both are
    NaN where the training of a seed diverged.
    """

    p_image: float
    p_token: float
    P_s: float
    gap: float
    reference: bool = False

    def __str__(self) -> str:
        return f"p_image {self.p_image:g}, p_token {self.p_token:g}: P_s {self.P_s:.3f}, gap {self.gap:.2f}"


class PairVerdict(NamedTuple):
    """The decision on a pair, and the reason for it."""

    pair: Pair
    chosen: bool
    reason: str


class Systems(NamedTuple):
    """The names of the system before deletion and of the one after it, as in the metrics."""

    before: str
    after: str


def pairs_of(tidy: pd.DataFrame, grid: Mapping[str, Mapping[str, float]], systems: Systems) -> list[Pair]:
    """The measured pairs of one data set.

    tidy: metrics with the columns case, method, seed, metric, value. grid: p_image and p_token by case; the pair with
    both zero is for reference. Raises KeyError where a system was not measured.
    """
    pairs = []
    for case, probabilities in grid.items():
        before, after = _by_seed(tidy, case, systems.before), _by_seed(tidy, case, systems.after)
        gap = (after["VA"] - after["FA"]).abs().mean(skipna=False)
        reference = not any(probabilities.values())
        pairs.append(Pair(**probabilities, P_s=before["P_s"].mean(skipna=False), gap=gap, reference=reference))
    return pairs


def select(pairs: Sequence[Pair], settings: SelectionSettings, required: bool = True) -> list[PairVerdict]:
    """A decision on every pair; exactly one pair is chosen, or none where none passes.

    Pairs that diverged, or whose P_s is not below the threshold, are dropped. The smallest gap wins. Gaps within
    `comparable` points of it count as equal, and of those the smallest P_s wins. Pairs for reference do not take part.
    Raises NothingPassesError where none passes and one is required, because models are to be trained with it.
    """
    finite = [pair for pair in pairs if math.isfinite(pair.P_s) and math.isfinite(pair.gap)]
    alive = [pair for pair in finite if not pair.reference and pair.P_s < settings.threshold]
    if not alive and required:
        listed = "".join(f"\n  - {pair}" for pair in pairs)
        remedy = "widen the grid `selection` or raise its threshold"
        raise NothingPassesError(f"no pair (p_image, p_token) has P_s < {settings.threshold:g}; {remedy}:{listed}")
    smallest = min((pair.gap for pair in alive), default=0.0)
    equal = [pair for pair in alive if pair.gap - smallest <= settings.comparable]
    best = min(equal, key=lambda pair: (pair.P_s, pair.gap), default=None)

    def reason(pair: Pair) -> str:
        if pair not in finite or pair.reference:
            return "for reference: no pathway is ever dropped" if pair in finite else "diverged"
        if pair not in alive:
            return f"dropped: P_s is not below {settings.threshold:g}" + ("" if alive else "; no pair passes")
        if pair not in equal:
            return f"its gap is {pair.gap - smallest:.2f} points above the smallest"
        if pair is not best:
            return (
                f"its gap is comparable to the smallest ({smallest:.2f}), but its P_s is larger than the chosen one's"
            )
        if len(equal) == 1:
            return "chosen: smallest gap"
        within = f"within {settings.comparable:g} of {smallest:.2f}"
        return f"chosen: smallest P_s among the {len(equal)} whose gaps are {within}"

    return [PairVerdict(pair, pair is best, reason(pair)) for pair in pairs]


def chosen(verdicts: Sequence[PairVerdict]) -> Pair | None:
    """The pair to use; None where none passes."""
    return next((verdict.pair for verdict in verdicts if verdict.chosen), None)


def table(
    dataset: str, verdicts: Sequence[PairVerdict], tidy: pd.DataFrame, cases: Iterable[str], systems: Systems
) -> list[dict[str, object]]:
    """The lines of the selection's table: each pair, the decision on it, and its means after deletion over n seeds.

    cases: of the verdicts, in their order; tidy: as in `pairs_of`.
    """
    return [
        {"dataset": dataset, **asdict(pair), "chosen": chosen, "reason": reason}
        | {name: after[name].mean(skipna=False) for name in SHOWN}
        | {"n": len(after)}
        for (pair, chosen, reason), case in zip(verdicts, cases, strict=True)
        for after in [_by_seed(tidy, case, systems.after)]
    ]


def _by_seed(tidy: pd.DataFrame, case: str, system: str) -> pd.DataFrame:
    """A line per seed and a column per metric, of one system in one case; NaN for a seed that diverged."""
    lines = tidy[(tidy["case"] == case) & (tidy["method"] == system)]
    if lines.empty:
        raise KeyError(f"no metrics of {system!r} in the case {case}: its evaluation is missing")
    by_seed = lines.pivot_table(index="seed", columns="metric", values="value")
    return by_seed.reindex(columns=by_seed.columns.union(["P_s", *SHOWN])) if DIVERGED in by_seed else by_seed
