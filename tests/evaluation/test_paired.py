"""Paired differences in accuracy, by hand, and how often their interval holds the truth."""

import math

import numpy as np
import pytest

from munkey.core.diverged import make_nan_logits
from munkey.core.files import write_npz
from munkey.evaluation.paired import COLUMNS, compare_pair, compare_systems
from munkey.evaluation.records import Evaluation


def test_the_interval_over_test_samples_is_that_of_agresti_and_min():
    """Of 100 samples, A alone is right on 12 and B alone on 4: 8 points, ± 1.96 √(17 - 8² / 102) / 102."""
    gains = np.repeat([1, -1, 0], [12, 4, 84])[None]
    half_width = 100 * 1.959964 * math.sqrt(17 - 64 / 102) / 102
    row = compare_pair(gains)
    assert (row["seeds"], row["tested"], row["difference"]) == (1, 100, 8)
    assert (row["low"], row["high"]) == pytest.approx((8 - half_width, 8 + half_width))


@pytest.mark.parametrize(("won", "is_proof"), [(4, False), (6, True)])
def test_a_handful_of_samples_is_no_proof(won, is_proof):
    """McNemar's exact test has p = 0.125 for 4 samples that A alone wins, 0.031 for 6."""
    row = compare_pair(np.repeat([1, 0], [won, 450 - won])[None])
    assert (row["low"] > 0) == is_proof


def test_the_interval_over_seeds_adds_students_interval():
    """Means of 2, 4 and 6 points: sd 2, t = 4.303 with two degrees of freedom."""
    gains = np.arange(100) < np.array([[2], [4], [6]])
    by_sample = gains.mean(axis=0)
    over_samples = 1.959964 * math.sqrt((by_sample**2).sum() + 1 - 16 / 102) / 102
    half_width = math.hypot(4.302653 * 2 / math.sqrt(3), 100 * over_samples)
    row = compare_pair(gains)
    assert row["difference"] == pytest.approx(4)
    assert row["high"] - 4 == pytest.approx(half_width)


@pytest.mark.parametrize(("seeds", "between_seeds"), [(1, 0), (3, 0.02)])
def test_the_interval_holds_the_true_difference_in_at_least_19_of_20_cases(seeds, between_seeds):
    """Two systems of about 85 and 80% that err on the same hard samples. One seed knows nothing of others."""
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        hardness = generator.uniform(size=200)
        noise = generator.normal(0, between_seeds, (2, seeds, 1))
        one = hardness + 0.1 * generator.normal(size=(seeds, 200)) < 0.85 + noise[0]
        other = hardness + 0.1 * generator.normal(size=(seeds, 200)) < 0.80 + noise[1]
        row = compare_pair(one.astype(float) - other)
        covered += row["low"] <= 4.77 <= row["high"]  # the mean over 20,000 drawn pairs
    assert covered >= 940


def test_every_pair_of_systems_has_a_row_unless_one_diverged(tmp_path):
    labels = np.arange(10) % 2
    splits = np.array(["train"] * 4 + ["test"] * 6)
    answers = {"a": labels, "b": 1 - labels, "c": np.where(np.arange(10) < 7, labels, 1 - labels)}
    runs = []
    for seed in (0, 1):
        for method in ("a", "b", "c", "gone"):
            logits = np.eye(2, dtype=np.float32)[answers.get(method, labels)]
            predictions = {"ids": np.arange(10), "labels": labels, "splits": splits}
            if method == "gone" and seed == 1:
                predictions = make_nan_logits(predictions, 2, "the loss is not finite")
            file = str(tmp_path / f"{method}{seed}.npz")
            write_npz(file, {"logits": logits} | predictions)
            runs.append(Evaluation("digits", "", "0.1", seed, method, file, "", "", ""))
    rows = compare_systems(runs)
    differences = {(row["method"], row["other"]): row["difference"] for row in rows}
    assert differences == {("a", "b"): 100, ("a", "c"): 50, ("b", "c"): -50}
    for row in rows:
        assert tuple(row) == COLUMNS
        assert (row["seeds"], row["tested"]) == (2, 6)
