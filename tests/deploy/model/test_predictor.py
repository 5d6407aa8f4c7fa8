"""A model in use: it answers as the pipeline does, forgets durably, and learns new samples without training."""

import dataclasses
import os
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import numpy as np
import pytest
from PIL import Image

from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.deploy.errors import (
    EmptyModelError,
    PictureError,
    UnknownNamesError,
    UnreadableModelError,
)
from munkey.deploy.model import manifest, retrieval
from munkey.deploy.model.model import LoadedNetwork
from munkey.deploy.model.prediction import softmax
from munkey.deploy.model.retrieval import Retriever
from munkey.deploy.predictor import Predictor
from munkey.encoders import keys
from munkey.memory import neighbors
from munkey.memory.errors import ClosedMemoryError, UnknownIdsError
from munkey.models import system
from munkey.models.family import FAMILIES, Retrieval
from munkey.settings import DataSettings, InferenceSettings
from tests.conftest import raise_full_disk
from tests.deploy.inputs import CLASSES, holds_bytes, sections
from tests.meta import META, like_a_gpu


def pipeline(result, dataset: Dataset, forgotten=()) -> np.ndarray:
    """The logits of all samples as the pipeline computes them, after these ids were deleted."""
    loaded = system.load(result / "system.safetensors")
    memory = loaded.memory.forget(np.array(forgotten, dtype=np.int64))
    root = result.parents[4]
    queries = keys.read(next(root.glob("keys/toy/*/keys.npz")))
    near = neighbors.find_nearest(queries, keys.Keys(memory.ids.numpy(), memory.keys.numpy()), 8)
    config = sections()
    retrieval = Retrieval(near, InferenceSettings(**config["inference"]))
    remaining_system = system.System(loaded.family, loaded.architecture, loaded.model, memory)
    samples = image_set(dataset, dataset.ids)
    data = DataSettings(**config["data"])
    return FAMILIES["munkey"].predict_logits(remaining_system, samples, data, "cpu", retrieval)


def retriever(model: Predictor) -> Retriever:
    first_new_id = model.manifest.memory.first_new_id
    return Retriever(model._file.snapshot().memory, model.manifest.inference, first_new_id)


def test_its_logits_equal_the_pipelines_to_the_bit(predictor, result, images):
    test = images.get_ids("test")
    expected = pipeline(result, images)
    assert np.array_equal(predictor.predict(images.images[test]).logits, expected[test])
    for row in test[:3]:  # alone as well as with others
        assert np.array_equal(predictor.predict(images.images[[row]]).logits, expected[[row]])
    many = np.resize(test, 64 * 4 + 1)  # the last one alone in its block of passes
    assert np.array_equal(predictor.predict(images.images[many]).logits, expected[many])


def test_on_a_gpu_ids_stay_on_the_host_and_only_answers_are_read_back(directory, images):
    """With torch's meta device in place of a GPU."""
    pictures = images.images[:3]
    with Predictor.load(directory, device="cpu") as opened:
        retrieved = retriever(opened).retrieve(opened._model.encoder.compute_keys(pictures))
        with like_a_gpu() as gpu:
            network = LoadedNetwork(directory, opened.manifest, len(CLASSES), META)
            logits = network.compute_logits(
                pictures, retrieved.to_memory(META), retrieved.neighbors
            )
    assert logits.shape == (3, len(CLASSES))
    assert set(gpu.reads) == {"munkey.models.forward.predict_blocks"}


def test_threads_that_add_at_once_get_ids_of_their_own(predictor, images):
    one = images.images[:1]
    predictor.warm_up()
    with ThreadPoolExecutor(4) as threads:
        added = list(threads.map(lambda _: int(predictor.add(one, [0]).ids[0]), range(8)))
    assert sorted(added) == list(range(min(added), min(added) + 8))


def test_after_forgetting_its_logits_equal_the_pipelines_without_the_samples(
    predictor, result, images
):
    forgotten = images.get_ids("train")[::4]
    test = images.get_ids("test")
    before = predictor.predict(images.images[test]).logits
    deletion = predictor.forget(forgotten)
    after = predictor.predict(images.images[test])
    assert np.array_equal(after.logits, pipeline(result, images, forgotten)[test])
    assert not np.array_equal(before, after.logits)
    assert not np.isin(after.neighbors.ids, forgotten).any()
    assert deletion.receipt.after == predictor.head
    assert predictor.verify(deletion.receipt.after).sound


