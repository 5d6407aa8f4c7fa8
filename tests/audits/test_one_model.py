"""Attacks on a system of the main run see its retain, forget and test samples as what they are."""

from dataclasses import replace

import numpy as np
import pytest

from munkey.audits.evidence import Answers
from munkey.audits.one_model import _answers, attacked
from munkey.audits.registry import AUDITS, Refused
from munkey.core.files import write_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.evaluation.records import Evaluation


@pytest.fixture
def run(tmp_path) -> Evaluation:
    rng, count = np.random.default_rng(0), 260
    splits = np.array(["train"] * 120 + ["val"] * 10 + ["test"] * 130)
    labels = rng.integers(0, 3, count)
    logits = rng.normal(size=(count, 3)).astype(np.float32)
    logits[:40] += 6 * np.eye(3, dtype=np.float32)[labels[:40]]  # the forget set: known by heart
    write_npz(
        tmp_path / "logits.npz", {"ids": np.arange(count) + 5, "labels": labels, "splits": splits, "logits": logits}
    )
    forget_sets.write(tmp_path / "forget.csv", np.arange(40) + 5)
    files = {"logits": str(tmp_path / "logits.npz"), "forget": str(tmp_path / "forget.csv")}
    return Evaluation("digits", "", "0.1", 3, "cf", record="", training="", **files)


def test_each_set_is_what_it_is(run: Evaluation):
    answers = _answers(run)
    assert np.flatnonzero(answers.forget).tolist() == list(range(40))
    assert np.flatnonzero(answers.retain).tolist() == list(range(40, 120))
    assert np.flatnonzero(answers.test).tolist() == list(range(130, 260))


def test_there_is_a_line_for_each_attack_with_its_own_generator(run: Evaluation):
    lines = attacked(run)
    assert [line["attack"] for line in lines] == ["logistic", "loss", "margin"]
    assert all((line["dataset"], line["seed"], line["method"]) == ("digits", 3, "cf") for line in lines)
    expected = AUDITS["loss"].run(_answers(run), Stage(3, "digits", "attacks", "0.1", "cf", "loss").numpy_generator())
    for name in ("auroc", "tpr_1"):
        found = [lines[1][f"{name}{end}"] for end in ("", "_low", "_high")]
        estimate = getattr(expected, name)
        assert found == [estimate.value, estimate.low, estimate.high]
    assert lines[1]["auroc"] > 90 and isinstance(_answers(run), Answers)


def test_an_attack_that_refuses_has_a_line_without_numbers(run: Evaluation, monkeypatch):
    refusing = replace(AUDITS["loss"], run=lambda *_: Refused("not here"))
    monkeypatch.setattr("munkey.audits.one_model.AUDITS", {"loss": refusing})
    (line,) = attacked(run)
    assert "auroc" not in line and line["method"] == "cf"


def test_a_rate_that_few_test_samples_cannot_show_is_left_out(run: Evaluation):
    lines = {line["attack"]: line for line in attacked(run)}
    assert "tpr_1" in lines["loss"] and "tpr_1" not in lines["logistic"]  # 130 outsiders, and 65 in a half
