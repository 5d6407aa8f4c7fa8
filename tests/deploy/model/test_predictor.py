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
from munkey.memory.errors import ClosedMemoryError, LockedMemoryError, UnknownIdsError
from munkey.models import system
from munkey.models.family import FAMILIES, Retrieval
from munkey.settings import DataSettings, InferenceSettings
from tests.deploy.inputs import CLASSES, sections
from tests.meta import META, like_a_gpu


def pipeline(result, dataset: Dataset, forgotten=()) -> np.ndarray:
    """The logits of all samples as the pipeline computes them, after these ids were deleted."""
    loaded = system.load(result / "system.safetensors")
    memory = loaded.memory.forget(np.array(forgotten, dtype=np.int64))
    root = result.parents[4]
    queries = keys.read(next(root.glob("keys/toy/*/keys.npz")))
    near = neighbors.find_nearest(queries, keys.Keys(memory.ids.numpy(), memory.keys.numpy()), 8)
    chosen = sections()
    retrieval = Retrieval(near, InferenceSettings(**chosen["inference"]))
    left = system.System(loaded.family, loaded.architecture, loaded.model, memory)
    samples, data = image_set(dataset, dataset.ids), DataSettings(**chosen["data"])
    return FAMILIES["munkey"].predict_logits(left, samples, data, "cpu", retrieval)


def retriever(model: Predictor) -> Retriever:
    first_new_id = model.manifest.memory.first_new_id
    return Retriever(model._file.snapshot().memory, model.manifest.inference, first_new_id)


def test_its_logits_are_the_pipelines_bit_by_bit(predictor, result, images):
    test = images.get_ids("test")
    assert np.array_equal(
        predictor.predict(images.images[test]).logits, pipeline(result, images)[test]
    )
    for one in test[:3]:  # alone as well as with others
        assert np.array_equal(
            predictor.predict(images.images[[one]]).logits, pipeline(result, images)[[one]]
        )
    many = np.resize(test, 64 * 4 + 1)  # the last one alone in its block of passes
    assert np.array_equal(
        predictor.predict(images.images[many]).logits, pipeline(result, images)[many]
    )


def test_on_a_gpu_ids_stay_on_the_host_and_only_answers_are_read_back(directory, images):
    """With torch's meta device in place of a GPU."""
    pictures = images.images[:3]
    with Predictor.load(directory, device="cpu") as opened:
        found = retriever(opened).retrieve(opened._model.encoder.compute_keys(pictures))
        with like_a_gpu() as gpu:
            network = LoadedNetwork(directory, opened.manifest, len(CLASSES), META)
            logits = network.compute_logits(pictures, found.to_memory(META), found.neighbors)
    assert logits.shape == (3, len(CLASSES)) and set(gpu.reads) == {
        "munkey.models.forward.predict_blocks"
    }


def test_threads_that_add_at_once_get_ids_of_their_own(predictor, images):
    one = images.images[:1]
    predictor.warm_up()
    with ThreadPoolExecutor(4) as threads:
        added = list(threads.map(lambda _: int(predictor.add(one, [0]).ids[0]), range(8)))
    assert sorted(added) == list(range(min(added), min(added) + 8))


def test_after_forgetting_its_logits_are_those_of_the_method(predictor, result, images):
    forgotten, test = images.get_ids("train")[::4], images.get_ids("test")
    before = predictor.predict(images.images[test]).logits
    deletion = predictor.forget(forgotten)
    after = predictor.predict(images.images[test])
    assert np.array_equal(after.logits, pipeline(result, images, forgotten)[test])
    assert not np.array_equal(before, after.logits)
    assert not np.isin(after.neighbors.ids, forgotten).any()
    assert (
        deletion.receipt.after == predictor.head and predictor.verify(deletion.receipt.after).sound
    )


def test_with_nothing_left_it_refuses_to_answer(predictor, images):
    """The picture alone would: by weights that all of the forgotten trained."""
    predictor.predict(images.images[:2])
    predictor.forget(predictor.ids)
    for only in (False, True):
        with pytest.raises(
            EmptyModelError, match="so there is nothing to predict from; train a new model"
        ):
            predictor.predict(images.images[:2], only_held_classes=only)
        predictor.purge()
    with pytest.raises(ValueError, match="no longer holds a trained sample"):
        predictor.add(images.images[:1], [0])


