"""The figure of relearning: a panel for each method, beside the oracle and the original of its own family."""

import numpy as np
import pandas as pd

from munkey.report.figures.relearning import relearning_plot

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


def test_each_method_has_a_panel_with_the_references_of_its_family():
    curves = relearned()
    panels = [axes for axes in relearning_plot(curves).axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == [
        *(f"Method {number}" for number in range(5)),
        "MUNKEY",
    ]
    means = curves.groupby(["name", "step"])["FA"].mean()
    for axes, names in (
        (panels[0], ("method-0", "retrain-t", "original-t")),
        (panels[5], ("munkey", "retrain-m", "original-m")),
    ):
        for line, name in zip(axes.lines, names, strict=True):
            np.testing.assert_allclose(line.get_xdata(), STEPS)
            np.testing.assert_allclose(line.get_ydata(), means[name])
