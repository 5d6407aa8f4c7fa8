"""Classes as people write them: in two forms of Unicode, in several types, with gaps."""

import unicodedata
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from munkey import ForgettingLDA, ForgettingNCM, MunkeyClassifier, Predictor
from tests.estimators.inputs import KINDS, each_place, put

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


def model_of(labels, kind=ForgettingNCM):
    """An estimator fitted to rows of these classes."""
    return kind().fit(X[: len(labels)], labels)


@each_place
def test_a_class_in_two_forms_is_one(place, tmp_path):
    model = put(model_of(TWO_FORMS), place, tmp_path)
    assert model.classes_.tolist() == ["Melanom", COMPOSED]
    model.add(X[:1], [f" {DECOMPOSED} "])
    assert model.classes_.tolist() == ["Melanom", COMPOSED]
    assert len(model.forget(labels=DECOMPOSED, dry_run=True)) == 41
    # The accuracy compares names in one form.
    assert model.score(X, TWO_FORMS) == model.score(X, [COMPOSED, COMPOSED, "Melanom"] * 20)
    assert cross_val_score(ForgettingNCM(), X, [DECOMPOSED, "b"] * 30, cv=2).min() > 0


def test_changed_names_and_similar_names_are_warned_of_once():
    labels = ["cat", "Cat", "DOG ", "dog", "a b", "ab"] * 10
    with pytest.warns(UserWarning, match="differ only in case") as warned:
        model = ForgettingNCM().fit(X, labels)
    changed_names, similar_names = (str(warning.message) for warning in warned)
    assert "1 class name changed" in changed_names
    assert "'DOG ' to 'DOG'" in changed_names
    assert "'Cat' and 'cat'" in similar_names
    assert "'DOG' and 'dog'" in similar_names
    assert len(model.classes_) == 6
    other = ForgettingNCM().fit(X, ["cat", "dog"] * 30)
    with pytest.warns(UserWarning, match="'Cat' and 'cat'") as warned:
        other.add(X[:2], ["Cat", "dog"])
    assert len(warned) == 1
    with pytest.raises(KeyError, match="'CAT': 'Cat' or 'cat'"):
        model.forget(labels="CAT")


@pytest.mark.parametrize("column", COLUMN_TYPES)
@each_place
def test_classes_may_come_in_another_type_of_column(column, place, tmp_path):
    first = COLUMN_TYPES[column](["benign", "malign"] * 10)
    model = put(model_of(first), place, tmp_path)
    model.add(X[:1], COLUMN_TYPES[column](["benign"]))
    model.add(X[:1], ["new"])
    assert model.classes_.tolist() == ["benign", "malign", "new"]
    assert model.predict(X[:2]).dtype.kind == "U"


@pytest.mark.parametrize(
    ("labels", "new_label", "reason"),
    [
        ([0, 1], "cat", "text, such as 'cat', .*integers"),
        (["a", "b"], 1, "integers, such as 1, .*text"),
        ([False, True], "a", "text, such as 'a', .*boolean"),
        ([False, True], 1, "integers, such as 1, .*boolean"),
    ],
)
@each_place
def test_classes_of_another_type_are_refused_while_there_are_rows(
    labels, new_label, reason, place, tmp_path
):
    model = put(model_of(labels * 10), place, tmp_path)
    with pytest.raises(ValueError, match=reason):
        model.add(X[:1], [new_label])


@pytest.mark.parametrize(
    ("kind", "first", "later"),
    [
        *((kind, [0, 1], ["cat", "dog"]) for kind in KINDS),
        (ForgettingNCM, [False, True], ["cat", "dog"]),
        (ForgettingNCM, ["cat", "dog"], [3, 4]),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["memory", "directory", "emptied by a predictor"])
def test_an_emptied_model_takes_classes_of_another_type(kind, place, first, later, tmp_path):
    model = put(model_of(first * 10, kind), place, tmp_path)
    if place == "emptied by a predictor":
        with Predictor.load(tmp_path / "model") as predictor:
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
    with Predictor.load(tmp_path / "model") as predictor:
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
def test_missing_classes_are_counted(labels):
    with pytest.raises(ValueError, match=r"20 of 60 .*first in row 1"):
        ForgettingNCM().fit(X, labels)


def test_missing_classes_of_pictures_are_counted():
    with pytest.raises(ValueError, match=r"20 of 60 .*first in row 1"):
        MunkeyClassifier().fit(np.zeros((60, 8, 8, 3), np.uint8), ["a", None, "b"] * 20)


def test_text_beside_numbers_is_refused():
    with pytest.raises(ValueError, match=r"20 of 60 .*text, .*such as 1"):
        ForgettingLDA().fit(X, [1, "a", 2] * 20)


@each_place
def test_nullable_numbers_of_pandas_keep_their_type(place, tmp_path):
    model = put(model_of(pd.Series([0, 1] * 30, dtype="Int64")), place, tmp_path)
    assert model.classes_.dtype == np.int64
    model.add(X[:2], np.array([1, 2], dtype=np.uint8))
    assert model.classes_.tolist() == [0, 1, 2]
    if place == "directory":
        with Predictor.load(tmp_path / "model") as predictor:
            assert predictor.classes == ((0, 1, 2), "<i8")