def test_without_samples_it_refuses_to_answer(predictor, images):
    """The picture alone would: by weights that all of the forgotten trained."""
    predictor.predict(images.images[:2])
    predictor.forget(predictor.ids)
    for only_held_classes in (False, True):
        with pytest.raises(EmptyModelError, match="train a new model"):
            predictor.predict(images.images[:2], only_held_classes=only_held_classes)
        predictor.purge()
    predictor.warm_up()  # as a service does, which may get samples later
    with pytest.raises(ValueError, match="trained sample"):
        predictor.add(images.images[:1], [0])


def test_a_prediction_has_its_neighbors_with_weights_labels_and_files(predictor, images):
    one = images.get_ids("train")[7]
    answer = predictor.predict(images.images[[one]])
    near = answer.neighbors
    assert near.ids[0, 0] == one
    assert near.cosines[0, 0] == pytest.approx(1, abs=1e-5)
    assert near.labels[0].tolist() == images.labels[near.ids[0]].tolist()
    assert near.weights.sum() == pytest.approx(1)
    assert near.files[0][0].endswith(f"/pictures/{'abc'[one % 3]}/{one:02d}.png")
    assert answer.probabilities.sum() == pytest.approx(1)
    assert answer.classes == (CLASSES[answer.labels[0]],)
    assert answer.labels[0] == answer.logits.argmax()
    assert [row.rank for row in answer.explanation()] == [1, 2, 3, 4]


def test_pictures_of_any_kind_give_the_same_answer(predictor, images, result):
    folder = result.parents[6] / "pictures"
    files = [folder / "a" / "00.png", folder / "b" / "01.png"]
    expected = predictor.predict(images.images[:2]).logits
    opened = [Image.open(file) for file in files]
    for pictures in (files, list(map(str, files)), opened, list(images.images[:2])):
        assert np.array_equal(predictor.predict(pictures).logits, expected)
    assert np.array_equal(predictor.predict(files[0]).logits, expected[:1])
    assert np.array_equal(predictor.predict(images.images[0]).logits, expected[:1])
    in_folder = predictor.predict(folder / "a")
    assert len(in_folder) == 20
    assert in_folder.files[0] == str(files[0])


def test_unknown_ids_are_all_named_and_nothing_is_deleted(predictor):
    before = predictor.ids
    with pytest.raises(UnknownIdsError, match="3, 1000"):
        predictor.forget([0, 3, 1000])
    assert np.array_equal(predictor.ids, before)
    predictor.forget([0, 3, 1000], ignore_missing=True)
    assert np.array_equal(predictor.ids, before[before != 0])


def test_samples_are_found_and_forgotten_by_their_source_file(predictor, result):
    folder = result.parents[6] / "pictures"
    assert predictor.select(files=["a/00.png", folder / "b" / "01.png"]).ids.tolist() == [0, 1]
    with pytest.raises(UnknownNamesError, match=r"nobody\.png"):
        predictor.select(files=["a/00.png", "nobody.png"])
    predictor.forget(predictor.select(files=["a/00.png"]).ids)
    assert 0 not in predictor.ids
    with pytest.raises(UnknownNamesError, match=r"a/00\.png"):
        predictor.select(files=["a/00.png"])


def test_a_sample_that_one_predictor_forgot_is_forgotten_in_all(directory, images):
    with Predictor.load(directory) as first, Predictor.load(directory) as second:
        assert second.predict(images.images[[0]]).neighbors.ids[0, 0] == 0
        first.forget([0, 1])
        assert 0 not in second.predict(images.images[[0]]).neighbors.ids
        head = second.forget([2]).receipt.after
        assert not {0, 1, 2} & set(first.ids.tolist())
        assert first.head == head
        added = second.add(images.images[:1], [0]).ids
        assert first.predict(images.images[[0]]).neighbors.ids[0, 0] == added[0]
        assert first.add(images.images[:1], [0]).ids == added + 1
    with Predictor.load(directory) as third:
        assert not {0, 1, 2} & set(third.ids.tolist())
        assert third.verify(head).sound


