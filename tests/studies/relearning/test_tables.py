"""The table of relearning: each system against the oracle of its family, seed by seed."""

import pandas as pd
import pytest

from munkey.core.files import write_csv
from munkey.studies.relearning.tables import (
    make_relearning_table,
    read_curves,
    summarize_relearning,
)

FA = {  # of (name, title, role, family), by seed: at steps 0, 1 and 4
    ("original-t", "Original (T)", "nothing", "vit"): [[98, 98, 98], [97, 97, 97]],
    ("retrain-t", "Retrain (T)", "oracle", "vit"): [[90, 92, 92], [90, 90, 90]],
    ("cf", "CF", "method", "vit"): [[90, 96, 94], [88, 90, 90]],
    ("retrain-k", "Retrain (K)", "oracle", "knn"): [[50, 50, 50], [50, 50, 50]],
}


@pytest.fixture
def curves(tmp_path) -> pd.DataFrame:
    systems = []
    for (name, title, role, family), values in FA.items():
        files = [str(tmp_path / f"{name}{seed}.csv") for seed in range(2)]
        for file, accuracies in zip(files, values, strict=True):
            lines = []
            for step, accuracy in zip((0, 1, 4), accuracies, strict=True):
                line = {"step": step, "FA": accuracy, "TA": 99.0}
                lines.append(line | {"margin": accuracy / 100})
            write_csv(file, lines)
        system = {"name": name, "title": title, "role": role, "family": family}
        systems.append(system | {"curves": files})
    return read_curves(systems, [5, 7])


def test_curves_carry_their_system_and_seed(curves):
    assert len(curves) == 24
    assert curves["seed"].tolist() == [5, 5, 5, 7, 7, 7] * 4
    line = curves.set_index(["name", "seed", "step"]).loc[("cf", 7, 4)]
    columns = ["title", "role", "family", "FA", "TA"]
    assert line[columns].tolist() == ["CF", "method", "vit", 90, 99]


def test_a_line_has_the_distance_of_a_system_above_its_oracle(curves):
    summary = summarize_relearning(curves).set_index("name")
    assert summary.index.tolist() == ["original-t", "retrain-t", "cf", "retrain-k"]
    assert (summary["n"] == 2).all()
    cf = summary.loc["cf"]
    assert (cf["FA_first"], cf["FA_last"], cf["TA_last"]) == (89, 92, 99)
    assert (cf["FA_before_mean"], cf["FA_highest_mean"], cf["FA_area_mean"]) == (-1, 2, 1.25)
    assert cf["margin_highest_mean"] == pytest.approx(0.02)
    columns = ["FA_highest_mean", "FA_area_mean", "margin_highest_sd"]
    assert summary.loc["retrain-t", columns].tolist() == [0, 0, 0]


def test_the_table_shows_means_with_sd_and_the_curve_of_the_oracle(curves):
    titled = make_relearning_table(summarize_relearning(curves), curves, "digits")
    assert titled.title.startswith("digits: 4 steps")
    assert titled.title.endswith("n = 2 seeds")
    rows = titled.frame.set_index("Model, and what was done")
    assert rows.index.tolist() == ["Original (T)", "Retrain (T)", "CF", "Retrain (K)"]
    assert rows.loc["CF", "FA [%]"] == "89.0 → 92.0"
    assert rows.loc["Retrain (T)", "FA [%]"] == "90.0 → 91.0"
    assert rows.loc["CF", "FA above [points]: at most"] == "2.0 ± 2.8"
    assert set(rows.loc["Retrain (T)"].iloc[2:]) == {"–"}
