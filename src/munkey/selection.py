"""Choosing (p_image, p_token) by pathway sensitivity and validation utility gap (sec. 3.2, app. E).

Neither the oracle nor the test set has a say.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd


class NothingPassesError(ValueError):
    """No pair keeps both pathways alive; the message lists the whole grid."""


@dataclass(frozen=True)
class Pair:
    """A pair of the grid, means over seeds. P_s: before deletion, on the training set; accuracies after it, percent."""

    p_image: float
    p_token: float
    P_s: float
    gap: float
    reference: bool = False

    def __str__(self) -> str:
        return f"p_image {self.p_image:g}, p_token {self.p_token:g}: P_s {self.P_s:.3f}, gap {self.gap:.2f}"


def select(pairs: Sequence[Pair], threshold: float, comparable: float) -> tuple[Pair, list[dict[str, Any]]]:
    """The pair to use, and for every pair a row of the table with the reason why it was chosen or not.

    Pairs with P_s >= threshold are dropped; the smallest gap wins; gaps within `comparable` points of it count as
    equal, and of those the smallest P_s wins. Pairs for reference do not take part. Raises NothingPassesError.
    """
    alive = [pair for pair in pairs if not pair.reference and pair.P_s < threshold]
    if not alive:
        listed = "".join(f"\n  - {pair}" for pair in pairs)
        todo = "widen the grid `selection` or raise its threshold"
        raise NothingPassesError(f"no pair (p_image, p_token) has P_s < {threshold:g}; {todo}:{listed}")
    smallest = min(pair.gap for pair in alive)
    equal = [pair for pair in alive if pair.gap - smallest <= comparable]
    chosen = min(equal, key=lambda pair: (pair.P_s, pair.gap))

    def reason(pair: Pair) -> str:
        if pair.reference:
            return "for reference: no pathway is ever dropped"
        if pair.P_s >= threshold:
            return f"dropped: P_s is not below {threshold:g}"
        if pair not in equal:
            return f"its gap is {pair.gap - smallest:.2f} points above the smallest"
        if pair is not chosen:
            return (
                f"its gap is comparable to the smallest ({smallest:.2f}), but its P_s is larger than the chosen one's"
            )
        if len(equal) > 1:
            return f"chosen: smallest P_s among the {len(equal)} whose gaps are within {comparable:g} of {smallest:.2f}"
        return "chosen: smallest gap"

    return chosen, [asdict(pair) | {"chosen": pair is chosen, "reason": reason(pair)} for pair in pairs]


def table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The grid of a data set with the reason for each pair, as cells ready to print."""
    return pd.DataFrame(
        {
            "p_image": f"{row['p_image']:g}",
            "p_token": f"{row['p_token']:g}",
            "P_s": f"{row['P_s']:.3f}",
            "Validation gap": f"{row['gap']:.2f}",
            "Why": row["reason"],
        }
        for row in rows
    )
