"""Exact families in use: they answer as the pipeline does, and after any deletion as if the rows had never been."""

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from munkey import ForgettingNCM
from munkey.core.files import write_json
from munkey.data.prepared import load
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model import fitted as deployed
from munkey.deploy.model import samples
from munkey.deploy.model.export import export
from munkey.deploy.model.manifest import read_manifest
from munkey.deploy.predictor import Predictor
from munkey.encoders import keys
from munkey.memory import memory_file
from munkey.memory.errors import UnknownIdsError
from munkey.memory.neighbors import find_nearest
from munkey.memory.sums import Sums
from munkey.models import system
from munkey.models.family import FAMILIES, Retrieval, System, forget_samples
from munkey.settings import InferenceSettings
from tests.conftest import unit_rows
from tests.deploy.inputs import CLASSES, IDS, result_in
from tests.models.inputs import EXACT, fitted

LETTERS = {name: FAMILIES[name].letter for name in EXACT}
INFERENCE = InferenceSettings(k=4, fusion="ensemble", temperature=1.0)
ORDER = np.random.default_rng(1).permutation(IDS)
every = pytest.mark.parametrize("family", LETTERS)
summed = pytest.mark.parametrize("family", [name for name in EXACT if name != "knn"])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The tiny result with an original of each of these families."""
    root = tmp_path_factory.mktemp("run") / "results" / "tiny"
    original = result_in(root, members=IDS)
    data = load(root / "data/toy")
    extracted = all_keys(root)
    for name, letter in LETTERS.items():
        members = keys.Keys(IDS, extracted.keys[IDS])
        original_system = fitted(name, members, data.labels[IDS], len(CLASSES))
        folder = original.with_name(f"original-{letter}")
        system.save(folder / "system.safetensors", original_system)
        origin = {"commit": "c0ffee", "device": "a test", "versions": {}}
        write_json(folder / "record.json", {"settings": {name: {}}, "provenance": origin})
    return root


def all_keys(root: Path) -> keys.Keys:
    return keys.read(next(root.glob("keys/toy/*/keys.npz")))


@pytest.fixture
def pictures(run) -> np.ndarray:
    return np.array(load(run / "data/toy").images[:20])


@pytest.fixture
def model(run, family, tmp_path) -> Path:
    return export(find_original(run, family), tmp_path / "model")


def find_original(run: Path, family: str) -> Path:
    return run / "models/toy/seed0/full" / f"original-{LETTERS[family]}"


def pipeline(run: Path, remaining_system: System) -> np.ndarray:
    """The logits of the first 20 samples as the pipeline has them."""
    queries = keys.Keys(np.arange(20), all_keys(run).keys[:20])
    near = find_nearest(
        queries,
        keys.Keys(remaining_system.memory.ids.numpy(), remaining_system.memory.keys.numpy()),
        4,
    )
    return FAMILIES[remaining_system.family].predict_logits(
        remaining_system, None, None, "cpu", Retrieval(near, keys=queries.keys)
    )


@every
def test_its_logits_equal_the_pipelines_and_after_deletions_the_oracles_to_the_bit(
    run, family, model, pictures
):
    """Deleted before the first answer and after it, one by one and at once."""
    original = system.load(find_original(run, family) / "system.safetensors")
    with Predictor.load(model, device="cpu") as used:
        assert used.predict(pictures).logits.tobytes() == pipeline(run, original).tobytes()
    done = 0
    for batches in ([1, 2], [1, 1, 5], [4, 9]):  # in a process each; the last batch leaves one row
        with Predictor.load(model, device="cpu") as used:
            for number, size in enumerate(batches):
                used.forget(ORDER[done : done + size])
                done += size
                if number:
                    expected = pipeline(run, forget_samples(original, ORDER[:done])).tobytes()
                    assert used.predict(pictures).logits.tobytes() == expected
            assert used.verify().sound
    assert done == len(IDS) - 1


@every
def test_a_sample_is_found_by_its_picture(family, run, model):
    pictures = np.array(load(run / "data/toy").images)
    with Predictor.load(model, device="cpu") as used:
        pairs = used.find(pictures[IDS], count=2).samples
        for sample_id, [first, second] in zip(IDS, pairs, strict=True):
            assert first.id == sample_id
            assert first.copy
            assert not second.copy
            assert first.cosine == pytest.approx(1, abs=1e-4)
            assert first.file.endswith(f"pets/{sample_id}.png")
        used.forget(IDS[:1])
        [samples] = used.find(pictures[IDS[:1]], count=100).samples
        assert IDS[0] not in [sample.id for sample in samples]


@every
def test_added_samples_change_answers_and_leave_nothing_once_forgotten(family, model, pictures):
    with (
        Predictor.load(model, device="cpu") as used,
        Predictor.load(model, device="cpu") as reader,
    ):
        before = used.predict(pictures).logits.tobytes()
        added = used.add(pictures[:3], [0, 2, 1]).ids
        after = used.predict(pictures).logits.tobytes()
        assert after != before
        assert reader.predict(pictures).logits.tobytes() == after
        used.forget(added[:1])
        used.purge()
        used.forget(added[1:])
        assert used.predict(pictures).logits.tobytes() == before
        assert reader.predict(pictures).logits.tobytes() == before


@every
def test_rows_that_came_and_went_between_two_answers_leave_nothing(family, model, pictures):
    """They are in no sums yet, so nothing may be subtracted for them; earlier rows are subtracted."""
    with Predictor.load(model, device="cpu") as used:
        used.predict(pictures)
        new_ids = used.add(pictures[:4], [0, 2, 1, 1]).ids
        used.forget(new_ids[:2])
        used.forget([new_ids[2], ORDER[0]])
        used.purge()
        newer_ids = used.add(pictures[4:6], [0, 0]).ids
        used.forget([new_ids[3], ORDER[1], newer_ids[0]])
        answer = used.predict(pictures).logits
        assert used.digests() == used.digests(recompute=True)
        with Predictor.load(model, device="cpu") as fresh:
            assert answer.tobytes() == fresh.predict(pictures).logits.tobytes()
            assert used.digests() == fresh.digests()


@summed
def test_a_request_that_is_repeated_takes_nothing_out(family, model, pictures):
    with Predictor.load(model, device="cpu") as used:
        used.predict(pictures)
        used.forget(ORDER[:2], request="2026-1")
        used.predict(pictures)
        assert used.forget(ORDER[:2], ignore_missing=True, request="2026-1").repeated
        assert used.digests() == used.digests(recompute=True)


@every
def test_a_row_that_was_added_votes_for_its_own_class_whoever_else_is_left(family, model, pictures):
    with Predictor.load(model, device="cpu") as used:
        used.add(pictures[:1], [2])
        used.forget(ORDER)
        assert set(used.predict(pictures).labels.tolist()) == {2}


@every
def test_its_answers_rest_on_the_neighbors_that_vote_or_on_all_rows(family, model, pictures):
    with Predictor.load(model, device="cpu") as used:
        near = used.predict(pictures).neighbors
        assert near.ids.shape == near.weights.shape == (20, 4 if family == "knn" else 0)
        assert family != "knn" or np.allclose(near.weights.sum(axis=1), 1)
        assert used.manifest.files.keys() == {"README.md"}


@summed
def test_a_deletion_subtracts_its_rows_and_reads_no_others(family, model, pictures, monkeypatch):
    sizes = []
    add = Sums.add

    def log_and_add(self, rows, labels, sign=1):
        sizes.append(sign * len(labels))
        add(self, rows, labels, sign)

    with Predictor.load(model, device="cpu") as used:
        monkeypatch.setattr(Sums, "add", log_and_add)
        used.forget(ORDER[:1])
        assert sizes == []  # nobody has asked yet
        used.predict(pictures)
        assert sizes == [23]
        used.forget(ORDER[1:2])
        with pytest.raises(UnknownIdsError):
            used.forget(ORDER[1:3])
        used.forget(ORDER[2:4])
        used.predict(pictures)
        used.predict(pictures)
        assert sizes == [23, -3]


@pytest.mark.parametrize("family", ["lda", "ncm"])  # others may choose constants by the rows
def test_the_answer_after_a_change_reads_only_what_has_changed(
    family, model, pictures, monkeypatch
):
    """Also after a change by another predictor, and after a purge."""
    read = []
    read_rows = memory_file._read_rows

    def log_and_read(connection, state, after=0):
        room, count = read_rows(connection, state, after)
        read.append(count)
        return room, count

    with (
        Predictor.load(model, device="cpu") as used,
        Predictor.load(model, device="cpu") as other,
    ):
        used.predict(pictures)
        other.predict(pictures)
        monkeypatch.setattr(memory_file, "_read_rows", log_and_read)
        used.forget(ORDER[:2])
        other.forget(ORDER[2:3])
        used.predict(pictures)
        assert read == []
        other.add(pictures[:2], [0, 1])
        other.purge()
        used.predict(pictures)
        assert read == [2]  # by `used`; `other` has added them itself
        assert used.digests() == other.digests() == used.digests(recompute=True)


@summed
def test_more_rows_than_can_be_summed_are_refused(family, model, pictures, monkeypatch):
    monkeypatch.setattr(deployed, "MAX_ROWS", 25)
    with Predictor.load(model, device="cpu") as used:
        used.add(pictures[:1], [0])
        with pytest.raises(ValueError, match="at most 25 samples"):
            used.add(pictures[1:2], [0])
        assert len(used.ids) == 25


@pytest.mark.parametrize("family", ["krr"])
def test_more_rows_than_krr_can_solve_for_are_refused(family, model, pictures, monkeypatch):
    monkeypatch.setattr(type(FAMILIES["krr"]), "max_rows", 25)
    with Predictor.load(model, device="cpu") as used:
        used.add(pictures[:1], [0])
        with pytest.raises(ValueError, match="KRR holds at most 25 samples"):
            used.add(pictures[1:2], [0])


@summed
def test_a_label_that_is_no_class_is_called_damage(family, model, pictures):
    with Predictor.load(model, device="cpu") as used:
        used.predict(pictures)
        used._file.add([999], used.keys()[1][:1], [[0.0]], [7])
        assert any("cannot be summed" in problem for problem in used.verify().problems)
        with pytest.raises(UnreadableModelError, match="cannot be summed"):
            used.predict(pictures)


@summed
def test_a_row_that_is_deleted_while_rows_are_summed_is_in_no_later_answer(
    run, family, model, pictures, monkeypatch
):
    """The answer is of the rows before the deletion, all of them; the sums are right in the next one."""
    add = Sums.add
    gone = ORDER[:1]

    def meanwhile(sums, *rows):
        monkeypatch.setattr(Sums, "add", add)
        used.forget(gone)
        add(sums, *rows)

    original = system.load(find_original(run, family) / "system.safetensors")
    with Predictor.load(model, device="cpu") as used:
        monkeypatch.setattr(Sums, "add", meanwhile)
        answer = used.predict(pictures).logits
        assert Sums.add is add
        assert answer.tobytes() == pipeline(run, original).tobytes()
        later = used.predict(pictures).logits
    assert later.tobytes() == pipeline(run, forget_samples(original, gone)).tobytes()


@every
def test_threads_that_ask_while_rows_come_and_go_get_answers_of_one_moment_each(
    run, family, model, pictures
):
    """Each is the answer of a fit to the rows between two changes, to the bit."""
    original = system.load(find_original(run, family) / "system.safetensors")
    moments = [pipeline(run, forget_samples(original, ORDER[:count])) for count in range(9)]
    with (
        Predictor.load(model, device="cpu") as used,
        Predictor.load(model, device="cpu") as other,
    ):
        used.predict(pictures[:1])
        started = threading.Barrier(3)

        def ask() -> list[bytes]:
            started.wait()
            return [used.predict(pictures).logits.tobytes() for _ in range(12)]

        with ThreadPoolExecutor(2) as threads:
            answers_of_threads = [threads.submit(ask) for _ in range(2)]
            started.wait()
            for count in range(8):
                (used, other)[count % 2].forget(ORDER[count : count + 1])
                assert used.predict(pictures).logits.tobytes() == moments[count + 1].tobytes()
            logits_of_threads = {
                answer for answers in answers_of_threads for answer in answers.result()
            }
        assert logits_of_threads <= {moment.tobytes() for moment in moments}
        assert used.verify().sound
        assert other.verify().sound


@pytest.mark.parametrize("family", ["lda"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": None}, "settings do not match"),
        ({"family": "munkey"}, "settings do not match"),
        ({"encoder": None}, "no encoder"),
        ({"stored": None}, "no picture size"),
        ({"inference": INFERENCE}, "no inference settings"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, dict) else "",
)
def test_a_manifest_without_what_its_family_needs_is_refused(change, message, family, model):
    read_manifest(model).model_copy(update=change).write(model)
    with pytest.raises(UnreadableModelError, match=message):
        Predictor.load(model)


def test_a_deletion_does_not_copy_the_contents_of_all_rows(tmp_path):
    """A content has 16 bytes. A deletion may compare all ids, which takes 8 bytes a row."""
    rows = unit_rows(200_000, 8)
    ForgettingNCM(temperature=0.1).fit(rows, np.arange(len(rows)) % 10).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model", device="cpu") as model:
        model.predict(rows[:1])
        tracemalloc.start()
        try:
            model.forget([0])  # also imports modules
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            model.forget([1])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak - before < 14 * len(rows)


def test_labels_are_read_until_each_class_has_occurred(monkeypatch):
    monkeypatch.setattr(samples, "BLOCK_ROWS", 4)
    labels = np.array([0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 1])
    read_blocks = []

    class Labels:
        def __getitem__(self, block):
            read_blocks.append(block.start)
            return labels[block]

    memory = SimpleNamespace(live=np.ones(len(labels), dtype=bool), labels=Labels())
    rows = SimpleNamespace(memory=memory)
    assert samples.Samples.find_present(rows, np.array([1, 0])).tolist() == [1, 0]
    assert read_blocks == [0]
    read_blocks.clear()
    assert samples.Samples.find_present(rows, np.array([2])).tolist() == [2]
    assert read_blocks == [0, 4]


def test_a_class_whose_last_rows_go_is_named_however_far_back_they_stand(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "BLOCK_ROWS", 4)
    labels = np.array(["ant"] * 6 + ["bee", "cat"] + ["ant", "bee"] * 3)
    rows = unit_rows(len(labels), 5)
    ForgettingNCM().fit(rows, labels).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model", device="cpu") as model:
        assert model.forget([0, 9]).emptied == ()
        assert model.forget([7, 1]).emptied == ("cat",)
        assert model.forget([6, 11, 13]).emptied == ("bee",)
        assert set(labels[model.ids]) == {"ant"}