def test_an_added_sample_is_found_and_never_gets_an_old_id(predictor, images, result):
    file = result.parents[6] / "pictures" / "a" / "03.png"  # sample 3 is of val
    token_before = predictor.predict(file).neighbors
    assert predictor.add(file, ["dog & co"]).ids.tolist() == [60]
    near = predictor.predict(file).neighbors
    assert near.ids[0, 0] == 60
    assert near.labels[0, 0] == 1
    assert near.files[0][0] == str(file)
    assert near.ids[0, 1:].tolist() == token_before.ids[0, :3].tolist()
    assert predictor.verify().sound
    predictor.forget(predictor.select(files=[file]).ids)
    predictor.purge()
    assert predictor.add(images.images[:2], [0, 1]).ids.tolist() == [61, 62]


def test_a_token_is_lent_by_trained_neighbors_for_each_answer(predictor, images):
    pictures = images.images[images.get_ids("test")[:4]]
    before = predictor.predict(pictures)
    added = predictor.add(pictures, [0, 0, 1, 2]).ids
    memory = predictor._file.snapshot().memory
    first = predictor.predict(pictures[:1]).neighbors
    assert not memory.tokens[memory.find_rows(added)].any()  # none of their own
    lent = retriever(predictor).retrieve(predictor._model.encoder.compute_keys(pictures[:1]))
    trained = memory.tokens[memory.find_rows(before.neighbors.ids[0])]
    assert first.ids[0, 0] == added[0]
    np.testing.assert_allclose(lent.tokens[0, 0], before.neighbors.weights[0] @ trained, rtol=1e-5)


def test_a_forgotten_sample_is_in_no_token_that_was_lent_before(directory, tmp_path, images):
    """Added and then forgotten, or the other way round: the same answers."""
    pictures = images.images[images.get_ids("test")]
    other = shutil.copytree(directory, tmp_path / "other")
    with Predictor.load(directory) as one, Predictor.load(other) as two:
        forgotten = np.unique(one.predict(pictures).neighbors.ids[:, 0])
        one.add(pictures[::2], images.labels[images.get_ids("test")][::2])
        with_added = one.predict(pictures).logits
        one.forget(forgotten)
        two.forget(forgotten)
        two.add(pictures[::2], images.labels[images.get_ids("test")][::2])
        assert np.array_equal(one.predict(pictures).logits, two.predict(pictures).logits)
        assert not np.array_equal(one.predict(pictures).logits, with_added)
        for model in (one, two):
            model.forget(images.get_ids("train"), ignore_missing=True)
        answer_without_trained = one.predict(pictures)
        assert len(one.ids)
        assert (answer_without_trained.neighbors.ids == -1).all()
        assert np.isfinite(answer_without_trained.logits).all()


def test_an_answer_is_of_one_moment_whatever_happens_while_it_is_computed(
    predictor, images, monkeypatch
):
    """Between the search for neighbors, the tokens that trained ones lend, and the file names."""
    picture = images.images[images.get_ids("test")[:1]]
    predictor.add(picture, [0])  # the nearest row now: its token is lent by the trained neighbors
    before = predictor.predict(picture)
    near = before.neighbors.ids[0]
    assert near[0] == 60
    changes = [
        lambda: predictor.forget(near[1:2]),
        predictor.purge,
        lambda: predictor.add(images.images[[3]], [1]),
    ]
    find_nearest = retrieval.find_nearest

    def find_nearest_among_changes(*arguments):
        if changes:
            changes.pop(0)()
        near_rows = find_nearest(*arguments)
        if changes:
            changes.pop(0)()
        return near_rows

    monkeypatch.setattr(retrieval, "find_nearest", find_nearest_among_changes)
    meanwhile = predictor.predict(picture)
    assert not changes
    after = predictor.predict(picture)
    assert near[1] not in predictor.ids
    assert near[1] not in after.neighbors.ids
    assert np.array_equal(meanwhile.logits, before.logits)
    assert not np.array_equal(after.logits, before.logits)
    assert meanwhile.neighbors.files == before.neighbors.files
    assert np.array_equal(meanwhile.neighbors.ids, before.neighbors.ids)


