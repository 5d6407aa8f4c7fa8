"""The main run's systems, each by itself: what attacks are handed, and what is left in files after deletion."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from munkey.audits.evidence import Predictions
from munkey.audits.main_run import (
    STORAGE_COLUMNS,
    describe_exactness,
    make_attack_rows,
    make_storage_rows,
)
from munkey.audits.registry import AUDITS, NoFinding
from munkey.core.files import write_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.encoders.keys import Keys
from munkey.evaluation.records import Evaluation
from munkey.memory.exemplars import ExemplarMemory
from munkey.models import system
from munkey.models.family import FittedArchitecture, System
from tests.conftest import unit_rows
from tests.models.inputs import SECTIONS, fitted

IDS = np.arange(100, 120)
FORGOTTEN = np.array([103, 110, 119])
Search = Callable[[ExemplarMemory], list[dict[str, object]]]


@pytest.fixture
def memory() -> ExemplarMemory:
    generator = torch.Generator().manual_seed(0)
    return ExemplarMemory(
        torch.from_numpy(IDS),
        torch.randn(20, 12, generator=generator),
        torch.randn(20, 9, generator=generator),
    )


@pytest.fixture
def search(memory: ExemplarMemory, tmp_path: Path) -> Search:
    """What is found where a method leaves a memory."""
    files = [str(tmp_path / f"{name}.safetensors") for name in ("original", "unlearned")]
    forget_sets.write(tmp_path / "forget.csv", FORGOTTEN)

    def run_search(memory_after: ExemplarMemory) -> list[dict[str, object]]:
        for file, saved_memory in zip(files, (memory, memory_after), strict=True):
            system.save(
                file, System("knn", FittedArchitecture(3, 12, SECTIONS["knn"]), None, saved_memory)
            )
        key = {"dataset": "digits", "rate": "0.1", "seed": 0, "method": "munkey", "title": "MUNKEY"}
        return make_storage_rows(
            {"key": key, "files": files, "forget": str(tmp_path / "forget.csv")}
        )

    return run_search


def numbers(lines: list[dict[str, object]], *names: str) -> list[list[object]]:
    """These values of each row, after its file."""
    frame = pd.DataFrame(lines, dtype=object).reindex(columns=["file", *names])
    return frame.to_numpy().tolist()


def test_all_deleted_rows_are_found_before_deletion_and_none_after_it(
    search: Search, memory: ExemplarMemory
):
    lines = search(memory.forget(FORGOTTEN))
    counts = numbers(lines, "ids", "ids_of", "rows", "rows_of")
    assert counts == [["original", 3, 3, 6, 6], ["unlearned", 0, 3, 0, 6]]
    for line in lines:
        assert line["title"] == "MUNKEY"
        assert line.keys() <= set(STORAGE_COLUMNS)


@pytest.mark.parametrize(
    ("family", "settings", "exactness"),
    [
        ("lda", {}, "exact given alpha and temperature"),
        ("lda", {"alpha": "auto"}, "exact given temperature"),
        ("lda", {"alpha": "auto", "temperature": "auto"}, "exact"),
        ("ncm", {"temperature": "auto"}, "exact"),
        ("knn", {}, "exact given k and vote and temperature"),
        ("ranpac", {"lam": "auto", "temperature": "auto"}, "exact"),
        ("krr", {"temperature": "auto"}, "exact given lam"),
        ("newton", {}, None),
    ],
    ids=str,
)
def test_the_rows_of_the_search_say_whether_a_deletion_is_exact(
    family, settings, exactness, tmp_path
):
    keys = Keys(IDS, unit_rows(20, 12))
    original = fitted(family, keys, np.arange(20) % 3, **settings)
    assert describe_exactness(original) == exactness
    if exactness is None:
        return
    unlearned = fitted(
        family,
        Keys(np.delete(IDS, [3, 10, 19]), np.delete(keys.keys, [3, 10, 19], axis=0)),
        np.delete(np.arange(20) % 3, [3, 10, 19]),
        **settings,
    )
    files = [str(tmp_path / f"{name}.safetensors") for name in ("original", "unlearned")]
    system.save(files[0], original)
    system.save(files[1], unlearned)
    forget_sets.write(tmp_path / "forget.csv", FORGOTTEN)
    lines = make_storage_rows({"key": {}, "files": files, "forget": str(tmp_path / "forget.csv")})
    assert numbers(lines, "rows", "deletion") == [
        ["original", 3, exactness],
        ["unlearned", 0, exactness],
    ]


def test_tokens_that_are_labels_are_not_searched_for(search: Search, memory: ExemplarMemory):
    memory.tokens.resize_(20, 1)
    counts = numbers(search(memory.forget(FORGOTTEN)), "ids", "rows", "rows_of")
    assert counts == [["original", 3, 3, 3], ["unlearned", 0, 0, 3]]


def test_a_row_that_stayed_is_found_by_its_key_its_token_and_its_id(
    search: Search, memory: ExemplarMemory
):
    assert numbers(search(memory.forget(FORGOTTEN[:2])), "ids", "rows") == [
        ["original", 3, 6],
        ["unlearned", 1, 2],
    ]


def test_a_token_that_stayed_without_its_id_is_found(search: Search, memory: ExemplarMemory):
    remaining = memory.forget(FORGOTTEN)
    padded = replace(
        remaining,
        tokens=torch.cat([remaining.tokens, memory.tokens[3].expand(len(remaining), -1)], dim=1),
    )
    assert numbers(search(padded), "ids", "rows") == [["original", 3, 6], ["unlearned", 0, 1]]


def test_no_number_is_given_if_the_remaining_rows_are_not_found(
    search: Search, memory: ExemplarMemory
):
    remaining = memory.forget(FORGOTTEN)
    before, after = search(replace(remaining, tokens=remaining.tokens.half().float()))
    assert before["rows"] == 6
    assert "rows" not in after
    assert "17 of 34" in str(after["why"])


@pytest.fixture
def run(tmp_path) -> Evaluation:
    rng = np.random.default_rng(0)
    count = 260
    splits = np.array(["train"] * 120 + ["val"] * 10 + ["test"] * 130)
    labels = rng.integers(0, 3, count)
    logits = rng.normal(size=(count, 3)).astype(np.float32)
    logits[:40] += 6 * np.eye(3, dtype=np.float32)[labels[:40]]  # the forget set: known by heart
    write_npz(
        tmp_path / "logits.npz",
        {"ids": np.arange(count) + 5, "labels": labels, "splits": splits, "logits": logits},
    )
    forget_sets.write(tmp_path / "forget.csv", np.arange(40) + 5)
    files = {"logits": str(tmp_path / "logits.npz"), "forget": str(tmp_path / "forget.csv")}
    return Evaluation("digits", "", "0.1", 3, "cf", record="", training="", **files)


@pytest.fixture
def attacked(monkeypatch) -> list[tuple[Predictions, np.random.Generator]]:
    """What each attack is handed; none of them finds anything."""
    evidence_of_attacks: list[tuple[Predictions, np.random.Generator]] = []

    def refuse(*evidence):
        evidence_of_attacks.append(evidence)
        return NoFinding("not here")

    refusing = {
        "loss": replace(AUDITS["loss"], run=refuse),
        "margin": replace(AUDITS["margin"], run=refuse),
    }
    monkeypatch.setattr("munkey.audits.main_run.AUDITS", refusing)
    return evidence_of_attacks


def test_attacks_get_the_sets_of_the_run_and_one_that_refuses_has_a_row_without_numbers(
    run: Evaluation, attacked
):
    lines = make_attack_rows(run)
    assert [line["attack"] for line in lines] == ["loss", "margin"]
    assert lines[0]["method"] == "cf"
    for line in lines:
        assert "auroc" not in line
    (answers, one), (_, other) = attacked
    assert one.random() != other.random()
    assert np.flatnonzero(answers.forget).tolist() == list(range(40))
    assert np.flatnonzero(answers.retain).tolist() == list(range(40, 120))
    assert np.flatnonzero(answers.test).tolist() == list(range(130, 260))


def test_there_is_a_row_for_each_attack_with_its_own_generator(run: Evaluation):
    lines = make_attack_rows(run)
    assert [line["attack"] for line in lines] == ["logistic", "loss", "margin"]
    for line in lines:
        assert (line["dataset"], line["seed"], line["method"]) == ("digits", 3, "cf")
    arrays = np.load(run.logits)
    rows = np.arange(260)
    sets = {"retain": (rows >= 40) & (rows < 120), "forget": rows < 40, "test": rows >= 130}
    answers = Predictions(arrays["logits"], arrays["labels"], **sets)
    expected = AUDITS["loss"].run(
        answers, Stage(3, "digits", "attacks", "0.1", "cf", "loss").numpy_generator()
    )
    for name in ("auroc", "tpr_1"):
        estimate = getattr(expected, name)
        assert lines[1][name] == estimate.value
        assert lines[1][f"{name}_low"] == estimate.low
        assert lines[1][f"{name}_high"] == estimate.high
    assert lines[1]["auroc"] > 90


def test_a_rate_that_few_test_samples_cannot_show_is_left_out(run: Evaluation):
    lines = {line["attack"]: line for line in make_attack_rows(run)}
    # 130 outsiders, and 65 in a half
    assert "tpr_1" in lines["loss"]
    assert "tpr_1" not in lines["logistic"]
