"""An exported MUNKEY with a head: its answers are the pipeline's, and the head forgets to the bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from munkey.data.image_set import image_set
from munkey.data.prepared import load
from munkey.deploy.errors import EmptyModelError
from munkey.deploy.model.export import export
from munkey.deploy.predictor import Predictor
from munkey.encoders import keys
from munkey.memory.neighbors import find_nearest
from munkey.models import system
from munkey.models.family import FAMILIES, read_added_head
from tests.deploy.inputs import IDS, LDA_HEAD, add_head, result_in, sections
from tests.models.inputs import DATA

ORDER = np.random.default_rng(2).permutation(IDS)
COUNT = 20  # pictures that are asked about
KRR_HEAD = {
    "family": "krr", "lam": 0.1, "pixels": 0, "sigma": 1.0, "share": 1.0, "temperature": 0.1,
}  # fmt: skip


@pytest.fixture(scope="module", params=[LDA_HEAD, KRR_HEAD], ids=["lda", "krr"])
def run(request, tmp_path_factory) -> Path:
    """The tiny result, whose MUNKEY has a head."""
    root = tmp_path_factory.mktemp("run") / "results" / "tiny"
    add_head(result_in(root, members=IDS), request.param)
    return root


@pytest.fixture
def pictures(run) -> np.ndarray:
    return np.array(load(run / "data/toy").images[:COUNT])


def pipeline(run: Path, gone=()) -> np.ndarray:
    """The logits of the first samples as the pipeline has them, after these were deleted."""
    whole = system.load(run / "models/toy/seed0/full/original-m/system.safetensors")
    remaining_system = replace(whole, memory=whole.memory.forget(np.array(gone, dtype=int)))
    all_keys = keys.read(next(run.glob("keys/toy/*/keys.npz")))
    queries = keys.Keys(np.arange(COUNT), all_keys.keys[:COUNT])
    memory = remaining_system.memory
    near = find_nearest(queries, keys.Keys(memory.ids.numpy(), memory.keys.numpy()), 33)
    munkey = FAMILIES["munkey"]
    config = sections()
    retrieval = munkey.make_retrieval(near, config["inference"], queries.keys)
    data = type(DATA).model_validate(config["data"])
    samples = image_set(load(run / "data/toy"), queries.ids)
    return munkey.predict_logits(remaining_system, samples, data, "cpu", retrieval)


def test_its_logits_equal_the_pipelines_to_the_bit_also_after_deletions(run, pictures, tmp_path):
    model = export(run / "models/toy/seed0/full/original-m", tmp_path / "model")
    done = 0
    for batches in ([1, 2], [1, 1, 5], [4, 10]):  # in a process each; the last batch leaves none
        with Predictor.load(model, device="cpu") as used:
            for number, size in enumerate(batches):
                used.forget(ORDER[done : done + size])
                done += size
                if done == len(IDS):
                    with pytest.raises(EmptyModelError):
                        used.predict(pictures)
                elif number:
                    expected = pipeline(run, ORDER[:done])
                    assert used.predict(pictures).logits.tobytes() == expected.tobytes()
            assert used.verify().sound
    assert done == len(IDS)


def test_added_samples_change_answers_and_leave_nothing_once_forgotten(run, pictures, tmp_path):
    model = export(run / "models/toy/seed0/full/original-m", tmp_path / "model")
    with (
        Predictor.load(model, device="cpu") as used,
        Predictor.load(model, device="cpu") as reader,
    ):
        before = used.predict(pictures).logits
        assert before.tobytes() == pipeline(run).tobytes()
        added = used.add(pictures[:2], [1, 2]).ids
        after = used.predict(pictures).logits
        assert after.tobytes() != before.tobytes()
        assert reader.predict(pictures).logits.tobytes() == after.tobytes()
        used.forget(added)
        used.purge()
        assert used.predict(pictures).logits.tobytes() == before.tobytes()
        assert reader.predict(pictures).logits.tobytes() == before.tobytes()


def test_samples_that_came_and_went_between_two_answers_leave_nothing_in_the_head(
    run, pictures, tmp_path
):
    model = export(run / "models/toy/seed0/full/original-m", tmp_path / "model")
    with Predictor.load(model, device="cpu") as used:
        used.predict(pictures)
        added = used.add(pictures[:3], [1, 2, 0]).ids
        used.forget([*added[:2], ORDER[0]])
        answer = used.predict(pictures).logits
        assert used.verify().sound
        with Predictor.load(model, device="cpu") as fresh:
            assert answer.tobytes() == fresh.predict(pictures).logits.tobytes()


def test_verify_finds_an_altered_head(run, pictures, tmp_path):
    model = export(run / "models/toy/seed0/full/original-m", tmp_path / "model")
    with Predictor.load(model, device="cpu") as used:
        used.predict(pictures)
        *_, bias_or_shares = used._model.head.solve_head(used._model.snapshot()).buffers()
        bias_or_shares[0] += 1e-12
        [problem] = used.verify().problems
        assert "restart the process" in problem


def test_an_answer_names_the_head_that_added_to_it(run, pictures, tmp_path):
    model = export(run / "models/toy/seed0/full/original-m", tmp_path / "model")
    with Predictor.load(model, device="cpu") as used:
        title = read_added_head(used.manifest.head)[0].title
        sentence = f" The logits of {title}, computed from all {len(IDS)} samples"
        assert sentence in used.predict(pictures).basis
