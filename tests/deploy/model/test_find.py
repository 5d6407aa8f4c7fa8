"""Samples looked up by a picture or a row, for each family: whose are the nearest, and which are exact copies."""

import doctest
from pathlib import Path

import numpy as np
import pytest

import munkey
import munkey.deploy.predictor
from munkey.deploy.errors import PictureError
from munkey.deploy.model import retrieval
from munkey.deploy.model.retrieval import find_nearest
from munkey.deploy.predictor import Predictor
from munkey.encoders.keys import Keys, normalize_rows
from munkey.memory import neighbors
from tests.estimators.inputs import EXACT

ROWS = np.random.default_rng(0).normal(size=(30, 20))
ROWS[7] = ROWS[3]  # an exact copy, of another person
CLASSES = ["cat", "dog", "emu"]
PEOPLE = [f"person {row % 4}" for row in range(len(ROWS))]


one_family = pytest.mark.parametrize("rows_model", ["lda"], indirect=True)


@pytest.fixture(params=EXACT)
def rows_model(request, tmp_path) -> Path:
    """A directory with a model of rows of numbers."""
    labels = [CLASSES[row % 3] for row in range(len(ROWS))]
    with pytest.warns(UserWarning, match="exact cop"):
        EXACT[request.param]().fit(ROWS, labels, units=PEOPLE).save(tmp_path / "model")
    return tmp_path / "model"


def test_the_nearest_rows_have_cosine_class_and_unit_and_copies_are_marked(
    rows_model,
):
    keys = normalize_rows(ROWS)
    expected = neighbors.find_nearest(
        Keys(np.array([99]), keys[[3]]), Keys(np.arange(len(ROWS)), keys), 5
    )
    with Predictor.load(rows_model) as model:
        [samples] = model.find(ROWS[[3]], count=5).samples
    assert [sample.id for sample in samples] == expected.ids[0].tolist()
    assert [sample.cosine for sample in samples] == pytest.approx(
        expected.cosines[0].tolist(), abs=1e-4
    )
    for sample in samples:
        assert sample.label == CLASSES[sample.id % 3]
        assert sample.unit == PEOPLE[sample.id]
        assert sample.file is None
        assert sample.copy == (sample.id in (3, 7))
    assert {sample.unit for sample in samples if sample.copy} == {"person 3"}


def test_rows_below_the_least_cosine_and_forgotten_rows_are_not_found(rows_model):
    with Predictor.load(rows_model) as model:
        assert [sample.id for sample in model.find(ROWS[[3]], above=0.9).samples[0]] == [3, 7]
        model.forget([3])
        [samples] = model.find(ROWS[[3]], above=0.9).samples
        assert [(sample.id, sample.copy) for sample in samples] == [(7, True)]
        assert model.find(-ROWS[[3]], above=0.9).samples == ((),)
        assert len(model.find(ROWS[[3]], count=1000).samples[0]) == len(ROWS) - 1
        model.forget(model.ids)
        assert model.find(ROWS[[3]]).samples == ((),)  # nothing is held, which is the answer


def test_a_row_that_is_deleted_during_the_search_is_in_no_search_that_begins_later(
    rows_model, monkeypatch
):
    with Predictor.load(rows_model) as model:
        searched = []

        def forget_and_find(*arguments):
            if not searched:
                model.forget([3])
                model.purge()
            searched.append(arguments)
            return find_nearest(*arguments)

        monkeypatch.setattr(retrieval, "find_nearest", forget_and_find)
        [before] = model.find(ROWS[[3]], count=2).samples
        [after] = model.find(ROWS[[3]], count=2).samples
    # The search began before the deletion, so it answers from the memory as it was then, whole.
    assert [(sample.id, sample.unit) for sample in before] == [(3, "person 3"), (7, "person 3")]
    assert after[0].id == 7
    assert 3 not in [sample.id for sample in after]


@one_family
@pytest.mark.parametrize("options", [{"count": 0}, {"count": 1001}, {"count": 2.5}, {"above": 1.5}])
def test_an_invalid_count_or_cosine_is_refused(options, rows_model):
    with Predictor.load(rows_model) as model, pytest.raises(ValueError, match=next(iter(options))):
        model.find(ROWS[[3]], **options)


def test_rows_that_keep_their_length_are_ranked_by_cosine(tmp_path):
    rows = np.array([[1.0, 1.0], [10.0, 9.0], [-3.0, 1.0], [0.0, 2.0]])
    munkey.ForgettingNCM(temperature=1.0, norm=None).fit(rows, [*"abab"]).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model") as model:
        [samples] = model.find(rows[[0]], count=2).samples
    assert [sample.id for sample in samples] == [0, 1]
    assert samples[0].copy
    cosines = [sample.cosine for sample in samples]
    assert cosines == pytest.approx([1, 19 / np.sqrt(2 * 181)], abs=1e-4)


@one_family
def test_rows_of_another_width_are_refused(rows_model):
    with Predictor.load(rows_model) as model, pytest.raises(PictureError, match="rows of 20"):
        model.find(np.zeros((1, 3)))


def test_a_munkey_finds_pictures_with_their_files(predictor, images):
    result = predictor.find(images.images[[1, 2]], count=3)
    answer = predictor.predict(images.images[[1, 2]])
    for query, samples in enumerate(result.samples):
        assert [sample.id for sample in samples] == answer.neighbors.ids[query, :3].tolist()
        assert [sample.file for sample in samples] == list(answer.neighbors.files[query][:3])
        copies = [sample.id for sample in samples if sample.copy]
        assert copies == [query + 1]
        assert samples[0].cosine == pytest.approx(1, abs=1e-5)
    added = predictor.add(images.images[[3]], ["fish"], units=["Anna"])
    [samples] = predictor.find(images.images[[3]], count=2).samples
    assert samples[0].id == added.ids[0]
    assert samples[0].unit == "Anna"
    assert samples[0].copy


@pytest.mark.parametrize(("described", "lines"), [(Predictor, 5), (Predictor.find, 7)])
def test_the_example_of_the_docstring_runs_as_printed(described, lines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [example] = doctest.DocTestFinder(recurse=False).find(
        described, described.__name__, munkey.deploy.predictor
    )
    failed, tried = doctest.DocTestRunner().run(example)
    assert failed == 0
    assert tried == lines
