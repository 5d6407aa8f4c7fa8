"""A figure of relearning, drawn from made-up numbers; tests/report/figures checks it as it does all others."""

import itertools

import numpy as np
import pandas as pd

from munkey.studies.relearning.figure import relearning_plot

STEPS = [0, 1, 10, 100]
SYSTEMS = [
    *(("vit", "original-t", "ViT", "nothing"), ("vit", "retrain-t", "ViT", "oracle")),
    *(("vit", f"method-{number}", f"Method {number}", "method") for number in range(5)),
    *(("munkey", "original-m", "MUNKEY", "nothing"), ("munkey", "retrain-m", "MUNKEY", "oracle")),
    ("munkey", "munkey", "MUNKEY", "method"),
]


def forget_curves() -> pd.DataFrame:
    """Random forget accuracies of ten systems, two seeds each, at four steps."""
    rng = np.random.default_rng(0)
    lines = []
    for (family, name, title, role), seed, step in itertools.product(SYSTEMS, (0, 1), STEPS):
        line = {"family": family, "name": name, "title": title, "role": role, "seed": seed}
        lines.append(line | {"step": step, "FA": rng.uniform(80, 100)})
    return pd.DataFrame(lines)


DRAWINGS = {"relearning": lambda: relearning_plot(forget_curves())}
