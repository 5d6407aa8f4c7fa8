"""A saved estimator owns nothing: whoever changes its directory, it answers, forgets and saves what
is there now.
"""

import gc
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
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
from tests.estimators.inputs import KINDS, content

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(40, 5)) + 2 * np.eye(5)[np.arange(40) % 3]
Y = np.array(["ant", "bee", "cat"])[np.arange(40) % 3]
UNITS = [f"patient {row % 4}" for row in range(40)]  # too long to be among random bytes
QUERIES = GENERATOR.normal(size=(6, 5))
each = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "model"


@each
def test_rows_that_came_under_the_same_head_of_the_chain_are_seen(kind, folder):
    """Ten rows of patient 1, and three more that another process adds before it purges."""
    kind().fit(X, Y, units=UNITS).save(folder)
    with Predictor.load(folder) as other:
        other.forget([0, 4, 8])
    model = kind.load(folder)
    head = model._rows.model.head
    with Predictor.load(folder) as other:
        other.add(X[:3], Y[:3].tolist(), units=["patient 1"] * 3)
        other.purge()
        assert other.head == head
    assert len(model.forget(units=["patient 1"])) == 13
    fresh = kind().fit(X, Y, units=UNITS)
    fresh.forget([0, 4, 8])
    fresh.forget(units=["patient 1"])
    assert model.predict_proba(QUERIES).tobytes() == fresh.predict_proba(QUERIES).tobytes()


@each
def test_what_is_saved_again_is_what_is_there_now_and_the_log_goes_with_it(kind, folder, tmp_path):
    model = kind().fit(X, Y, units=UNITS)
    model.save(folder)
    model.predict(QUERIES)
    with Predictor.load(folder) as other:
        other.forget(other.select(units=["patient 2"]).ids, request="2026-7")
    model.save(tmp_path / "copy")
    assert (
        model.directory_ == tmp_path / "copy"
        and "patient 2" not in model.units_
        and len(model.ids_) == 30
    )
    assert b"patient 2" not in content(tmp_path / "copy")
    with Predictor.load(tmp_path / "copy") as copied, Predictor.load(folder) as first:
        assert copied.verify(first.head).sound and [one.request for one in copied.log()] == [
            "2026-7"
        ]
    model.forget(units="patient 3")  # of the copy alone
    assert len(kind.load(folder).ids_) == 30 and len(kind.load(tmp_path / "copy").ids_) == 20


@each
def test_a_directory_that_is_taken_is_refused_before_anything_is_written(kind, folder, tmp_path):
    model = kind().fit(X, Y)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "a file").write_text("theirs")
    for _ in range(2):  # in memory, and saved
        with pytest.raises(FileExistsError):
            model.save(tmp_path / "taken")
        assert sorted(path.name for path in tmp_path.iterdir()) in (["taken"], ["model", "taken"])
        if not folder.exists():
            model.save(folder)
    with pytest.raises(FileExistsError):
        model.save(folder)
    assert model.predict(X).shape == (40,)


def test_while_another_process_changes_its_directory_answers_and_copies_go_on_and_changes_wait(
    folder, tmp_path
):
    model = ForgettingLDA().fit(X, Y)
    model.save(folder)
    before = model.predict_proba(QUERIES)
    database = model._rows.model._file._database
    with Predictor.load(folder) as other:
        with other._file.hold_off_changes():
            database.wait = 0.02
            for change in (lambda: model.forget([1]), lambda: model.add(X[:1], Y[:1])):
                with pytest.raises(LockedMemoryError, match=r"kept busy.*nothing was changed"):
                    change()
            copied = pickle.loads(pickle.dumps(model))
            copied.save(tmp_path / "b")
            for one in (copied, model):
                assert one.predict_proba(QUERIES).tobytes() == before.tobytes()
            database.wait = 60
            waiting = threading.Thread(target=model.forget, args=([1],))
            waiting.start()
            time.sleep(0.1)
            assert waiting.is_alive() and 1 in model.ids_
        waiting.join()
        other.forget([2])
    assert model.ids_.tolist() == [0, *range(3, 40)]


