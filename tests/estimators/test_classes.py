"""Classes as people write them: forms of Unicode, types, missing ones; and other types after the last row is gone."""

import unicodedata
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

import munkey
from munkey import MunkeyClassifier
from tests.estimators.inputs import KINDS

each = pytest.mark.parametrize("kind", KINDS)
places = pytest.mark.parametrize("place", ["memory", "directory"])
X = np.random.default_rng(0).normal(size=(60, 5))
COMPOSED = "N\u00e4vus"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
TWO_FORMS = [COMPOSED, DECOMPOSED, "Melanom"] * 20
HOLDERS = {
    "list": list,
    "array": np.array,
    "objects": lambda names: np.array(names, dtype=object),
    "series": pd.Series,
    "strings": lambda names: pd.Series(names, dtype="string"),
    "category": lambda names: pd.Series(names, dtype="category"),
}


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def fitted(kind, place, tmp_path, labels):
    model = kind().fit(X[: len(labels)], labels)
    if place != "memory":
        model.save(tmp_path / "model")
    return model


@each
@places
def test_a_class_in_two_forms_is_one(kind, place, tmp_path):
    model = fitted(kind, place, tmp_path, TWO_FORMS)
    assert model.classes_.tolist() == ["Melanom", COMPOSED]
    model.add(X[:1], [f" {DECOMPOSED} "])
    assert model.classes_.tolist() == ["Melanom", COMPOSED]
    assert len(model.forget(labels=DECOMPOSED, dry_run=True)) == 41
    # The accuracy compares names in one form.
    assert model.score(X, TWO_FORMS) == model.score(X, [COMPOSED, COMPOSED, "Melanom"] * 20)
    assert cross_val_score(kind(), X, [DECOMPOSED, "b"] * 30, cv=2).min() > 0


def test_names_that_are_changed_and_names_that_are_alike_are_mentioned_once():
    labels = ["cat", "Cat", "DOG ", "dog", "a b", "ab"] * 10
    with pytest.warns(UserWarning, match="differ only in case") as warned:
        model = munkey.ForgettingNCM().fit(X, labels)
    said = [str(one.message) for one in warned]
    assert len(said) == 2
    assert "1 class name changed" in said[0] and "'DOG ' to 'DOG'" in said[0]
    assert "'Cat' and 'cat'" in said[1] and "'DOG' and 'dog'" in said[1]
    assert len(model.classes_) == 6
    other = munkey.ForgettingNCM().fit(X, ["cat", "dog"] * 30)
    with pytest.warns(UserWarning, match="'Cat' and 'cat'") as warned:
        other.add(X[:2], ["Cat", "dog"])
    assert len(warned) == 1
    with pytest.raises(KeyError, match="Similar class names for 'CAT': 'Cat' or 'cat'"):
        model.forget(labels="CAT")


@pytest.mark.parametrize("added", HOLDERS)
@pytest.mark.parametrize("first", HOLDERS)
@places
def test_classes_may_come_in_another_holder(first, added, place, tmp_path):
    names = ["benign", "malign"] * 10
    model = fitted(munkey.ForgettingNCM, place, tmp_path, HOLDERS[first](names))
    model.add(X[:2], HOLDERS[added](["benign", "new"]))
    assert model.classes_.tolist() == ["benign", "malign", "new"]
    assert model.predict(X[:2]).dtype.kind == "U"


@pytest.mark.parametrize(
    ("labels", "more", "said"),
    [
        ([0, 1], ["cat"], "the new classes are text, such as 'cat', but the model's are integers"),
        (["a", "b"], [1], "the new classes are integers, such as 1, but the model's are text"),
        (
            [False, True],
            ["a"],
            "the new classes are text, such as 'a', but the model's are boolean",
        ),
        ([False, True], [1], "the new classes are integers"),
    ],
)
@places
def test_another_kind_is_refused_while_there_are_rows(labels, more, said, place, tmp_path):
    model = fitted(munkey.ForgettingLDA, place, tmp_path, labels * 10)
    with pytest.raises(ValueError, match=said):
        model.add(X[:1], more)


@pytest.mark.parametrize(
    ("first", "later"),
    [([0, 1], ["cat", "dog"]), ([False, True], ["cat", "dog"]), (["cat", "dog"], [3, 4])],
    ids=str,
)
@pytest.mark.parametrize("place", ["memory", "directory", "emptied by a predictor"])
@each
def test_an_emptied_model_takes_classes_of_another_type(kind, place, first, later, tmp_path):
    model = fitted(kind, place, tmp_path, first * 10)
    if place == "emptied by a predictor":
        with munkey.Predictor.load(tmp_path / "model") as predictor:
            predictor.forget(predictor.ids)
    else:
        model.forget(ids=model.ids_)
    model.add(X[:20], later * 10)
    expected = kind().fit(X[:20], later * 10)
    if place == "memory":
        model.save(tmp_path / "model")
    for one in (model, kind.load(tmp_path / "model")):
        assert one.classes_.tolist() == later
        assert one.predict(X).tolist() == expected.predict(X).tolist()
        assert one.predict_proba(X).tobytes() == expected.predict_proba(X).tobytes()
    with munkey.Predictor.load(tmp_path / "model") as predictor:
        assert predictor.verify().sound
        assert set(predictor.predict(X).classes) <= set(map(str, later))


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b"] * 20,
        ["a", float("nan"), "b"] * 20,
        pd.Series(["a", pd.NA, "b"] * 20, dtype="string"),
        pd.Series(["a", None, "b"] * 20, dtype="category"),
        ["a", " ", "b"] * 20,
        [1.0, float("nan"), 2.0] * 20,
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [munkey.ForgettingLDA, MunkeyClassifier])
def test_missing_classes_are_counted(kind, labels):
    rows = X if kind is munkey.ForgettingLDA else np.zeros((60, 8, 8, 3), np.uint8)
    with pytest.raises(ValueError, match="20 of 60 classes are missing, the first in row 1"):
        kind().fit(rows, labels)


def test_text_beside_numbers_is_refused():
    with pytest.raises(
        ValueError, match="20 of 60 classes are text, but others are not, such as 1"
    ):
        munkey.ForgettingLDA().fit(X, [1, "a", 2] * 20)


@pytest.mark.parametrize("place", ["memory", "directory"])
def test_nullable_numbers_of_pandas_keep_their_type(place, tmp_path):
    model = fitted(munkey.ForgettingNCM, place, tmp_path, pd.Series([0, 1] * 30, dtype="Int64"))
    assert model.classes_.dtype == np.int64
    model.add(X[:2], np.array([1, 2], dtype=np.uint8))
    assert model.classes_.tolist() == [0, 1, 2]
    if place == "directory":
        with munkey.Predictor.load(tmp_path / "model") as predictor:
            assert predictor.classes == ((0, 1, 2), "<i8")
