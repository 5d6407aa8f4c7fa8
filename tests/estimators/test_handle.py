"""A saved estimator follows its directory: it answers, forgets and saves with the rows that are there now."""

import gc
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from munkey import (
    ForgettingLDA,
    ForgettingNCM,
    MunkeyClassifier,
    Predictor,
    UsedIdError,
)
from munkey.deploy.errors import UnreadableModelError
from munkey.estimators.classifier import compute_keys
from munkey.estimators.rows import RowsInDirectory
from munkey.memory.errors import LockedMemoryError
from tests.estimators.inputs import content, each_kind

X = np.random.default_rng(0).normal(size=(40, 5)) + 2 * np.eye(5)[np.arange(40) % 3]
Y = np.array(["ant", "bee", "cat"])[np.arange(40) % 3]
UNITS = [f"patient {row % 4}" for row in range(40)]  # too long to be among random bytes
QUERIES = np.random.default_rng(1).normal(size=(6, 5))


@pytest.fixture
def folder(tmp_path):
    """Where a model can be saved."""
    return tmp_path / "model"


@each_kind
def test_rows_that_another_process_added_before_a_purge_are_forgotten(kind, folder):
    """They leave the head of the chain as it was."""
    kind().fit(X, Y, units=UNITS).save(folder)
    with Predictor.load(folder) as other:
        other.forget([0, 4, 8])
    model = kind.load(folder)
    head = model._rows.model.head
    with Predictor.load(folder) as other:
        other.add(X[:3], Y[:3].tolist(), units=["patient 1"] * 3)
        other.purge()
        assert other.head == head
    assert len(model.forget(units=["patient 1"])) == 10 + 3
    fresh = kind().fit(X, Y, units=UNITS)
    fresh.forget([0, 4, 8])
    fresh.forget(units=["patient 1"])
    assert model.predict_proba(QUERIES).tobytes() == fresh.predict_proba(QUERIES).tobytes()


