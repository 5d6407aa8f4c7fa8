"""Several tests at once: each is another chance to find something by luck, which Holm's correction pays for."""

from collections.abc import Mapping

import numpy as np


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
