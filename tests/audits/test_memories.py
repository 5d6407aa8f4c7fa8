"""Storage in the main run: before deletion all is found, and after it what the method left."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from munkey.audits.memories import COLUMNS, searched
from munkey.data import forget_sets
from munkey.memory.exemplars import ExemplarMemory
from munkey.models import system
from munkey.models.family import Architecture, System

IDS, FORGOTTEN = np.arange(100, 120), np.array([103, 110, 119])
Search = Callable[[ExemplarMemory], list[dict[str, object]]]


@pytest.fixture
def memory() -> ExemplarMemory:
    generator = torch.Generator().manual_seed(0)
    return ExemplarMemory(
        torch.from_numpy(IDS), torch.randn(20, 12, generator=generator), torch.randn(20, 9, generator=generator)
    )


@pytest.fixture
def search(memory: ExemplarMemory, tmp_path: Path) -> Search:
    """What is found where a method leaves a memory."""
    files = [str(tmp_path / f"{name}.safetensors") for name in ("original", "unlearned")]
    forget_sets.write(tmp_path / "forget.csv", FORGOTTEN)

    def search(left: ExemplarMemory) -> list[dict[str, object]]:
        for file, held in zip(files, (memory, left), strict=True):
            system.save(file, System("knn", Architecture(3), None, held))
        key = {"dataset": "digits", "rate": "0.1", "seed": 0, "method": "munkey", "title": "MUNKEY"}
        return searched({"key": key, "files": files, "forget": str(tmp_path / "forget.csv")})

    return search


def numbers(lines: list[dict[str, object]], *names: str) -> list[list[object]]:
    return [[line.get(name) for name in ("file", *names)] for line in lines]


def test_all_is_found_before_deletion_and_nothing_after_it(search: Search, memory: ExemplarMemory):
    lines = search(memory.forget(FORGOTTEN))
    found = numbers(lines, "ids", "ids_of", "rows", "rows_of")
    assert found == [["original", 3, 3, 6, 6], ["unlearned", 0, 3, 0, 6]]
    assert all(line["title"] == "MUNKEY" and set(line) <= set(COLUMNS) for line in lines)


def test_a_row_that_stayed_is_found_by_its_key_its_token_and_its_id(search: Search, memory: ExemplarMemory):
    assert numbers(search(memory.forget(FORGOTTEN[:2])), "ids", "rows") == [["original", 3, 6], ["unlearned", 1, 2]]


def test_a_token_that_stayed_without_its_id_is_found(search: Search, memory: ExemplarMemory):
    left = memory.forget(FORGOTTEN)
    padded = replace(left, tokens=torch.cat([left.tokens, memory.tokens[3].expand(len(left), -1)], dim=1))
    assert numbers(search(padded), "ids", "rows") == [["original", 3, 6], ["unlearned", 0, 1]]


def test_where_the_kept_rows_are_not_found_no_number_is_given(search: Search, memory: ExemplarMemory):
    left = memory.forget(FORGOTTEN)
    before, after = search(replace(left, tokens=left.tokens.half().float()))
    assert before["rows"] == 6 and "rows" not in after and "17 of 34" in str(after["why"])
