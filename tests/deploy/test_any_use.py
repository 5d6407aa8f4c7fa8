"""Whoever changes a directory, and in which order: everyone answers as a fit to the rows that are
there, to the bit.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from munkey.data.prepared import load
from munkey.deploy.model.export import export
from tests.deploy.inputs import IDS, add_head, result_in
from tests.deploy.uses import Elsewhere, PictureUses, Uses
from tests.estimators.inputs import EXACT

# family, seed, steps: before, the seeds of LDA and NCM found a row that was taken out of sums it
# was not in
QUICK = [(family, seed, 60) for family in EXACT for seed in (1, 2)] + [("munkey", 1, 6)]
LONG = [(family, seed, 400) for family in EXACT for seed in range(1000, 1004)]
LONG += [("munkey", seed, 40) for seed in range(1000, 1004)]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    process = Elsewhere()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Path:
    """A MUNKEY with LDA's head."""
    return add_head(result_in(tmp_path_factory.mktemp("run") / "results" / "tiny", members=IDS))


def use(
    family: str, place: Path, elsewhere: Elsewhere, result: Path, seed: int, steps: int
) -> Counter[str]:
    """How often each thing was done."""
    directory = place / "model"
    if family == "munkey":
        data = load(result.parents[4] / "data" / "toy")
        uses = PictureUses(
            export(result, directory), elsewhere, seed, np.array(data.images), data.labels
        )
    else:
        uses = Uses(family, directory, elsewhere, seed)
    done: Counter[str] = Counter()
    try:
        for _ in range(steps):
            done[uses.step()] += 1
    finally:
        uses.close()
    return done


@pytest.mark.parametrize(("family", "seed", "steps"), QUICK)
def test_everyone_answers_as_a_fit_to_the_rows_that_are_there(
    family, seed, steps, elsewhere, result, tmp_path
):
    use(family, tmp_path, elsewhere, result, seed, steps)


@pytest.mark.soak
@pytest.mark.parametrize(("family", "seed", "steps"), LONG)
def test_everyone_answers_so_after_hundreds_of_steps(
    family, seed, steps, elsewhere, result, tmp_path
):
    done = use(family, tmp_path, elsewhere, result, seed, steps)
    print(
        f"{family}, seed {seed}: {done.total()} steps,",
        ", ".join(f"{name} {n}" for name, n in done.items()),
    )
    assert steps < 400 or len(done) == 13  # all that can be done