def test_a_prediction_says_what_it_rests_on(predictor, images):
    one = images.get_ids("train")[7]
    answer = predictor.predict(images.images[[one]])
    near = answer.neighbors
    assert near.ids[0, 0] == one and near.cosines[0, 0] == pytest.approx(1, abs=1e-5)
    assert near.labels[0].tolist() == images.labels[near.ids[0]].tolist()
    assert near.weights.sum() == pytest.approx(1)
    assert near.files[0][0].endswith(f"/pictures/{'abc'[one % 3]}/{one:02d}.png")
    assert answer.probabilities.sum() == pytest.approx(1)
    assert (
        answer.classes == (CLASSES[answer.labels[0]],)
        and answer.labels[0] == answer.logits.argmax()
    )
    assert [row.rank for row in answer.explanation()] == [1, 2, 3, 4]


def test_pictures_of_any_kind_give_the_same_answer(predictor, images, result):
    folder = result.parents[6] / "pictures"
    files = [folder / "a" / "00.png", folder / "b" / "01.png"]
    expected = predictor.predict(images.images[:2]).logits
    for given in (
        files,
        list(map(str, files)),
        [Image.open(file) for file in files],
        list(images.images[:2]),
    ):
        assert np.array_equal(predictor.predict(given).logits, expected)
    assert np.array_equal(predictor.predict(files[0]).logits, expected[:1])
    assert np.array_equal(predictor.predict(images.images[0]).logits, expected[:1])
    in_folder = predictor.predict(folder / "a")
    assert len(in_folder) == 20 and in_folder.files[0] == str(files[0])


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


def test_what_is_forgotten_stays_forgotten_whoever_forgot_it(directory, images):
    with Predictor.load(directory) as first, Predictor.load(directory) as second:
        assert second.predict(images.images[[0]]).neighbors.ids[0, 0] == 0
        first.forget([0, 1])
        assert 0 not in second.predict(images.images[[0]]).neighbors.ids
        head = second.forget([2]).receipt.after
        assert not {0, 1, 2} & set(first.ids.tolist()) and first.head == head
        added = second.add(images.images[:1], [0]).ids
        assert first.predict(images.images[[0]]).neighbors.ids[0, 0] == added[0]
        assert first.add(images.images[:1], [0]).ids == added + 1
    with Predictor.load(directory) as third:
        assert not {0, 1, 2} & set(third.ids.tolist()) and third.verify(head).sound


def test_a_change_waits_for_others_and_says_so_when_it_was_too_long(directory):
    with Predictor.load(directory) as first, Predictor.load(directory, wait=0.1) as second:
        with first._file.hold_off_changes():
            with pytest.raises(LockedMemoryError, match="nothing was changed, try again"):
                second.forget([0])
            assert 0 in second.ids  # answers do not wait
        assert second.forget([0]).receipt.sequences == range(1, 2)


def test_what_is_added_is_found_and_never_gets_an_old_id(predictor, images, result):
    file = result.parents[6] / "pictures" / "a" / "03.png"  # sample 3 is of val
    token_before = predictor.predict(file).neighbors
    assert predictor.add(file, ["dog & co"]).ids.tolist() == [60]
    near = predictor.predict(file).neighbors
    assert near.ids[0, 0] == 60 and near.labels[0, 0] == 1 and near.files[0][0] == str(file)
    assert near.ids[0, 1:].tolist() == token_before.ids[0, :3].tolist()
    assert predictor.verify().sound
    predictor.forget(predictor.select(files=[file]).ids)
    predictor.purge()
    assert predictor.add(images.images[:2], [0, 1]).ids.tolist() == [61, 62]


def test_a_token_is_lent_by_trained_neighbors_for_each_answer(predictor, images):
    pictures = images.images[images.get_ids("test")[:4]]
    before = predictor.predict(pictures)
    added = predictor.add(pictures, [0, 0, 1, 2]).ids
    memory, first = predictor._file.snapshot().memory, predictor.predict(pictures[:1]).neighbors
    assert not memory.tokens[memory.find_rows(added)].any()  # none of their own
    lent = retriever(predictor).retrieve(predictor._model.encoder.compute_keys(pictures[:1]))
    trained = memory.tokens[memory.find_rows(before.neighbors.ids[0])]
    assert first.ids[0, 0] == added[0]
    np.testing.assert_allclose(lent.tokens[0, 0], before.neighbors.weights[0] @ trained, rtol=1e-5)