@each
def test_one_that_is_sent_elsewhere_is_the_path_alone(kind, folder):
    model = kind().fit(X, Y, units=UNITS)
    model.save(folder)
    before = model.predict_proba(QUERIES)
    sent = pickle.dumps(model)
    assert b"patient 1" not in sent and len(sent) < 2000
    other = pickle.loads(sent)
    assert other.predict_proba(QUERIES).tobytes() == before.tobytes()
    other.forget(units="patient 1")
    assert (
        model.predict_proba(QUERIES).tobytes()
        == other.predict_proba(QUERIES).tobytes()
        != before.tobytes()
    )


def test_a_class_that_another_process_brought_is_known_to_all_who_have_the_directory_open(folder):
    """The length of its name is nowhere left when it has gone."""
    model = ForgettingLDA().fit(X, Y)
    model.save(folder)
    with Predictor.load(folder) as reader:
        assert reader.predict(QUERIES).logits.shape == (6, 3)
        other = ForgettingLDA.load(folder)
        [new_id] = other.add(5 * np.eye(5)[4:], ["a name of some length"])
        answer = reader.predict(5 * np.eye(5)[4:])
        assert (
            answer.classes == ("a name of some length",) == tuple(model.predict(5 * np.eye(5)[4:]))
        )
        assert reader.digests() == reader.digests(recompute=True)
        assert reader.select(labels=["a name of some length"]).ids.tolist() == [new_id]
    assert model.forget(new_id).tolist() == [new_id]
    written = content(folder)
    assert b"U21" not in written and b"some length" not in written
    fresh = ForgettingLDA().fit(X, Y)
    assert other.classes_.dtype == fresh.classes_.dtype == model.classes_.dtype == np.dtype("<U3")
    assert model.coef_.tobytes() == fresh.coef_.tobytes()


def test_classes_keep_their_type_where_a_wider_number_comes(folder):
    model = ForgettingNCM().fit(X, (np.arange(40) % 3).astype(np.int8))
    model.save(folder)
    model.add(X[:1], [1000])
    assert (
        model.classes_.tolist() == [0, 1, 2, 1000]
        and ForgettingNCM.load(folder).classes_.dtype == np.int64
    )
    model.forget(40)
    assert model.classes_.tolist() == [0, 1, 2]


def test_ids_of_ones_own_leave_none_to_be_used_twice(folder):
    in_memory = ForgettingNCM().fit(X, Y)
    model = ForgettingNCM().fit(X, Y)
    model.save(folder)
    for one in (in_memory, model):
        assert one.add(X[:2], Y[:2], ids=[100, 70]).tolist() == [100, 70]
        assert one.add(X[:2], Y[:2]).tolist() == [101, 102]
        assert one.add(X[:1], Y[:1], ids=[50]).tolist() == [50]
        one.forget([101, 102])
        with pytest.raises(UsedIdError):
            one.add(X[:1], Y[:1], ids=[60])  # nobody knows any more whether it was in use
        assert one.add(X[:1], Y[:1]).tolist() == [103]
    with Predictor.load(folder) as other:
        assert other.add(X[:1], Y[:1].tolist()).ids.tolist() == [104]
    assert ForgettingNCM.load(folder).add(X[:1], Y[:1]).tolist() == [105]


def test_a_directory_that_was_replaced_under_it_is_opened_anew(folder, tmp_path):
    """As by a backup; also where this process copied it, which ends SQLite's locks on it."""
    model = ForgettingLDA().fit(X, Y)
    model.save(folder)
    before = model.predict_proba(QUERIES)
    shutil.copytree(folder, tmp_path / "backup")
    with Predictor.load(folder) as other:
        other.forget([1, 2, 3])
    assert model.predict_proba(QUERIES).tobytes() != before.tobytes()
    code = "import sys; from munkey import Predictor; Predictor.load(sys.argv[1]).close()"
    # the last one, as SQLite thinks
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    assert len(model.ids_) == 37
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    assert model.predict_proba(QUERIES).tobytes() == before.tobytes() and len(model.ids_) == 40
    shutil.rmtree(folder)
    with pytest.raises(UnreadableModelError, match="is not an exported model"):
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


def test_a_model_that_nobody_uses_any_more_leaves_no_file_open(folder):
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


