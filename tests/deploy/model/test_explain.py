"""What an answer rests on, as a table."""

from dataclasses import replace

import numpy as np
import pytest

from munkey import ForgettingKNN, ForgettingKRR, ForgettingLDA, ForgettingNCM
from munkey.deploy.model.explain import table
from munkey.deploy.predictor import Predictor
from tests.estimators.inputs import RanPAC


def test_the_table_has_a_line_for_each_neighbor(predictor, images):
    lines = table(predictor.predict(images.images[:2])).splitlines()
    assert lines[0].split()[:3] == ["picture", "answer", "probability"]
    assert len(lines) == 2 + 2 * 4
    assert "pictures/a/00.png" in lines[2]


def test_names_that_look_like_numbers_are_not_changed(predictor, images):
    answer = replace(
        predictor.predict(images.images[:1]), classes=("1.50",), names=("007", "007", "007")
    )
    for line in table(answer).splitlines()[2:]:
        assert line.split()[1] == "1.50"
        assert line.split()[5] == "007"


@pytest.mark.parametrize(
    ("family", "basis"),
    [
        (ForgettingLDA, "scatter of all 12 samples"),
        (ForgettingNCM, "those of all 12 samples"),
        (RanPAC, "random features of all 12 samples"),
        (ForgettingKRR, "weighted sum over all 12 samples"),
        (ForgettingKNN, "a vote of the samples"),
    ],
)
def test_each_family_says_how_it_answers(family, basis, tmp_path):
    rows = np.random.default_rng(0).normal(size=(12, 6))
    family().fit(rows, np.arange(12) % 2).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model") as model:
        answer = model.predict(rows[:1])
    assert basis in answer.basis
    assert "token" not in answer.basis
    assert "memory is empty" not in answer.basis
    assert ("munkey find" in answer.basis) == (family is not ForgettingKNN)
    if family is not ForgettingKNN:
        assert table(answer) == answer.basis


def test_munkey_says_that_tokens_were_read(predictor, images):
    answer = predictor.predict(images.images[[1]])
    assert "tokens" in answer.basis
