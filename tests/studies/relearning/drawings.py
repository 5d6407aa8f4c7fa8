"""A figure of relearning, drawn from made-up numbers; tests/report/figures checks it as it does all others."""

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


def relearned() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    keys = ("family", "name", "title", "role")
    return pd.DataFrame(
        {
            **dict(zip(keys, system, strict=True)),
            "seed": seed,
            "step": step,
            "FA": rng.uniform(80, 100),
        }
        for system in SYSTEMS
        for seed in (0, 1)
        for step in STEPS
    )


DRAWINGS = {"relearning": lambda: relearning_plot(relearned())}
