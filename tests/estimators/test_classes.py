"""Classes as people write them: in two forms of Unicode, in several types, with gaps."""

import unicodedata
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

import munkey
from munkey import MunkeyClassifier
from tests.estimators.inputs import each_kind, each_place

X = np.random.default_rng(0).normal(size=(60, 5))
COMPOSED = "N\u00e4vus"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
TWO_FORMS = [COMPOSED, DECOMPOSED, "Melanom"] * 20
COLUMN_TYPES = {
    "list": list,
    "array": np.array,
    "objects": lambda names: np.array(names, dtype=object),
    "series": pd.Series,
    "strings": lambda names: pd.Series(names, dtype="string"),
    "category": lambda names: pd.Series(names, dtype="category"),
}


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def model_of(kind, place, tmp_path, labels):
    """An estimator fitted to rows of these classes, in memory or in a directory."""
    model = kind().fit(X[: len(labels)], labels)
    if place != "memory":
        model.save(tmp_path / "model")
    return model


@each_kind
@each_place
def test_a_class_in_two_forms_is_one(kind, place, tmp_path):
    model = model_of(kind, place, tmp_path, TWO_FORMS)
    assert model.classes_.tolist() == ["Melanom", COMPOSED]
    model.add(X[:1], [f" {DECOMPOSED} "])
    assert model.classes_.tolist() == ["Melanom", COMPOSED]
    assert len(model.forget(labels=DECOMPOSED, dry_run=True)) == 41
    # The accuracy compares names in one form.
    assert model.score(X, TWO_FORMS) == model.score(X, [COMPOSED, COMPOSED, "Melanom"] * 20)
    assert cross_val_score(kind(), X, [DECOMPOSED, "b"] * 30, cv=2).min() > 0


def test_changed_names_and_similar_names_are_warned_of_once():
    labels = ["cat", "Cat", "DOG ", "dog", "a b", "ab"] * 10
    with pytest.warns(UserWarning, match="differ only in case") as warned:
        model = munkey.ForgettingNCM().fit(X, labels)
    changed_names, similar_names = (str(warning.message) for warning in warned)
    assert "1 class name changed" in changed_names
    assert "'DOG ' to 'DOG'" in changed_names
    assert "'Cat' and 'cat'" in similar_names
    assert "'DOG' and 'dog'" in similar_names
    assert len(model.classes_) == 6
    other = munkey.ForgettingNCM().fit(X, ["cat", "dog"] * 30)
    with pytest.warns(UserWarning, match="'Cat' and 'cat'") as warned:
        other.add(X[:2], ["Cat", "dog"])
    assert len(warned) == 1
    with pytest.raises(KeyError, match="Similar class names for 'CAT': 'Cat' or 'cat'"):
        model.forget(labels="CAT")


@pytest.mark.parametrize("added", COLUMN_TYPES)
@pytest.mark.parametrize("first", COLUMN_TYPES)
@each_place
def test_classes_may_come_in_another_type_of_column(first, added, place, tmp_path):
    names = ["benign", "malign"] * 10
    model = model_of(munkey.ForgettingNCM, place, tmp_path, COLUMN_TYPES[first](names))
    model.add(X[:2], COLUMN_TYPES[added](["benign", "new"]))
    assert model.classes_.tolist() == ["benign", "malign", "new"]
    assert model.predict(X[:2]).dtype.kind == "U"


@pytest.mark.parametrize(
    ("labels", "new_label", "reason"),
    [
        ([0, 1], "cat", "are text, such as 'cat', but the model's are integers"),
        (["a", "b"], 1, "are integers, such as 1, but the model's are text"),
        ([False, True], "a", "are text, such as 'a', but the model's are boolean"),
        ([False, True], 1, "are integers, such as 1, but the model's are boolean"),
    ],
)
@each_place
def test_classes_of_another_type_are_refused_while_there_are_rows(
    labels, new_label, reason, place, tmp_path
):
    model = model_of(munkey.ForgettingLDA, place, tmp_path, labels * 10)
    with pytest.raises(ValueError, match=reason):
        model.add(X[:1], [new_label])


@pytest.mark.parametrize(
    ("first", "later"),
    [([0, 1], ["cat", "dog"]), ([False, True], ["cat", "dog"]), (["cat", "dog"], [3, 4])],
    ids=str,
)
@pytest.mark.parametrize("place", ["memory", "directory", "emptied by a predictor"])
@each_kind
def test_an_emptied_model_takes_classes_of_another_type(kind, place, first, later, tmp_path):
    model = model_of(kind, place, tmp_path, first * 10)
    if place == "emptied by a predictor":
        with munkey.Predictor.load(tmp_path / "model") as predictor:
            predictor.forget(predictor.ids)
    else:
        model.forget(ids=model.ids_)
    model.add(X[:20], later * 10)
    expected = kind().fit(X[:20], later * 10)
    if place == "memory":
        model.save(tmp_path / "model")
    for emptied in (model, kind.load(tmp_path / "model")):
        assert emptied.classes_.tolist() == later
        assert emptied.predict(X).tolist() == expected.predict(X).tolist()
        assert emptied.predict_proba(X).tobytes() == expected.predict_proba(X).tobytes()
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
    with pytest.raises(ValueError, match=r"20 of 60 classes are text, .* such as 1"):
        munkey.ForgettingLDA().fit(X, [1, "a", 2] * 20)


@each_place
def test_nullable_numbers_of_pandas_keep_their_type(place, tmp_path):
    model = model_of(munkey.ForgettingNCM, place, tmp_path, pd.Series([0, 1] * 30, dtype="Int64"))
    assert model.classes_.dtype == np.int64
    model.add(X[:2], np.array([1, 2], dtype=np.uint8))
    assert model.classes_.tolist() == [0, 1, 2]
    if place == "directory":
        with munkey.Predictor.load(tmp_path / "model") as predictor:
            assert predictor.classes == ((0, 1, 2), "<i8")
