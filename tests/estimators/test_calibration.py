"""Calibrated probabilities, rows that keep their length, and the limits of settings."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict

from munkey import (
    ForgettingKNN,
    ForgettingKRR,
    ForgettingLDA,
    ForgettingNCM,
    ForgettingRanPAC,
    MunkeyClassifier,
    Predictor,
)
from tests.estimators.inputs import check_scikit_learn, each_place, put

X, Y = load_iris(return_X_y=True)
each_head = pytest.mark.parametrize("kind", [ForgettingLDA, ForgettingNCM])
each_norm = pytest.mark.parametrize("norm", ["unit", None])


def compute_scores(model, rows, labels):
    """The log loss and the accuracy, by cross-validation."""
    probabilities = cross_val_predict(model, rows, labels, cv=5, method="predict_proba")
    accuracy = (probabilities.argmax(axis=1) == labels).mean()
    return log_loss(labels, probabilities), accuracy


@pytest.mark.parametrize(("kind", "temperature"), [(ForgettingLDA, 5.0), (ForgettingNCM, 0.015)])
def test_a_temperature_by_rows_left_out_is_better_than_that_of_other_keys(kind, temperature):
    """On rows that are not this project's keys."""
    digits = load_digits(return_X_y=True)
    tuned_loss, tuned_accuracy = compute_scores(kind(), *digits)
    fixed_loss, fixed_accuracy = compute_scores(kind(temperature=temperature), *digits)
    assert tuned_loss < fixed_loss
    assert tuned_accuracy == fixed_accuracy
    tuned_loss, _ = compute_scores(kind(norm=None), X, Y)
    fixed_loss, _ = compute_scores(kind(norm=None, temperature=temperature), X, Y)
    assert tuned_loss < 0.8 * fixed_loss


def test_lda_without_norm_uses_the_length_of_rows():
    scaled = X - X.mean(axis=0)  # the length of a row tells its class, the direction does not
    _, accuracy = compute_scores(ForgettingLDA(norm=None), scaled, Y)
    _, accuracy_of_unit_rows = compute_scores(ForgettingLDA(), scaled, Y)
    assert accuracy > 0.95
    assert accuracy_of_unit_rows < 0.9


@each_head
@each_norm
def test_any_deletions_leave_the_bytes_of_a_fit_on_the_rest_in_memory_and_on_disk(
    kind, norm, tmp_path
):
    order = np.random.default_rng(0).permutation(len(X))
    model = kind(norm=norm).fit(X, Y)
    kind(norm=norm).fit(X[::-1], Y[::-1], ids=np.arange(len(X))[::-1]).save(tmp_path / "model")
    saved = kind.load(tmp_path / "model")
    assert saved.get_params() == model.get_params()
    temperatures = set()
    for batch in np.array_split(order[:110], 4):
        model.forget(np.sort(batch))
        saved.forget(batch)
        never = kind(norm=norm).fit(X[model.ids_], Y[model.ids_], ids=model.ids_)
        for other in (saved, kind.load(tmp_path / "model"), never):
            assert other.temperature_ == model.temperature_
            assert other.coef_.tobytes() == model.coef_.tobytes()
            assert other.intercept_.tobytes() == model.intercept_.tobytes()
            assert other.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
        temperatures.add(model.temperature_)
    assert len(temperatures) > 1  # it follows the remaining rows
    new = saved.add(X[:3], Y[:3])
    assert saved.ids_[-3:].tolist() == new.tolist()
    with Predictor.load(tmp_path / "model") as deployed:
        np.testing.assert_allclose(
            deployed.predict(X).probabilities, saved.predict_proba(X), atol=1e-5
        )
        assert deployed.verify().sound


@each_head
def test_a_number_above_the_bound_is_refused_with_the_bound_to_pass(kind):
    model = kind(norm=None, bound=4.0)
    with pytest.raises(ValueError, match=r"reaches 7\.9.*bound=8"):
        model.fit(X, Y)
    model.set_params(bound=8).fit(X, Y)
    with pytest.raises(ValueError, match="reaches 79"):
        model.add(10 * X[[131]], Y[:1])
    assert np.isfinite(model.predict_proba(10 * X)).all()  # queries have no bound


@each_head
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("norm", "l2"),
        ("bound", 0),
        ("bound", np.inf),
        ("bound", "large"),
        ("temperature", "best"),
    ],
)
def test_a_setting_of_a_wrong_value_is_refused_by_name(kind, name, value):
    with pytest.raises(ValueError, match=name):
        kind(**{"norm": None, name: value}).fit(X, Y)


@each_head
@each_place
@pytest.mark.parametrize("changes", [{"bound": 8.0}, {"norm": "unit"}], ids=str)
def test_a_scale_that_is_set_after_the_fit_waits_for_the_next(kind, place, changes, tmp_path):
    """The failure: rows of two scales in one model."""
    model = kind(norm=None, bound=64.0).fit(X[:120], Y[:120])
    put(model, place, tmp_path)
    model.set_params(**changes)
    model.add(X[120:], Y[120:])
    never = kind(norm=None, bound=64.0).fit(X, Y)
    assert model.predict_proba(X).tobytes() == never.predict_proba(X).tobytes()
    assert model.coef_.tobytes() == never.coef_.tobytes()
    model.fit(X, Y)
    assert model.coef_.tobytes() != never.coef_.tobytes()


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (ForgettingLDA(temperature=1e-300), "temperature"),
        (ForgettingNCM(temperature=1e300), "temperature"),
        (ForgettingKNN(temperature=1e-300), "temperature"),
        (ForgettingKRR(temperature=1e-300), "temperature"),
        (ForgettingKRR(sigma=1e-300), "sigma"),
        (ForgettingRanPAC(lam=1e-300), "lam"),
        (ForgettingRanPAC(lam=1e300), "lam"),
    ],
    ids=str,
)
def test_numbers_that_would_overflow_are_refused(model, name):
    with pytest.raises(ValueError, match=name):
        model.fit(X, Y)


@pytest.mark.parametrize(
    "model",
    [
        ForgettingLDA(temperature=1e-6),
        ForgettingLDA(temperature=1e6),
        ForgettingNCM(temperature=1e-6),
        ForgettingNCM(temperature=1e6),
        ForgettingLDA(alpha=1e-4, temperature=1e-6, norm=None),
        ForgettingKNN(temperature=1e-12),
        ForgettingKRR(temperature=1e-6, sigma=1e-12, pixels=2),
        ForgettingRanPAC(features=300, lam=1e-6, temperature=1e-6),
        ForgettingRanPAC(features=300, lam=1e6),
    ],
    ids=str,
)
def test_the_limits_themselves_give_probabilities(model):
    probabilities = model.fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


@pytest.mark.filterwarnings("ignore")  # of scikit-learn's own data
def test_scikit_learns_checks_pass_without_unit_norm():
    check_scikit_learn(ForgettingLDA(norm=None, bound=1e4))


def test_classifiers_of_pictures_are_calibrated_too():
    pictures = np.random.default_rng(0).integers(0, 256, (24, 16, 16, 3), dtype=np.uint8)
    labels = np.arange(24) % 2
    model = MunkeyClassifier(family="lda", key_size=32, device="cpu").fit(pictures, labels)
    assert len(model.forget(range(9))) == 9
    never = MunkeyClassifier(family="lda", key_size=32, device="cpu")
    never.fit(pictures[9:], labels[9:], ids=range(9, 24))
    assert model.predict_proba(pictures).tobytes() == never.predict_proba(pictures).tobytes()
    assert model._handle.model.manifest.settings["temperature"] == "auto"