def test_a_forked_child_opens_it_for_itself(folder):
    model = ForgettingNCM().fit(X, Y)
    model.save(folder)
    assert len(model.ids_) == 40
    child = os.fork()
    if not child:
        os._exit(0 if model.forget([7]).tolist() == [7] and len(model.ids_) == 39 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(model.ids_) == 39


def add_and_forget(folder, number: int, count: int, results) -> None:
    """Another process, which adds rows, of classes of its own, too, and forgets every third."""
    model = ForgettingNCM.load(folder)
    for step in range(count):
        ids = model.add(X[:3], [1000 * number, 1000 * number + step, 2], units=["a", None, "b"])
        model.forget(ids[::3])
        results.put(ids.tolist())


def test_processes_that_add_and_forget_at_once_never_get_an_id_twice(folder):
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
    given: list[list[int]] = []
    while len(given) < 16:
        given.append(results.get(timeout=120))
        assert len(model.predict(QUERIES)) == 6
    for process in processes:
        process.join()
        assert process.exitcode == 0
    ids = [row_id for ids in given for row_id in ids]
    assert sorted(ids) == list(range(40, 40 + 48))
    assert set(model.ids_) == {*range(40)} | set(ids) - {three[0] for three in given}
    with Predictor.load(folder) as other:
        assert other.verify().sound and other.digests() == other.digests(recompute=True)
    fresh = ForgettingNCM().fit(X, np.arange(40) % 3)
    model.forget(model.ids_[40:])
    assert model.predict_proba(QUERIES).tobytes() == fresh.predict_proba(QUERIES).tobytes()


def test_nothing_changes_between_the_checks_of_a_change_and_the_change(folder, monkeypatch):
    """Else an id could be used twice, or classes of two types meet."""
    model = ForgettingNCM().fit(X, Y)
    model.save(folder)
    calls = []
    with Predictor.load(folder, wait=0.02) as other:

        def is_alone(name):
            change_rows = getattr(RowsInDirectory, name)

            def change_alone(rows, *arguments, **options):
                with pytest.raises(LockedMemoryError):
                    other.forget([5])
                calls.append(name)
                return change_rows(rows, *arguments, **options)

            return change_alone

        for name in ("add", "forget"):
            monkeypatch.setattr(RowsInDirectory, name, is_alone(name))
        assert model.add(X[:1], Y[:1], ids=[60]).tolist() == [60]
        model.forget([60])
        monkeypatch.undo()
        model.forget([3], dry_run=True)
        other.forget([5])
    with pytest.raises(UsedIdError, match="may have belonged to forgotten rows"):
        model.add(X[:2], Y[:2], ids=[60, 61])
    assert calls == ["add", "forget"] and len(model.ids_) == 39


def change(folder, started, stop) -> None:
    """Another process, which adds, forgets and purges as fast as it can."""
    keys = np.random.default_rng(1).normal(size=(3, ForgettingNCM.load(folder).n_features_in_))
    model = ForgettingNCM.load(folder)
    while not stop.is_set():
        model.forget(model.add(keys, [3, 7, 7], units=["somebody"] * 3))
        started.set()
        time.sleep(0.01)


def copies_while_it_is_changed(tmp_path, count: int) -> int:
    """How many copies of a live directory were damaged, or held a part of what comes and goes
    together.
    """
    model = MunkeyClassifier(family="ncm", key_size=32, verbose=False, device="cpu")
    pictures = GENERATOR.integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    model.fit(pictures, np.array([3, 7] * 6)).save(tmp_path / "live")
    context = multiprocessing.get_context("spawn")
    started, stop = context.Event(), context.Event()
    other = context.Process(target=change, args=(tmp_path / "live", started, stop))
    other.start()
    try:
        assert started.wait(120)
        damaged = 0
        for number in range(count):
            copied = MunkeyClassifier.load(tmp_path / "live")
            copied.save(tmp_path / f"copy {number}")
            with Predictor.load(tmp_path / f"copy {number}") as saved:
                sound = saved.verify().sound
                theirs = sum(row.unit == "somebody" for row in saved.rows())
            traces = b"somebody" in content(tmp_path / f"copy {number}")
            damaged += not sound or (theirs, traces) not in {(0, False), (3, True)}
            del copied
    finally:
        stop.set()
        other.join()
    assert not other.exitcode
    return damaged


def test_a_live_directory_is_copied_whole_while_another_process_changes_it(tmp_path):
    assert copies_while_it_is_changed(tmp_path, 4) == 0


@pytest.mark.soak
def test_many_copies_of_a_live_directory_are_whole(tmp_path):
    assert copies_while_it_is_changed(tmp_path, 100) == 0