def test_a_second_save_copies_the_rows_that_are_there_now_and_the_log(folder, tmp_path):
    model = ForgettingNCM().fit(X, Y, units=UNITS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(folder)
    model.predict(QUERIES)
    with Predictor.load(folder) as other:
        other.forget(other.select(units=["patient 2"]).ids, request="2026-7")
    copied = tmp_path / "copy"
    with pytest.warns(UserWarning, match="model is no longer changed"):
        model.save(copied)
    assert model.directory_ == copied
    assert "patient 2" not in model.units_
    assert len(model.ids_) == 30
    assert b"patient 2" not in content(copied)
    with Predictor.load(copied) as second, Predictor.load(folder) as first:
        assert second.verify(first.head).sound
        [deletion] = second.log()
        assert deletion.request == "2026-7"
    model.forget(units="patient 3")  # in the copy alone
    assert len(ForgettingNCM.load(folder).ids_) == 30
    assert len(ForgettingNCM.load(copied).ids_) == 20


def test_answers_and_copies_go_on_while_another_process_changes_rows_and_changes_wait(
    folder, tmp_path
):
    model = ForgettingLDA().fit(X, Y)
    model.save(folder)
    before = model.predict_proba(QUERIES)
    database = model._rows.model._file._database
    with Predictor.load(folder) as other:
        with other._file.hold_off_changes():
            database.wait = 0.02
            with pytest.raises(LockedMemoryError, match="nothing was changed"):
                model.forget([1])
            with pytest.raises(LockedMemoryError, match="nothing was changed"):
                model.add(X[:1], Y[:1])
            copied = pickle.loads(pickle.dumps(model))
            copied.save(tmp_path / "copy")
            assert copied.predict_proba(QUERIES).tobytes() == before.tobytes()
            assert model.predict_proba(QUERIES).tobytes() == before.tobytes()
            database.wait = 60
            waiting = threading.Thread(target=model.forget, args=([1],))
            waiting.start()
            time.sleep(0.1)
            assert waiting.is_alive()
            assert 1 in model.ids_
        waiting.join()
        other.forget([2])
    assert model.ids_.tolist() == [0, *range(3, 40)]


def test_a_pickle_of_a_saved_estimator_holds_its_path_alone(folder):
    model = ForgettingNCM().fit(X, Y, units=UNITS)
    model.save(folder)
    before = model.predict_proba(QUERIES)
    pickled = pickle.dumps(model)
    assert b"patient 1" not in pickled
    assert len(pickled) < 2000
    other = pickle.loads(pickled)
    assert other.predict_proba(QUERIES).tobytes() == before.tobytes()
    other.forget(units="patient 1")
    after = model.predict_proba(QUERIES)
    assert after.tobytes() == other.predict_proba(QUERIES).tobytes()
    assert after.tobytes() != before.tobytes()


def test_a_class_that_one_estimator_adds_is_seen_by_all_that_opened_the_directory(folder):
    """When it is empty, not even the length of its name is in the directory."""
    name = "a name of some length"
    query = 5 * np.eye(5)[4:]
    model = ForgettingLDA().fit(X, Y)
    model.save(folder)
    with Predictor.load(folder) as reader:
        assert reader.predict(QUERIES).logits.shape == (6, 3)
        other = ForgettingLDA.load(folder)
        [new_id] = other.add(query, [name])
        assert reader.predict(query).classes == (name,)
        assert model.predict(query).tolist() == [name]
        assert reader.digests() == reader.digests(recompute=True)
        assert reader.select(labels=[name]).ids.tolist() == [new_id]
    assert model.forget(new_id).tolist() == [new_id]
    written = content(folder)
    assert f"U{len(name)}".encode() not in written
    assert b"some length" not in written
    fresh = ForgettingLDA().fit(X, Y)
    for estimator in (model, other, fresh):
        assert estimator.classes_.dtype == np.dtype("<U3")
    assert model.coef_.tobytes() == fresh.coef_.tobytes()


def test_a_wider_number_among_the_classes_widens_their_type(folder):
    model = ForgettingNCM().fit(X, (np.arange(40) % 3).astype(np.int8))
    model.save(folder)
    model.add(X[:1], [1000])
    assert model.classes_.tolist() == [0, 1, 2, 1000]
    assert ForgettingNCM.load(folder).classes_.dtype == np.int64
    model.forget(40)
    assert model.classes_.tolist() == [0, 1, 2]


def test_no_id_is_used_twice_whoever_adds_rows(folder):
    model = ForgettingNCM().fit(X, Y)
    model.save(folder)
    assert model.add(X[:2], Y[:2], ids=[100, 70]).tolist() == [100, 70]
    assert model.add(X[:2], Y[:2]).tolist() == [101, 102]
    model.forget([101, 102])
    assert model.add(X[:1], Y[:1]).tolist() == [103]
    with Predictor.load(folder) as other:
        assert other.add(X[:1], Y[:1].tolist()).ids.tolist() == [104]
    assert ForgettingNCM.load(folder).add(X[:1], Y[:1]).tolist() == [105]


def test_a_directory_that_was_replaced_is_opened_again(folder, tmp_path):
    """As by a backup; also where this process copied it, which ends SQLite's locks on it."""
    model = ForgettingLDA().fit(X, Y)
    model.save(folder)
    before = model.predict_proba(QUERIES)
    shutil.copytree(folder, tmp_path / "backup")
    with Predictor.load(folder) as other:
        other.forget([1, 2, 3])
    assert model.predict_proba(QUERIES).tobytes() != before.tobytes()
    code = "import sys; from munkey import Predictor; Predictor.load(sys.argv[1]).close()"
    # SQLite takes this process for the last one that has the file open.
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    assert len(model.ids_) == 37
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    assert model.predict_proba(QUERIES).tobytes() == before.tobytes()
    assert len(model.ids_) == 40
    shutil.rmtree(folder)
    with pytest.raises(UnreadableModelError, match="not an exported model"):
        model.predict(X)


def test_a_thread_that_answers_is_not_stopped_by_a_save_to_another_directory(folder, tmp_path):
    model = ForgettingNCM().fit(X, Y)
    model.save(folder)
    answers = model.predict_proba(QUERIES)
    rows = model._rows  # as another thread has them, which has begun to answer
    opened = rows.model
    with pytest.warns(UserWarning, match="no longer changed"):
        model.save(tmp_path / "second")
    model.forget([3])
    assert rows.model is opened
    _, logits = opened.compute_logits(compute_keys(QUERIES, None))
    assert logits.argmax(axis=1).tolist() == answers.argmax(axis=1).tolist()
    assert len(opened.ids) == 40


def test_an_unused_model_has_no_open_file(folder):
    open_files = Path("/proc/self/fd")
    model = ForgettingNCM().fit(X, Y)
    model.save(folder)
    before = len(list(open_files.iterdir()))
    for row in range(3):
        with Predictor.load(folder) as other:
            del other
        ForgettingNCM.load(folder).forget([row])
        gc.collect()
    assert len(list(open_files.iterdir())) == before


def test_a_forked_child_opens_the_directory_itself(folder):
    model = ForgettingNCM().fit(X, Y)
    model.save(folder)
    assert len(model.ids_) == 40
    child = os.fork()
    if not child:
        is_forgotten = model.forget([7]).tolist() == [7]
        os._exit(0 if is_forgotten and len(model.ids_) == 39 else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert len(model.ids_) == 39


def add_and_forget(folder, number: int, count: int, results) -> None:
    """Add rows, also of new classes, and forget every third, as another process."""
    model = ForgettingNCM.load(folder)
    for step in range(count):
        ids = model.add(X[:3], [1000 * number, 1000 * number + step, 2], units=["a", None, "b"])
        model.forget(ids[::3])
        results.put(ids.tolist())


def test_processes_that_add_and_forget_at_once_get_different_ids(folder):
    model = ForgettingNCM().fit(X, (np.arange(40) % 3).astype(np.int16))
    model.save(folder)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=add_and_forget, args=(folder, number, 8, results))
        for number in (1, 70)  # 70,000 needs more than the 16 bits of the classes so far
    ]
    for process in processes:
        process.start()
    batches: list[list[int]] = []
    while len(batches) < 16:
        batches.append(results.get(timeout=120))
        assert len(model.predict(QUERIES)) == 6
    for process in processes:
        process.join()
        assert process.exitcode == 0
    new_ids = np.array(batches)
    assert sorted(new_ids.flat) == list(range(40, 40 + 48))
    assert set(model.ids_) == {*range(40), *new_ids[:, 1:].flat}  # the first of each was forgotten
    with Predictor.load(folder) as other:
        assert other.verify().sound
        assert other.digests() == other.digests(recompute=True)
    fresh = ForgettingNCM().fit(X, np.arange(40) % 3)
    model.forget(model.ids_[40:])
    assert model.predict_proba(QUERIES).tobytes() == fresh.predict_proba(QUERIES).tobytes()


