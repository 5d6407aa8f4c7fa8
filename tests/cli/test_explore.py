"""`munkey explore`."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from munkey.deploy.predictor import Predictor


def data_of(page: Path) -> dict:
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="contents">(.*?)</script>', text, re.DOTALL)[1])


def test_explore_shows_the_samples_of_a_model_and_no_forgotten_ones(
    munkey: Callable, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)  # it would compile for ten seconds
    page = tmp_path / "page.html"
    with Predictor.load(model) as predictor:
        gone = int(predictor.ids[0])
        predictor.forget([gone])
        sample_count = len(predictor.ids)
    result = munkey("explore", model, "--html", page, "--json")
    assert result.code == 0, result.err
    assert result.json == {"page": str(page), "samples": sample_count, "held": sample_count}
    contents = data_of(page)
    assert len(contents["samples"]["names"]) == sample_count
    for name in contents["samples"]["names"]:
        assert name.split()[0] != f"#{gone}"
    assert contents["pictures"] is None
    assert munkey("explore", model, "--html", page).code == 0  # one of ours is replaced


def test_explore_overwrites_no_other_file_and_writes_nothing_into_the_model(
    munkey: Callable, model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.html"
    other.write_text("mine")
    result = munkey("explore", model, "--html", other)
    assert result.code == 2
    assert "choose a new name" in result.err
    assert other.read_text() == "mine"
    assert munkey("explore", model, "--html", model / "page.html").code == 2
