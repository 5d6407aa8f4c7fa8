"""The main run's systems, each by itself: what attacks are handed, and what is left in files after deletion."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
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

    def run_search(left: ExemplarMemory) -> list[dict[str, object]]:
        for file, held in zip(files, (memory, left), strict=True):
            system.save(file, System("knn", FittedArchitecture(3, 12, SECTIONS["knn"]), None, held))
        key = {"dataset": "digits", "rate": "0.1", "seed": 0, "method": "munkey", "title": "MUNKEY"}
        return make_storage_rows(
            {"key": key, "files": files, "forget": str(tmp_path / "forget.csv")}
        )

    return run_search


def numbers(lines: list[dict[str, object]], *names: str) -> list[list[object]]:
    return [[line.get(name) for name in ("file", *names)] for line in lines]


def test_all_is_found_before_deletion_and_nothing_after_it(search: Search, memory: ExemplarMemory):
    lines = search(memory.forget(FORGOTTEN))
    found = numbers(lines, "ids", "ids_of", "rows", "rows_of")
    assert found == [["original", 3, 3, 6, 6], ["unlearned", 0, 3, 0, 6]]
    assert all(line["title"] == "MUNKEY" and set(line) <= set(STORAGE_COLUMNS) for line in lines)


@pytest.mark.parametrize(
    ("family", "settings", "said"),
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
def test_the_search_says_whether_a_deletion_is_exact_or_so_given_constants(
    family, settings, said, tmp_path
):
    keys = Keys(IDS, unit_rows(20, 12))
    held = fitted(family, keys, np.arange(20) % 3, **settings)
    assert describe_exactness(held) == said
    if said is None:
        return
    left = fitted(
        family,
        Keys(np.delete(IDS, [3, 10, 19]), np.delete(keys.keys, [3, 10, 19], axis=0)),
        np.delete(np.arange(20) % 3, [3, 10, 19]),
        **settings,
    )
    files = [str(tmp_path / f"{name}.safetensors") for name in ("original", "unlearned")]
    for file, made in zip(files, (held, left), strict=True):
        system.save(file, made)
    forget_sets.write(tmp_path / "forget.csv", FORGOTTEN)
    lines = make_storage_rows({"key": {}, "files": files, "forget": str(tmp_path / "forget.csv")})
    assert numbers(lines, "rows", "deletion") == [["original", 3, said], ["unlearned", 0, said]]


def test_labels_are_not_looked_for(search: Search, memory: ExemplarMemory):
    memory.tokens.resize_(20, 1)
    found = numbers(search(memory.forget(FORGOTTEN)), "ids", "rows", "rows_of")
    assert found == [["original", 3, 3, 3], ["unlearned", 0, 0, 3]]


def test_a_row_that_stayed_is_found_by_its_key_its_token_and_its_id(
    search: Search, memory: ExemplarMemory
):
    assert numbers(search(memory.forget(FORGOTTEN[:2])), "ids", "rows") == [
        ["original", 3, 6],
        ["unlearned", 1, 2],
    ]


def test_a_token_that_stayed_without_its_id_is_found(search: Search, memory: ExemplarMemory):
    left = memory.forget(FORGOTTEN)
    padded = replace(
        left, tokens=torch.cat([left.tokens, memory.tokens[3].expand(len(left), -1)], dim=1)
    )
    assert numbers(search(padded), "ids", "rows") == [["original", 3, 6], ["unlearned", 0, 1]]


def test_where_the_kept_rows_are_not_found_no_number_is_given(
    search: Search, memory: ExemplarMemory
):
    left = memory.forget(FORGOTTEN)
    before, after = search(replace(left, tokens=left.tokens.half().float()))
    assert before["rows"] == 6 and "rows" not in after and "17 of 34" in str(after["why"])


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
    handed: list[tuple[Predictions, np.random.Generator]] = []
    refusing = {
        name: replace(
            AUDITS[name], run=lambda *evidence: handed.append(evidence) or NoFinding("not here")
        )
        for name in ("loss", "margin")
    }
    monkeypatch.setattr("munkey.audits.main_run.AUDITS", refusing)
    return handed


def test_each_set_is_what_it_is_and_an_attack_that_refuses_has_a_line_without_numbers(
    run: Evaluation, attacked
):
    lines = make_attack_rows(run)
    assert [line["attack"] for line in lines] == ["loss", "margin"]
    assert not any("auroc" in line for line in lines) and lines[0]["method"] == "cf"
    (answers, one), (_, other) = attacked
    assert one.random() != other.random()
    assert np.flatnonzero(answers.forget).tolist() == list(range(40))
    assert np.flatnonzero(answers.retain).tolist() == list(range(40, 120))
    assert np.flatnonzero(answers.test).tolist() == list(range(130, 260))


def test_there_is_a_line_for_each_attack_with_its_own_generator(run: Evaluation):
    lines = make_attack_rows(run)
    assert [line["attack"] for line in lines] == ["logistic", "loss", "margin"]
    assert all(
        (line["dataset"], line["seed"], line["method"]) == ("digits", 3, "cf") for line in lines
    )
    arrays = np.load(run.logits)
    rows = np.arange(260)
    sets = {"retain": (rows >= 40) & (rows < 120), "forget": rows < 40, "test": rows >= 130}
    answers = Predictions(arrays["logits"], arrays["labels"], **sets)
    expected = AUDITS["loss"].run(
        answers, Stage(3, "digits", "attacks", "0.1", "cf", "loss").numpy_generator()
    )
    for name in ("auroc", "tpr_1"):
        found = [lines[1][f"{name}{end}"] for end in ("", "_low", "_high")]
        estimate = getattr(expected, name)
        assert found == [estimate.value, estimate.low, estimate.high]
    assert lines[1]["auroc"] > 90


def test_a_rate_that_few_test_samples_cannot_show_is_left_out(run: Evaluation):
    lines = {line["attack"]: line for line in make_attack_rows(run)}
    # 130 outsiders, and 65 in a half
    assert "tpr_1" in lines["loss"] and "tpr_1" not in lines["logistic"]
