"""Whoever changes a directory, and in which order: everyone answers as a fit to the rows that are there, to the bit."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from munkey.data.prepared import load
from munkey.deploy.model.export import export
from tests.deploy.inputs import IDS, result_in
from tests.deploy.model.test_head import with_head
from tests.deploy.uses import Elsewhere, PictureUses, Uses

EXACT = ("lda", "ncm", "knn")
QUICK = {"lda": 40, "ncm": 30, "knn": 30, "munkey": 6}  # steps
LONG = {"lda": 300, "ncm": 300, "knn": 300, "munkey": 60}
SEEDS = range(8)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    process = Elsewhere()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Path:
    """A MUNKEY with LDA's head."""
    return with_head(result_in(tmp_path_factory.mktemp("run") / "results" / "tiny", members=IDS))


def use(family: str, place: Path, elsewhere: Elsewhere, result: Path, seed: int, steps: int) -> Counter[str]:
    """How often each thing was done."""
    directory = place / "model"
    if family == "munkey":
        data = load(result.parents[4] / "data" / "toy")
        uses = PictureUses(export(result, directory), elsewhere, seed, np.array(data.images), data.labels)
    else:
        uses = Uses(family, directory, elsewhere, seed)
    done: Counter[str] = Counter()
    try:
        for _ in range(steps):
            done[uses.step()] += 1
    finally:
        uses.close()
    return done


@pytest.mark.parametrize("family", QUICK)
def test_everyone_answers_as_a_fit_to_the_rows_that_are_there(family, elsewhere, result, tmp_path):
    use(family, tmp_path, elsewhere, result, 0, QUICK[family])


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", LONG)
def test_everyone_answers_as_a_fit_to_the_rows_that_are_there_for_long(family, seed, elsewhere, result, tmp_path):
    done = use(family, tmp_path, elsewhere, result, 1000 + seed, LONG[family])
    print(f"{family}, seed {1000 + seed}: {done.total()} steps, {re.sub(r'[{}]', '', str(dict(done)))}")
    assert len(done) >= 10
