"""Logits and log probabilities, and what scikit-learn builds on them."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from munkey import ForgettingKNN, ForgettingKRR, ForgettingLDA, ForgettingNCM
from tests.estimators.inputs import each_kind, each_place, put

X, Y = load_digits(return_X_y=True)
X = X[:300]
Y = Y[:300]


def digits_below(classes):
    """The rows of the digits 0 to `classes` - 1, and their digits."""
    is_below = np.isin(Y, range(classes))
    return X[is_below], Y[is_below]


@each_kind
@each_place
def test_the_softmax_of_the_logits_is_the_probability(kind, place, tmp_path):
    model = kind().fit(X, Y)
    put(model, place, tmp_path)
    logits = model.decision_function(X)
    assert logits.shape == (300, 10)
    assert logits.dtype == np.float64
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(softmax(logits, axis=1), probabilities, rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[logits.argmax(axis=1)], model.predict(X))


@each_kind
def test_two_classes_have_one_logit_a_row_and_one_class_has_a_column(kind):
    model = kind().fit(X[Y < 3], Y[Y < 3])
    model.forget(labels=0)
    logits = model.decision_function(X)
    assert logits.shape == (300,)
    np.testing.assert_allclose(expit(logits), model.predict_proba(X)[:, 1], rtol=1e-12)
    log_probabilities = model.predict_log_proba(X)
    np.testing.assert_allclose(
        logits, log_probabilities[:, 1] - log_probabilities[:, 0], rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(np.where(logits > 0, 2, 1), model.predict(X))
    model.forget(labels=2)
    assert model.decision_function(X).shape == (300, 1)
    assert not model.predict_log_proba(X).any()
    model.forget(labels=1)
    for method in (model.decision_function, model.predict_log_proba):
        with pytest.raises(ValueError, match="every row was forgotten"):
            method(X)


@pytest.mark.parametrize(
    "model",
    [ForgettingLDA(temperature=1e-6), ForgettingNCM(temperature=1e-6), ForgettingKNN(k=1)],
    ids=str,
)
def test_a_log_is_finite_where_the_probability_is_rounded_to_zero(model):
    model.fit(X, Y)
    log_probabilities = model.predict_log_proba(X)
    assert np.isfinite(log_probabilities).all()
    if not isinstance(model, ForgettingKNN):
        assert (model.predict_proba(X) == 0).any()
        assert log_probabilities.min() < np.log(np.finfo(float).tiny)


@each_kind
def test_logits_after_a_deletion_are_those_of_a_fit_on_the_rest(kind):
    model = kind().fit(X, Y)
    model.forget(range(0, 300, 3))
    never = kind().fit(X[model.ids_], Y[model.ids_])
    for method in ("decision_function", "predict_log_proba"):
        assert getattr(model, method)(X).tobytes() == getattr(never, method)(X).tobytes()


@pytest.mark.parametrize("classes", [2, 10])
def test_a_pipeline_is_cross_validated_by_its_logits(classes):
    rows, labels = digits_below(classes)
    model = make_pipeline(FunctionTransformer(np.sqrt), ForgettingLDA())
    logits = cross_val_predict(model, rows, labels, cv=3, method="decision_function")
    log_probabilities = cross_val_predict(model, rows, labels, cv=3, method="predict_log_proba")
    assert np.isfinite(log_probabilities).all()
    assert log_probabilities.shape == (len(rows), classes)
    if classes == 2:
        assert logits.shape == (len(rows),)
        assert roc_auc_score(labels, logits) > 0.99
        assert cross_val_score(model, rows, labels, cv=3, scoring="roc_auc").min() > 0.99
    else:
        assert logits.shape == (len(rows), classes)
        assert (logits.argmax(axis=1) == labels).mean() > 0.9


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("method", ["auto", "decision_function"])
def test_a_stack_takes_estimators(classes, method):
    rows, labels = digits_below(classes)
    parts = [("lda", ForgettingLDA()), ("krr", ForgettingKRR()), ("knn", ForgettingKNN())]
    final = LogisticRegression(max_iter=1000)
    stack = StackingClassifier(parts, final, cv=3, stack_method=method).fit(rows, labels)
    columns = 1 if classes == 2 else classes
    assert stack.transform(rows).shape == (len(rows), len(parts) * columns)
    assert stack.score(rows, labels) > 0.95


@each_kind
@pytest.mark.parametrize("classes", [2, 5])
def test_a_calibration_takes_logits(kind, classes):
    rows, labels = digits_below(classes)
    for method in ("sigmoid", "isotonic", "temperature"):
        calibrated = CalibratedClassifierCV(kind(), method=method, cv=3).fit(rows, labels)
        probabilities = calibrated.predict_proba(rows)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        assert (calibrated.predict(rows) == labels).mean() > 0.95
