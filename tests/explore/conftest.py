"""A browser, and pages whose contents are known."""

import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from munkey.explore.contents import Contents, NearRows, PageSamples, SystemPredictions
from munkey.explore.page import render_page
from munkey.explore.pictures import make_thumbnails
from munkey.report.tables.frontier import KINDS
from tests.explore.browser import launched

MARKUP = (
    "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
)
CLASSES = ["cat", "dog", MARKUP]
REQUEST = "rate0.1"


def random_contents(count: int, forgotten: int) -> Contents:
    """Contents of `count` samples, of which the first are forgotten; drawn from a fixed seed."""
    generator = np.random.default_rng(0)
    ids = np.arange(count, dtype=np.int64) * 2  # ids are not positions
    labels = np.arange(count) % len(CLASSES)
    splits = np.where(np.arange(count) % 4 == 3, "test", "train")
    points = generator.normal(size=(2, count)) + 3 * labels
    images = generator.integers(0, 255, size=(count, 8, 8, 3), dtype=np.uint8)
    shared = {"oracle": "retrain-v", "original": "original-v", "restsOn": 0}
    systems = [
        {"name": "original-v", "title": "original-v", "role": "original"} | shared,
        {"name": "retrain-v", "title": "retrain-v", "role": "oracle"} | shared,
        {"name": "one", "title": "one", "role": "method"} | shared,
        {"name": "two", "title": f"two {MARKUP}", "role": "method"} | shared | {"restsOn": 2},
    ]
    answers = {}
    for system in systems:
        subset = "full" if system["role"] == "original" else REQUEST
        p_true = generator.integers(0, 65535, size=count, dtype=np.uint16)
        answers[f"0/{subset}/{system['name']}"] = SystemPredictions(labels.astype(np.uint8), p_true)
    per_class = {part: [10, 10, 10] for part in ("test", "retain", "forget")}
    correct = {}
    designs = []
    for place, system in enumerate(systems):
        correct[f"0/{REQUEST}/{system['name']}"] = {part: [9, 8, place] for part in per_class}
        if system["role"] != "original":
            designs.append(design(system, place))
    streams = []
    for name, requests in product(("one", "two"), range(4)):
        stream = {"name": name, "title": name, "seed": 0, "done": requests}
        streams.append(stream | {"RA": 99.0, "TA": 95.0 - requests})
    near = np.stack([np.roll(ids, -step) for step in range(4)], axis=1)
    cosines = np.tile(np.array([1, 0.9, 0.8, 0.7], dtype=np.float32), count)
    rows = NearRows(near.astype(np.int32).ravel(), cosines, 4)
    return Contents(
        title=f"random {MARKUP}",
        subtitle="a test",
        scope="All are shown.",
        classes=CLASSES,
        samples=PageSamples(ids, labels, splits, points[0].astype("f4"), points[1].astype("f4")),
        projection="Two random directions.",
        is_experiment=True,
        pictures=make_thumbnails(images),
        requests=[{"key": REQUEST, "label": "10%", "case": "", "rate": 0.1}],
        seeds=[0],
        systems=systems,
        predictions=answers,
        counts={f"0/{REQUEST}": per_class},
        correct=correct,
        forgotten={f"0/{REQUEST}": np.arange(forgotten, dtype=np.int32)},
        near={"full": rows, f"0/{REQUEST}": rows},
        designs=designs,
        streams=streams,
        commands={"audits": "make audits", "scenarios": "make scenarios", "streams": "make run"},
    )


def design(system: dict[str, Any], place: int) -> dict[str, Any]:
    """A line of the designs."""
    kinds = {"retrain-v": "anew", "one": "weights", "two": "rows"}
    columns = ["TA", "RA", "FA", "MIA", "Avg Gap", "Seconds"]
    cells = dict.fromkeys(columns, f"{90 + place}.00 ± 0.10")
    numbers = {"TA": 90.0 + place, "TA_sd": 0.1, "seconds": 1.0 + place}
    gap = {"gap": float(place), "gap_sd": 0.2}
    share = {"share": 5.0 * place, "share_low": 5.0 * place - 1, "share_high": 5.0 * place + 1}
    return {
        "request": REQUEST,
        "name": system["name"],
        "title": system["title"],
        "kind": kinds[system["name"]],
        "kindWords": KINDS[kinds[system["name"]]],
        "stored": "nothing",
        "n": 3,
        "shareText": f"{5 * place}",
        "audited": system["role"] == "method",
        "cells": cells,
        **numbers,
        **gap,
        **share,
    }


def write_random_page(count: int, forgotten: int) -> Path:
    """A page in a file of its own."""
    path = Path(tempfile.mkdtemp()) / "page.html"
    path.write_text(render_page(random_contents(count, forgotten)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as chromium:
        yield chromium


@pytest.fixture(scope="session")
def random_page() -> Path:
    """A page of 120 samples, 30 of them forgotten, whose names are markup."""
    return write_random_page(120, 30)
