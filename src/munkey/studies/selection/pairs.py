"""Selection of (p_image, p_token) by pathway sensitivity and validation gap (sec. 3.2, app. E).

The selection uses neither the oracle nor the test set.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import pandas as pd

from munkey.core.diverged import DIVERGED
from munkey.studies.selection.settings import SelectionSettings

TABLE_METRICS = ("TA", "RA", "FA", "VA", "MIA")  # measured after deletion


class NothingPassesError(ValueError):
    """No pair keeps both pathways in use. The message lists the whole grid."""


@dataclass(frozen=True)
class Pair:
    """A grid point (p_image, p_token) with its results, averaged over seeds; NaN if any diverged.

    Attributes
    ----------
    P_s
        Pathway sensitivity before deletion, on the training set.
    gap
        |validation accuracy - forget accuracy| after deletion, in percentage points.
    reference
        Whether the pair is only shown, and never chosen.
    """

    p_image: float
    p_token: float
    P_s: float
    gap: float
    reference: bool = False

    def __str__(self) -> str:
        probabilities = f"p_image {self.p_image:g}, p_token {self.p_token:g}"
        return f"{probabilities}: P_s {self.P_s:.3f}, gap {self.gap:.2f}"


class PairVerdict(NamedTuple):
    """The decision on a pair, with its reason."""

    pair: Pair
    chosen: bool
    reason: str


class Systems(NamedTuple):
    """The names of the systems before and after deletion, as in the column `method`."""

    before: str
    after: str


def collect_pairs(
    tidy: pd.DataFrame, grid: Mapping[str, Mapping[str, float]], systems: Systems
) -> list[Pair]:
    """Return the pairs of one data set with their results. Raises KeyError if a system is missing.

    `tidy` has the columns case, method, seed, metric and value; `grid` maps each case to p_image
    and p_token, and (0, 0) is for reference.
    """
    pairs = []
    for case, probabilities in grid.items():
        before = _pivot_by_seed(tidy, case, systems.before)
        after = _pivot_by_seed(tidy, case, systems.after)
        pair = Pair(
            **probabilities,
            P_s=before["P_s"].mean(skipna=False),
            gap=(after["VA"] - after["FA"]).abs().mean(skipna=False),
            reference=not any(probabilities.values()),
        )
        pairs.append(pair)
    return pairs


def decide_pairs(
    pairs: Sequence[Pair],
    settings: SelectionSettings,
    required: bool = True,
) -> list[PairVerdict]:
    """Return a verdict on every pair. At most one pair is chosen.

    The "health check" of sec. 3.2 drops pairs that diverged or whose P_s is not below
    `settings.threshold`; pairs for reference are dropped, too. Gaps within `settings.comparable`
    points of the smallest count as equal. Of these, the smallest P_s wins; ties go to the smaller
    gap.

    Raises NothingPassesError if no pair passes although one is `required`.
    """
    finite = []
    healthy = []
    for pair in pairs:
        if not (math.isfinite(pair.P_s) and math.isfinite(pair.gap)):
            continue
        finite.append(pair)
        if not pair.reference and pair.P_s < settings.threshold:
            healthy.append(pair)
    if not healthy and required:
        pair_list = "".join(f"\n  - {pair}" for pair in pairs)
        raise NothingPassesError(
            f"no pair (p_image, p_token) has P_s < {settings.threshold:g}; widen the grid"
            f" `selection` or raise its threshold:{pair_list}"
        )
    smallest_gap = min((pair.gap for pair in healthy), default=0.0)
    comparable = [pair for pair in healthy if pair.gap - smallest_gap <= settings.comparable]
    best = min(comparable, key=lambda pair: (pair.P_s, pair.gap), default=None)

    def explain(pair: Pair) -> str:  # noqa: PLR0911  # one sentence per case
        if pair not in finite:
            return "diverged"
        if pair.reference:
            return "for reference: no pathway is ever dropped"
        if pair not in healthy:
            reason = f"dropped: P_s is not below {settings.threshold:g}"
            if not healthy:
                reason += "; no pair passes"
            return reason
        if pair not in comparable:
            return f"its gap is {pair.gap - smallest_gap:.2f} points above the smallest"
        if pair is not best:
            assert best is not None
            larger = "P_s" if pair.P_s > best.P_s else "gap"
            return (
                f"its gap is comparable to the smallest ({smallest_gap:.2f}), but its {larger} is"
                " larger than the chosen one's"
            )
        if len(comparable) == 1:
            return "chosen: smallest gap"
        return (
            f"chosen: smallest P_s among the {len(comparable)} whose gaps are"
            f" within {settings.comparable:g} of {smallest_gap:.2f}"
        )

    return [PairVerdict(pair, pair is best, explain(pair)) for pair in pairs]


def get_chosen_pair(verdicts: Sequence[PairVerdict]) -> Pair | None:
    """Return the chosen pair, or None if no pair passed."""
    for verdict in verdicts:
        if verdict.chosen:
            return verdict.pair
    return None


def make_table(
    dataset: str,
    verdicts: Sequence[PairVerdict],
    tidy: pd.DataFrame,
    cases: Iterable[str],
    systems: Systems,
) -> list[dict[str, object]]:
    """Return the rows of the selection table: pairs, verdicts (one per case), and mean metrics."""
    rows = []
    for verdict, case in zip(verdicts, cases, strict=True):
        after = _pivot_by_seed(tidy, case, systems.after)
        row = {"dataset": dataset, **asdict(verdict.pair)}
        row |= {"chosen": verdict.chosen, "reason": verdict.reason}
        for name in TABLE_METRICS:
            row[name] = after[name].mean(skipna=False)
        row["n"] = len(after)
        rows.append(row)
    return rows


def _pivot_by_seed(tidy: pd.DataFrame, case: str, system: str) -> pd.DataFrame:
    """Return a system's metrics with one row per seed; NaN if it diverged."""
    rows = tidy[(tidy["case"] == case) & (tidy["method"] == system)]
    if rows.empty:
        raise KeyError(f"no metrics of {system!r} in the case {case}: its evaluation is missing")
    by_seed = rows.pivot_table(index="seed", columns="metric", values="value")
    if DIVERGED in by_seed:
        return by_seed.reindex(columns=by_seed.columns.union(["P_s", *TABLE_METRICS]))
    return by_seed
