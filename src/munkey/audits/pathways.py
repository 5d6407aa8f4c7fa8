"""Several paths into one model: each is another chance to find something by luck, which Holm's correction pays for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Pathway:
    """p: of the path alone; p_holm: corrected for all paths. An exploratory path was not declared before the audit."""

    path: str
    role: Literal["deployed", "declared", "exploratory"]
    p: float
    p_holm: float


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p: reject those at most alpha, and the chance of any false rejection is at most alpha.

    Raises ValueError for what is not a probability.
    """
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise ValueError(f"p = {p} of {name!r} is not between 0 and 1")
    names = sorted(p_values, key=p_values.__getitem__)
    steps = [(len(names) - rank) * p_values[name] for rank, name in enumerate(names)]
    adjusted = dict(zip(names, np.maximum.accumulate(steps).clip(max=1).tolist(), strict=True)) if names else {}
    return {name: adjusted[name] for name in p_values}


def pathways(p_values: Mapping[str, float], deployed: str, declared: Collection[str] = ()) -> list[Pathway]:
    """One audit's p-values by path, in their order. deployed: the path that answers users.

    Raises KeyError where a path that is deployed or declared was not audited.
    """
    for path in (deployed, *declared):
        if path not in p_values:
            raise KeyError(f"path {path!r} was not audited; these were: {', '.join(p_values)}")
    adjusted = holm(p_values)

    def role(path: str) -> Literal["deployed", "declared", "exploratory"]:
        return "deployed" if path == deployed else "declared" if path in declared else "exploratory"

    return [Pathway(path, role(path), p, adjusted[path]) for path, p in p_values.items()]
