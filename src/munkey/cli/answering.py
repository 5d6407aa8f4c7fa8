"""`munkey predict` and `munkey add`."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

from munkey.cli.output import say, tracked, working
from munkey.core.files import atomic
from munkey.deploy import json_answers
from munkey.deploy.model.explain import page
from munkey.deploy.model.images import each
from munkey.deploy.model.predictor import Predictor

PICTURES_AT_ONCE = 64  # pictures that are answered together


def predict(predictor: Predictor, pictures: Sequence[Path], explain: bool, html: Path | None, as_json: bool) -> None:
    single = list(each(pictures))
    size = len(single) if html else PICTURES_AT_ONCE  # a page needs all of them
    parts = [single[start : start + size] for start in range(0, len(single), size)]
    answers = []
    for part in tracked(parts, "answering"):
        prediction = predictor.predict(part)
        answers += json_answers.predicted(prediction, explain=explain)["predictions"]
    if html:
        with atomic(html) as temporary, redirect_stdout(sys.stderr):
            temporary.write_text(page(prediction), encoding="utf-8")
    say("\n".join(map(_line, answers)), {"predictions": answers}, as_json)


def _line(answer: json_answers.Json) -> str:
    lines = [f"{answer['file']}: {answer['class']} ({answer['probability']:.1%})"]
    for near in answer.get("neighbors", []):
        source = f", {near['file']}" if near["file"] else ""
        lines.append(f"  {near['weight']:.3f}  id {near['id']}, {near['label']}, cosine {near['cosine']:.3f}{source}")
    return "\n".join(lines)


def add(predictor: Predictor, pictures: Sequence[Path], label: str, as_json: bool) -> None:
    single = list(each(pictures))
    with working("adding"):
        ids: list[int] = np.asarray(predictor.add(single, [label] * len(single))).tolist()
    said_ids = f"id {ids[0]}" if len(ids) == 1 else f"ids {ids[0]} to {ids[-1]}"
    say(f"added {len(ids)} of class {label}: {said_ids}", {"ids": ids, "label": label}, as_json)
