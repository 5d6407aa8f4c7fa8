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


def test_it_shows_what_the_model_holds_and_not_what_it_forgot(
    munkey: Callable, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)  # it would compile for ten seconds
    page = tmp_path / "page.html"
    with Predictor.load(model) as predictor:
        gone = int(predictor.ids[0])
        predictor.forget([gone])
        held = len(predictor.ids)
    ended = munkey("explore", model, "--html", page, "--json")
    assert ended.code == 0, ended.err
    assert ended.json == {"page": str(page), "samples": held, "held": held}
    contents = data_of(page)
    assert len(contents["samples"]["names"]) == held
    assert not any(name.split()[0] == f"#{gone}" for name in contents["samples"]["names"])
    assert contents["pictures"] is None
    assert munkey("explore", model, "--html", page).code == 0  # one of ours is replaced


def test_it_overwrites_nothing_else_and_stays_out_of_the_model(
    munkey: Callable, model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.html"
    other.write_text("mine")
    ended = munkey("explore", model, "--html", other)
    assert ended.code == 2
    assert "choose a new name" in ended.err
    assert other.read_text() == "mine"
    assert munkey("explore", model, "--html", model / "page.html").code == 2
