"""Answers in one thread while another forgets, adds and saves."""

import threading
import time
import warnings

import numpy as np
import pytest

import munkey
from munkey import MunkeyClassifier
from tests.estimators.inputs import each_kind, each_place, put

SECONDS = 1.5
N = 120
Y = np.arange(N) % 6
# Each class has its own direction, so that every answer is known while its class has rows.
X = 10 * np.eye(6)[Y] + np.random.default_rng(0).normal(size=(N, 6))


def run_beside(change, answer):
    """Call `answer` again and again in one thread while another calls `change`. Raises their errors."""
    errors = []
    end = time.monotonic() + SECONDS

    def repeat(step):
        try:
            while time.monotonic() < end and not errors:
                step()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(step,)) for step in (change, answer, answer)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


@each_place
@each_kind
def test_every_answer_has_the_rows_and_classes_of_one_moment(kind, place, tmp_path):
    model = kind().fit(X, Y)
    put(model, place, tmp_path)
    queries = X[Y > 0]
    expected = Y[Y > 0]

    def change():
        """Forget the first class and add it again, which moves the columns of all others."""
        model.forget(labels=0)
        model.add(X[Y == 0], Y[Y == 0])

    def answer():
        assert model.predict(queries).tolist() == expected.tolist()
        assert model.predict_proba(queries[:2]).shape[1] in (5, 6)

    run_beside(change, answer)
    assert len(model.ids_) == N


@pytest.mark.parametrize("family", ["munkey", "lda"])
def test_pictures_are_answered_while_others_go_and_come(family):
    generator = np.random.default_rng(0)
    pictures = generator.integers(0, 60, (24, 32, 32, 3), dtype=np.uint8)
    pictures[12:] += 180
    labels = np.array(["night"] * 12 + ["day"] * 12)
    model = MunkeyClassifier(
        family=family, encoder="pixels", epochs=1, device="cpu", verbose=False, width=16, depth=1
    ).fit(pictures, labels)

    def change():
        new_ids = model.add(pictures[:2], labels[:2])
        model.forget(new_ids)

    def answer():
        assert set(model.predict(pictures[::6])) <= {"night", "day"}

    run_beside(change, answer)
    assert len(model.ids_) == 24


def test_two_threads_that_change_rows_lose_nothing():
    model = munkey.ForgettingNCM().fit(X, Y)

    def add():
        model.add(X[:3], Y[:3])

    def add_and_forget():
        new_ids = model.add(X[:1], Y[:1])
        model.forget(new_ids)

    run_beside(add, add_and_forget)
    added = len(model.ids_) - N
    assert added > 0
    assert added % 3 == 0


def test_a_row_that_is_forgotten_during_a_save_is_not_in_the_directory(tmp_path):
    model = munkey.ForgettingNCM().fit(X, Y)
    rows = model._rows
    save = rows.save
    started = threading.Event()

    def slow_save(folder, features):
        save(folder, features)
        started.set()
        time.sleep(0.3)

    rows.save = slow_save
    saver = threading.Thread(target=model.save, args=(tmp_path / "model",))
    saver.start()
    started.wait()
    model.forget(ids=[3])
    saver.join()
    assert 3 not in model.ids_
    assert 3 not in munkey.ForgettingNCM.load(tmp_path / "model").ids_