def test_what_was_forgotten_is_in_no_token_that_was_lent_before(directory, tmp_path, images):
    """Added and then forgotten, or the other way round: the same answers."""
    pictures = images.images[images.get_ids("test")]
    other = shutil.copytree(directory, tmp_path / "other")
    with Predictor.load(directory) as one, Predictor.load(other) as two:
        forgotten = np.unique(one.predict(pictures).neighbors.ids[:, 0])
        one.add(pictures[::2], images.labels[images.get_ids("test")][::2])
        asked = one.predict(pictures).logits
        one.forget(forgotten)
        two.forget(forgotten)
        two.add(pictures[::2], images.labels[images.get_ids("test")][::2])
        assert np.array_equal(one.predict(pictures).logits, two.predict(pictures).logits)
        assert not np.array_equal(one.predict(pictures).logits, asked)
        for model in (one, two):
            model.forget(images.get_ids("train"), ignore_missing=True)
        left = one.predict(pictures)
        assert len(one.ids) and (left.neighbors.ids == -1).all() and np.isfinite(left.logits).all()


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

    def disturbed(*arguments):
        if changes:
            changes.pop(0)()
        found = find_nearest(*arguments)
        if changes:
            changes.pop(0)()
        return found

    monkeypatch.setattr(retrieval, "find_nearest", disturbed)
    meanwhile = predictor.predict(picture)
    assert not changes
    after = predictor.predict(picture)
    assert near[1] not in predictor.ids and near[1] not in after.neighbors.ids
    assert np.array_equal(meanwhile.logits, before.logits)
    assert not np.array_equal(after.logits, before.logits)
    assert meanwhile.neighbors.files == before.neighbors.files
    assert np.array_equal(meanwhile.neighbors.ids, before.neighbors.ids)


def test_what_is_forgotten_while_a_picture_is_read_is_not_in_the_answer(
    predictor, images, monkeypatch
):
    """No prediction is based on a sample that was forgotten before its neighbors were looked up."""
    one = images.get_ids("train")[:1]
    predictor.warm_up()
    compute_keys = predictor._model.encoder.compute_keys

    def slow(pictures):
        predictor.forget(one)
        return compute_keys(pictures)

    monkeypatch.setattr(predictor._model.encoder, "compute_keys", slow)
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
        asked = [threads.submit(ask) for _ in range(2)]
        started.wait()
        for one in forgotten.tolist():
            predictor.forget([one])
            right.add(predictor.predict(pictures).logits.tobytes())
            predictor.purge()
        given = {answer for answers in asked for answer in answers.result()}
    assert given <= right and predictor.verify().sound


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_answers_that_are_no_numbers_are_said_to_be_damage(value, predictor, images, monkeypatch):
    logits = np.array([[0, 1, value]], np.float32)
    monkeypatch.setattr(LoadedNetwork, "compute_logits", lambda *_: logits)
    with pytest.raises(
        UnreadableModelError, match="its logits are not finite; `verify` checks whether the memory"
    ):
        predictor.predict(images.images[:1])


def test_a_manifest_that_is_too_large_to_be_one_is_not_read(directory, monkeypatch):
    size = (directory / "manifest.json").stat().st_size
    monkeypatch.setattr(manifest, "MAX_BYTES", size)
    Predictor.load(directory).close()
    monkeypatch.setattr(manifest, "MAX_BYTES", size - 1)
    with pytest.raises(
        UnreadableModelError, match=rf"manifest\.json: has {size:,} bytes, more than the allowed"
    ):
        Predictor.load(directory)


def test_logits_far_apart_have_probabilities():
    assert softmax(np.array([[0, 200], [-200, 0]], np.float32)).tolist() == [[0, 1], [0, 1]]


def test_the_unit_of_what_is_added_has_one_name_and_an_empty_cell_is_none(predictor, images):
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
    name = b"a/00.png"
    held = [file for file in directory.rglob("*") if file.is_file() and name in file.read_bytes()]
    assert held, "or the search finds nothing ever"
    with Predictor.load(directory) as model:
        model.forget([0])
        model.purge()
        assert not [
            file for file in directory.rglob("*") if file.is_file() and name in file.read_bytes()
        ]


# Requests


def test_rows_say_all_that_the_memory_knows_of_a_sample(predictor, images, result):
    start = datetime.now(UTC)
    predictor.add(images.images[3:5], ["cat", "fish"], units=["Anna", None])
    every, folder = predictor.rows(), result.parents[6] / "pictures"
    assert [row.id for row in every] == predictor.ids.tolist()
    assert every[1] == (1, "dog & co", str(folder / "b" / "01.png"), None, every[1].added)
    assert every[-2] == (60, "cat", None, "Anna", every[-2].added) and every[-1].label == "fish"
    assert every[1].added < start <= every[-1].added <= datetime.now(UTC)
    assert [row.id for row in predictor.rows(units=["Anna"])] == [60]
    assert [row.id for row in predictor.rows(labels=["cat", 2], files=["a/00.png", "b"])] == [0]
    assert {row.label for row in predictor.rows(labels=["cat", 2])} == {"cat", "fish"}


