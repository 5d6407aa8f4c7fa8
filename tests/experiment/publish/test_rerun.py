"""What is equal, within rounding, or different."""

from types import SimpleNamespace

import numpy as np
import pytest

from munkey.experiment.publish.machine import list_differences
from munkey.experiment.publish.rerun import (
    DIFFERENT,
    EQUAL,
    ROUNDING,
    TOLERANCE,
    _compare_values,
    compare_logits,
    draw_seeds,
)

LOGITS = np.array([[4.0, 1.0], [-8.0, 2.0], [np.nan, np.nan]], dtype=np.float32)


def compare(**changed):
    published = {"ids": np.arange(3), "logits": LOGITS}
    return compare_logits("a.npz", published, published | changed)


def test_logits_are_compared_with_their_largest_value():
    assert compare().result == EQUAL
    step = np.float32(8 * TOLERANCE)
    assert compare(logits=LOGITS + step / 2).result == ROUNDING
    different = compare(logits=LOGITS + 2 * step)
    assert different.result == DIFFERENT
    assert different.size == pytest.approx(2 * TOLERANCE, rel=0.05)
    assert "0 of 3 predictions changed" in different.detail
    swapped = compare(logits=np.array([[1.0, 4.0], *LOGITS[1:]], dtype=np.float32))
    assert "1 of 3 predictions changed" in swapped.detail


@pytest.mark.parametrize(
    "changed",
    [
        {"ids": np.arange(1, 4)},
        {"logits": LOGITS[:2]},
        {"logits": LOGITS.astype(np.float64)},
        {"logits": np.zeros_like(LOGITS)},
        {"more": np.zeros(1)},
    ],
)
def test_other_arrays_are_different(changed):
    if changed.get("logits") is not None and changed["logits"].dtype == np.float64:
        assert compare(**changed).detail == "other array logits"
    assert compare(**changed).result == DIFFERENT


def test_metrics_may_be_missing():
    row = ("digits", "0.1", "0", "cf", "TA")
    assert _compare_values(row, "", "").result == EQUAL
    assert _compare_values(row, "97.5", "").result == DIFFERENT
    assert _compare_values(row, "97.5", "97.50001").result == ROUNDING
    comparison = _compare_values(row, "97.5", "97.7")
    assert comparison.result == DIFFERENT
    assert comparison.name == "TA of cf, digits, rate 0.1, seed 0"
    assert comparison.detail == "published 97.5, here 97.7"


def test_only_what_differs_between_machines_is_listed():
    published = {"device": "CPU a", "torch": "2.9"}
    assert list_differences(published, published) == []
    assert list_differences(published, {"device": "CPU b", "torch": "2.9", "numpy": "2"}) == [
        "device: published CPU a, here CPU b",
        "numpy: published not stated, here 2",
    ]


def test_drawn_seeds_are_kept_in_the_folder(tmp_path):
    run = SimpleNamespace(sha256="0" * 64, facts=SimpleNamespace(seeds=list(range(100))))
    drawn = draw_seeds(run, 3, tmp_path)
    assert draw_seeds(run, 3, tmp_path) == drawn
    with pytest.raises(FileExistsError, match="another draw"):
        draw_seeds(run, 4, tmp_path)
    other = SimpleNamespace(sha256="1" * 64, facts=run.facts)
    with pytest.raises(FileExistsError, match="another draw"):
        draw_seeds(other, 3, tmp_path)


def test_a_metric_may_be_zero():
    row = ("digits", "0.1", "0", "cf", "gap")
    assert _compare_values(row, "0.0", "-0.0").result == EQUAL
