"""What an answer rests on, for the terminal and as a page with pictures."""

import re
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from munkey import ForgettingKNN, ForgettingKRR, ForgettingLDA, ForgettingNCM
from munkey.deploy.model import explain
from munkey.deploy.model.explain import page, table
from munkey.deploy.predictor import Predictor
from tests.estimators.inputs import RanPAC


def elsewhere(model: Predictor, files: list[str | None]) -> None:
    """Remember that the samples came from these files."""
    rows = model._file.snapshot().memory.columns
    model._file.delete(rows.ids)
    model._file.add(rows.ids, rows.keys, rows.tokens, rows.labels, files)


def shown(html: str) -> list[str]:
    return re.findall(r'<img src="data:image/png;base64,[\w+/=]+" alt="([^"]+)"', html)


def test_the_table_has_a_line_for_each_neighbor(predictor, images):
    lines = table(predictor.predict(images.images[:2])).splitlines()
    assert lines[0].split()[:3] == ["picture", "answer", "probability"] and len(lines) == 2 + 2 * 4
    assert "pictures/a/00.png" in lines[2]


def test_names_that_look_like_numbers_stay_as_they_are(predictor, images):
    answer = replace(
        predictor.predict(images.images[:1]), classes=("1.50",), names=("007", "007", "007")
    )
    for line in table(answer).splitlines()[2:]:
        assert line.split()[1] == "1.50" and line.split()[5] == "007"


def test_the_page_shows_pictures_of_the_source_files_and_needs_nothing_else(predictor, images):
    html = page(predictor.predict(images.images[[1]]))
    assert len(shown(html)) == 1 + 4 and "no picture" not in html
    assert "<script" not in html and not re.findall(r'(?:src|href)="(?!data:)', html)
    assert "dog &amp; co" in html and "dog & co" not in html


def test_without_a_source_file_the_page_says_so_or_takes_the_data_sets_images(directory, images):
    with Predictor.load(directory, device="cpu") as model:
        elsewhere(model, [None] * len(model.ids))
        answer = model.predict(images.images[[1]])
    assert page(answer).count("no picture") == 4
    assert len(shown(page(answer, images.images))) == 1 + 4


def test_a_source_file_that_cannot_be_read_is_said_to_be(directory, images, capsys, monkeypatch):
    with Predictor.load(directory, device="cpu") as model:
        elsewhere(model, [f"gone<{one}>.png" for one in model.ids])
        answer = model.predict(images.images[[1]])
    html = page(answer)
    assert html.count("no picture") == 4 and "gone&lt;" in html and "gone<" not in html
    assert "no such file" in capsys.readouterr().out
    monkeypatch.setattr(
        explain, "read_picture", Mock(side_effect=PermissionError(13, "Permission denied"))
    )
    assert page(answer).count("no picture") == 4 and "Permission denied" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("family", "decides"),
    [
        (
            ForgettingLDA,
            "LDA predicts with weights computed from the class means and the common scatter of all 12 samples",
        ),
        (
            ForgettingNCM,
            "NCM predicts the class whose mean is nearest. The means are those of all 12 samples",
        ),
        (
            RanPAC,
            "RanPAC predicts with weights computed from sums of random features of all 12 samples",
        ),
        (ForgettingKRR, "KRR predicts with a weighted sum over all 12 samples"),
        (ForgettingKNN, "KNN predicts by a vote of the samples nearest by cosine"),
    ],
)
def test_each_family_says_how_it_answers(family, decides, tmp_path):
    rows = np.random.default_rng(0).normal(size=(12, 6))
    family().fit(rows, np.arange(12) % 2).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model") as model:
        answer = model.predict(rows[:1])
    html = page(answer).replace("&#39;", "'")
    for said in (html, answer.basis):
        assert decides in said
        assert "token" not in said and "memory is empty" not in said
        assert ("munkey find" in said) == (family is not ForgettingKNN)
    assert "<img" not in html  # rows of numbers are no pictures
    assert ("All samples contribute to this prediction" in html) == (family is not ForgettingKNN)
    if family is not ForgettingKNN:
        assert table(answer) == answer.basis


def test_munkeys_page_says_that_tokens_were_read(predictor, images):
    answer = predictor.predict(images.images[[1]])
    assert "reads the picture together with the tokens" in answer.basis and answer.basis.split(".")[
        0
    ] in page(answer)