def test_a_sample_that_is_forgotten_while_a_picture_is_read_is_not_in_the_answer(
    predictor, images, monkeypatch
):
    """No prediction is based on a sample that was forgotten before its neighbors were looked up."""
    one = images.get_ids("train")[:1]
    predictor.warm_up()
    compute_keys = predictor._model.encoder.compute_keys

    def forget_and_compute_keys(pictures):
        predictor.forget(one)
        return compute_keys(pictures)

    monkeypatch.setattr(predictor._model.encoder, "compute_keys", forget_and_compute_keys)
    assert one[0] not in predictor.predict(images.images[one]).neighbors.ids


def test_answers_of_threads_are_of_one_moment_each_while_others_change_the_model(predictor, images):
    """Each answer is one of those that the model gave between two changes, to the bit."""
    pictures = images.images[images.get_ids("test")[:3]]
    forgotten = images.get_ids("train")[::3]
    right = {predictor.predict(pictures).logits.tobytes()}
    started = threading.Barrier(3)

    def ask() -> list[bytes]:
        started.wait()
        return [predictor.predict(pictures).logits.tobytes() for _ in range(8)]

    with ThreadPoolExecutor(2) as threads:
        answers_of_threads = [threads.submit(ask) for _ in range(2)]
        started.wait()
        for one in forgotten.tolist():
            predictor.forget([one])
            right.add(predictor.predict(pictures).logits.tobytes())
            predictor.purge()
        logits_of_threads = {
            answer for answers in answers_of_threads for answer in answers.result()
        }
    assert logits_of_threads <= right
    assert predictor.verify().sound


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_not_finite_are_called_damage(value, predictor, images, monkeypatch):
    logits = np.array([[0, 1, value]], np.float32)
    monkeypatch.setattr(LoadedNetwork, "compute_logits", lambda *_: logits)
    with pytest.raises(UnreadableModelError, match="not finite"):
        predictor.predict(images.images[:1])


def test_a_manifest_beyond_the_allowed_size_is_not_read(directory, monkeypatch):
    size = (directory / "manifest.json").stat().st_size
    monkeypatch.setattr(manifest, "MAX_BYTES", size)
    Predictor.load(directory).close()
    monkeypatch.setattr(manifest, "MAX_BYTES", size - 1)
    with pytest.raises(UnreadableModelError, match=rf"manifest\.json: has {size:,} bytes"):
        Predictor.load(directory)


def test_logits_far_apart_have_probabilities():
    assert softmax(np.array([[0, 200], [-200, 0]], np.float32)).tolist() == [[0, 1], [0, 1]]


def test_the_units_of_added_samples_are_normalized_and_an_empty_cell_is_none(predictor, images):
    added = predictor.add(images.images[3:7], [0] * 4, units=["Zoe\u0308 ", "NA", 7.0, None])
    units = {row.id: row.unit for row in predictor.rows()}
    assert [units[one] for one in added.ids.tolist()] == ["Zo\u00eb", None, "7", None]


@pytest.mark.parametrize(
    "labels", [["cow"], [3], [-1], [0.5], [True], [None], [0, 1], [[0]], [2**70], "cat"]
)
def test_a_label_that_is_no_class_is_refused_and_nothing_added(predictor, images, labels):
    before = predictor.ids
    with pytest.raises(ValueError, match=r"classes|labels"):
        predictor.add(images.images[:1], labels)
    assert np.array_equal(predictor.ids, before)


def test_the_file_of_a_forgotten_sample_leaves_no_byte(directory):
    assert holds_bytes(directory, b"a/00.png")
    with Predictor.load(directory) as model:
        model.forget([0])
        model.purge()
        assert not holds_bytes(directory, b"a/00.png")


# Requests


def test_rows_have_label_file_unit_and_time_of_each_sample(predictor, images, result):
    start = datetime.now(UTC)
    predictor.add(images.images[3:5], ["cat", "fish"], units=["Anna", None])
    every = predictor.rows()
    folder = result.parents[6] / "pictures"
    assert [row.id for row in every] == predictor.ids.tolist()
    assert every[1] == (1, "dog & co", str(folder / "b" / "01.png"), None, every[1].added)
    assert every[-2] == (60, "cat", None, "Anna", every[-2].added)
    assert every[-1].label == "fish"
    assert every[1].added < start <= every[-1].added <= datetime.now(UTC)
    assert [row.id for row in predictor.rows(units=["Anna"])] == [60]
    assert [row.id for row in predictor.rows(labels=["cat", 2], files=["a/00.png", "b"])] == [0]
    assert {row.label for row in predictor.rows(labels=["cat", 2])} == {"cat", "fish"}