def test_no_other_change_happens_between_the_checks_of_a_change_and_the_change(folder, monkeypatch):
    """Else an id could be used twice, or classes of two types meet."""
    model = ForgettingNCM().fit(X, Y)
    model.save(folder)
    add = RowsInDirectory.add
    forget = RowsInDirectory.forget
    calls = []
    with Predictor.load(folder, wait=0.02) as other:

        def add_alone(rows, *arguments, **options):
            with pytest.raises(LockedMemoryError):
                other.forget([5])
            calls.append("add")
            return add(rows, *arguments, **options)

        def forget_alone(rows, *arguments, **options):
            with pytest.raises(LockedMemoryError):
                other.forget([5])
            calls.append("forget")
            return forget(rows, *arguments, **options)

        monkeypatch.setattr(RowsInDirectory, "add", add_alone)
        monkeypatch.setattr(RowsInDirectory, "forget", forget_alone)
        assert model.add(X[:1], Y[:1], ids=[60]).tolist() == [60]
        model.forget([60])
        monkeypatch.undo()
        model.forget([3], dry_run=True)
        other.forget([5])
    with pytest.raises(UsedIdError, match="forgotten rows"):
        model.add(X[:2], Y[:2], ids=[60, 61])
    assert calls == ["add", "forget"]
    assert len(model.ids_) == 39


def change_until(folder, started, stop) -> None:
    """Add three rows of a unit, forget and purge them, again and again, as another process."""
    model = ForgettingNCM.load(folder)
    keys = np.random.default_rng(1).normal(size=(3, model.n_features_in_))
    while not stop.is_set():
        new_ids = model.add(keys, [3, 7, 7], units=["a new unit"] * 3)
        model.forget(new_ids)
        started.set()
        time.sleep(0.01)


def count_bad_copies(tmp_path, count: int) -> int:
    """How many copies of a directory that changes are damaged, or have only some of the three rows."""
    model = MunkeyClassifier(family="ncm", key_size=32, verbose=False, device="cpu")
    pictures = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    model.fit(pictures, np.array([3, 7] * 6)).save(tmp_path / "live")
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    stop = context.Event()
    other = context.Process(target=change_until, args=(tmp_path / "live", started, stop))
    other.start()
    try:
        assert started.wait(120)
        bad_copies = 0
        for number in range(count):
            copied = tmp_path / f"copy {number}"
            loaded = MunkeyClassifier.load(tmp_path / "live")
            loaded.save(copied)
            with Predictor.load(copied) as saved:
                is_sound = saved.verify().sound
                new_rows = sum(row.unit == "a new unit" for row in saved.rows())
            has_bytes = b"a new unit" in content(copied)
            if not is_sound or (new_rows, has_bytes) not in {(0, False), (3, True)}:
                bad_copies += 1
            del loaded
    finally:
        stop.set()
        other.join()
    assert other.exitcode == 0
    return bad_copies


def test_a_directory_is_copied_whole_while_another_process_changes_it(tmp_path):
    assert count_bad_copies(tmp_path, 4) == 0


@pytest.mark.soak
def test_many_copies_of_a_directory_that_changes_are_whole(tmp_path):
    assert count_bad_copies(tmp_path, 100) == 0