def test_what_is_selected_is_all_that_any_name_means(predictor, images):
    predictor.add(images.images[3:5], [0, 2], units=["Anna", "Anna"])
    chosen = predictor.select(ids={1, 2}, files=["glob:a/0*.png"], units=["Anna"])
    # 3 and 9 are not in the memory
    assert chosen.ids.tolist() == [0, 1, 2, 6, 60, 61] and chosen.missing == ()
    assert chosen.classes == {"cat": 3, "dog & co": 1, "fish": 2}
    fish = images.ids[(images.labels == 2) & (images.splits == "train")].tolist()
    assert predictor.select(labels=["fish"]).ids.tolist() == [*fish, 61]
    assert predictor.select(ids=(one for one in [2, 1, 1])).ids.tolist() == [1, 2]


def test_what_names_nothing_is_all_counted_and_the_first_ten_are_said(predictor):
    predictor.forget(predictor.select(labels=["cat"]).ids)
    named = {
        "ids": [0, 1, 999],
        "files": [f"gone-{i}.png" for i in range(20)],
        "labels": ["cat"],
        "units": ["Anna"],
    }
    with pytest.raises(
        UnknownNamesError, match=r"has these names: 0, 999, gone-0.*gone-7\.png, … \(24 in all\)"
    ):
        predictor.select(**named)
    chosen = predictor.select(**named, ignore_missing=True)
    assert (
        chosen.ids.tolist() == [1]
        and len(chosen.missing) == 24
        and chosen.missing[-2:] == ("class cat", "unit Anna")
    )
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
    with pytest.raises(
        UnknownNamesError, match=r"that `list` shows, by its path below .*/pictures, or by its path"
    ):
        predictor.select(files=["elsewhere/a/00.png"])


@pytest.mark.parametrize(
    ("method", "named"),
    [
        ("forget", ["17"]),
        ("select", {"files": "a/00.png"}),
        ("select", {"labels": "cat"}),
        ("select", {"units": "Anna"}),
        ("select", {"ids": "12"}),
        ("rows", {"units": "Anna"}),
    ],
    ids=str,
)
def test_one_text_is_refused_in_words_wherever_a_list_is_wanted(method, named, predictor):
    before = predictor.ids
    with pytest.raises(ValueError, match="must be a list"):
        getattr(predictor, method)(*named) if isinstance(named, list) else getattr(
            predictor, method
        )(**named)
    assert np.array_equal(predictor.ids, before)


def test_a_request_is_carried_out_once(predictor):
    files = ["a/00.png", "b/01.png"]
    first, again = (
        predictor.forget(predictor.select(files=files, request="2026-17").ids, request="2026-17")
        for _ in range(2)
    )
    assert again.receipt == dataclasses.replace(first.receipt, repeated=True)
    assert predictor.forget([0, 1], request="2026-17").receipt == again.receipt
    assert (len(first), len(again), again.deleted) == (2, 0, 2) and not first.repeated
    with pytest.raises(ValueError, match="2026-17"):
        predictor.forget([2], request="2026-17")
    assert [(it.request, len(it.sequences)) for it in predictor.log()] == [
        ("2026-17", 2)
    ] and 2 in predictor.ids


def test_a_copy_that_stays_is_named_or_forgotten_too(predictor, images):
    """Sample 0 and its copies 60 and 61, and sample 1 and its copy 62."""
    assert predictor.add(images.images[[0, 3]], [0, 0]).identical == {60: (0,)}
    assert predictor.add(images.images[[0, 1]], [0, 1]).identical == {62: (0, 60), 63: (1,)}
    assert predictor.forget([60]).identical == (0, 62)
    assert predictor.forget([0, 1], ignore_missing=True).identical == (62, 63)
    deletion = predictor.forget([62], also_identical=True)
    assert deletion.identical == () and len(deletion) == 1
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
    open_answer, held = (
        predictor.predict(images.images, only_held_classes=only) for only in (False, True)
    )
    assert (open_answer.probabilities[:, 2] > 0).all() and np.array_equal(
        open_answer.logits, held.logits
    )
    assert not held.probabilities[:, 2].any() and set(held.classes) <= {"cat", "dog & co"}
    np.testing.assert_allclose(held.probabilities[:, :2], softmax(held.logits[:, :2]), rtol=1e-5)
    assert np.array_equal(held.labels, held.logits[:, :2].argmax(axis=1))


def test_a_forked_child_is_refused_in_words(predictor, images):
    predictor.predict(images.images[:20])

    def opened_again():
        with Predictor.load(predictor.directory, device="cpu") as reopened:
            reopened.predict(images.images[:20])

    calls = [
        opened_again,
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
    if not child:
        signal.alarm(20)  # or it would hang
        refusals = 0
        for call in calls:
            try:
                call()
            except ClosedMemoryError as error:
                refusals += "opened by another process" in str(
                    error
                ) or "start the process with `spawn`" in str(error)
        os._exit(refusals)
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls)