def test_a_selection_has_the_samples_of_all_its_names(predictor, images):
    predictor.add(images.images[3:5], [0, 2], units=["Anna", "Anna"])
    selection = predictor.select(ids={1, 2}, files=["glob:a/0*.png"])
    # 3 and 9 are not in the memory
    assert selection.ids.tolist() == [0, 1, 2, 6]
    assert selection.missing == ()
    assert predictor.select(ids=[2], units=["Anna"]).ids.tolist() == [2, 60, 61]
    fish = images.ids[(images.labels == 2) & (images.splits == "train")].tolist()
    assert predictor.select(labels=["fish"]).ids.tolist() == [*fish, 61]
    assert predictor.select(ids=(one for one in [2, 1, 1])).ids.tolist() == [1, 2]


@pytest.mark.parametrize("kinds", [("files", "units"), ("files", "labels"), ("labels", "units")])
def test_a_selection_by_two_kinds_of_names_is_ambiguous(predictor, images, kinds):
    names = {"files": ["a"], "labels": ["cat"], "units": ["Anna"]}
    with pytest.raises(ValueError, match="together are ambiguous"):
        predictor.select(**{kind: names[kind] for kind in kinds})


def test_unknown_names_are_counted_and_the_first_ten_listed(predictor):
    predictor.forget(predictor.select(labels=["cat"]).ids)
    named = {
        "ids": [0, 1, 999],
        "files": [f"gone-{i}.png" for i in range(20)],
    }
    with pytest.raises(UnknownNamesError, match=r"0, 999, gone-0.*gone-7\.png, … \(22 in all"):
        predictor.select(**named)
    selection = predictor.select(**named, ignore_missing=True)
    assert selection.ids.tolist() == [1]
    assert len(selection.missing) == 22
    assert selection.missing[-1] == "gone-19.png"
    assert predictor.select(labels=["cat"], ignore_missing=True).missing == ("class cat",)
    assert predictor.select(units=["Anna"], ignore_missing=True).missing == ("unit Anna",)
    with pytest.raises(UnknownIdsError):
        predictor.select(ids=[999])


def test_relative_files_are_found_from_anywhere(predictor, result, tmp_path, monkeypatch):
    """As from a folder above the data set's, whose parent is the project."""
    monkeypatch.chdir(tmp_path)
    project = result.parents[6].name
    for file in (
        "a/00.png",
        "pictures/a/00.png",
        f"{project}/pictures/a/00.png",
        "glob:pictures/a/00.*",
    ):
        assert predictor.select(files=[file]).ids.tolist() == [0], file
    with pytest.raises(UnknownNamesError, match=r"by its path below .*/pictures"):
        predictor.select(files=["elsewhere/a/00.png"])


@pytest.mark.parametrize(
    ("method", "named"),
    [
        ("forget", {"ids": "17"}),
        ("select", {"files": "a/00.png"}),
        ("select", {"labels": "cat"}),
        ("select", {"units": "Anna"}),
        ("select", {"ids": "12"}),
        ("rows", {"units": "Anna"}),
    ],
    ids=str,
)
def test_a_text_in_place_of_a_list_is_refused(method, named, predictor):
    before = predictor.ids
    with pytest.raises(ValueError, match="must be a list"):
        getattr(predictor, method)(**named)
    assert np.array_equal(predictor.ids, before)


def test_a_request_is_carried_out_once(predictor):
    files = ["a/00.png", "b/01.png"]
    ids = predictor.select(files=files, request="2026-17").ids
    first = predictor.forget(ids, request="2026-17")
    ids = predictor.select(files=files, request="2026-17").ids
    again = predictor.forget(ids, request="2026-17")
    assert again.receipt == dataclasses.replace(first.receipt, repeated=True)
    assert predictor.forget([0, 1], request="2026-17").receipt == again.receipt
    assert len(first) == 2
    assert not first.repeated
    assert len(again) == 0
    assert again.deleted == 2
    with pytest.raises(ValueError, match="2026-17"):
        predictor.forget([2], request="2026-17")
    [receipt] = predictor.log()
    assert receipt.request == "2026-17"
    assert len(receipt.sequences) == 2
    assert 2 in predictor.ids


def test_a_copy_that_stays_is_named_or_forgotten_too(predictor, images):
    """Sample 0 and its copies 60 and 61, and sample 1 and its copy 62."""
    assert predictor.add(images.images[[0, 3]], [0, 0]).identical == {60: (0,)}
    assert predictor.add(images.images[[0, 1]], [0, 1]).identical == {62: (0, 60), 63: (1,)}
    assert predictor.forget([60]).identical == (0, 62)
    assert predictor.forget([0, 1], ignore_missing=True).identical == (62, 63)
    deletion = predictor.forget([62], also_identical=True)
    assert deletion.identical == ()
    assert len(deletion) == 1
    predictor.add(images.images[[3, 3]], [0, 0])
    assert predictor.forget([61], also_identical=True).identical == ()
    assert predictor.select(ids=[61, 64, 65], ignore_missing=True).missing == ("61", "64", "65")


def test_a_forgotten_picture_does_not_come_back_unnoticed(predictor, images, result):
    file = result.parents[6] / "pictures" / "a" / "00.png"
    predictor.forget([0], block_return=True)
    before = predictor.ids
    with pytest.raises(PictureError, match=r"a/00\.png"):
        predictor.add([images.images[3], file], [0, 0])
    with pytest.raises(PictureError, match="number 1"):
        predictor.add(images.images[[3, 0]], [0, 0])
    assert np.array_equal(predictor.ids, before)
    assert predictor.add(file, [0], allow_blocked=True).ids.tolist() == [60]


def test_the_receipt_names_the_classes_that_have_no_sample_left(predictor):
    cats = predictor.select(labels=["cat"]).ids
    assert predictor.forget(cats[1:]).emptied == ()
    assert predictor.forget([cats[0], 1]).emptied == ("cat",)
    assert predictor.forget([2]).emptied == ()


def test_classes_without_samples_are_answered_unless_that_is_switched_off(predictor, images):
    fish = predictor.predict(images.images).labels == 2
    assert fish.any()
    predictor.forget(predictor.select(files=["c"]).ids)
    open_answer = predictor.predict(images.images)
    restricted = predictor.predict(images.images, only_held_classes=True)
    assert (open_answer.probabilities[:, 2] > 0).all()
    assert np.array_equal(open_answer.logits, restricted.logits)
    assert not restricted.probabilities[:, 2].any()
    assert set(restricted.classes) <= {"cat", "dog & co"}
    np.testing.assert_allclose(
        restricted.probabilities[:, :2], softmax(restricted.logits[:, :2]), rtol=1e-5
    )
    assert np.array_equal(restricted.labels, restricted.logits[:, :2].argmax(axis=1))


def test_a_forked_child_cannot_use_a_predictor(predictor, images):
    predictor.predict(images.images[:20])

    def open_again():
        with Predictor.load(predictor.directory, device="cpu") as reopened:
            reopened.predict(images.images[:20])

    calls = [
        open_again,
        lambda: predictor.predict(images.images[:20]),
        lambda: predictor.add(images.images[:1], [0]),
        lambda: predictor.forget([0]),
        predictor.purge,
        predictor.rows,
    ]
    holding = threading.Event()

    def hold_off() -> None:
        """Hold the lock of another thread, which the child lacks; `fork` waits until it is free."""
        with predictor._file.hold_off_changes():
            holding.set()
            time.sleep(0.2)

    other = threading.Thread(target=hold_off)
    other.start()
    holding.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # or it would hang
        refusals = 0
        for call in calls:
            try:
                call()
            except ClosedMemoryError as error:
                message = str(error)
                refusals += "opened by another process" in message or "`spawn`" in message
        os._exit(refusals)
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls)


def test_a_copy_that_fails_leaves_no_file_and_can_be_made_again(predictor, tmp_path, monkeypatch):
    folder = tmp_path / "copy"
    folder.mkdir()
    monkeypatch.setattr(Predictor, "purge", raise_full_disk)
    with pytest.raises(OSError, match="No space"):
        predictor.copy(folder)
    assert not list(folder.iterdir())
    monkeypatch.undo()
    predictor.copy(folder)
    with Predictor.load(folder, device="cpu") as copied:
        assert copied.verify().sound
    with pytest.raises(FileExistsError, match="already contains files"):
        predictor.copy(folder)
