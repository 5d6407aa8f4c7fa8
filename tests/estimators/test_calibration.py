"""Probabilities that mean what they say, and rows that keep their length."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict
from sklearn.utils.estimator_checks import check_estimator

from munkey import (
    ForgettingKNN,
    ForgettingKRR,
    ForgettingLDA,
    ForgettingNCM,
    ForgettingRanPAC,
    MunkeyClassifier,
    Predictor,
)

X, Y = load_iris(return_X_y=True)
GENERATOR = np.random.default_rng(0)
heads = pytest.mark.parametrize("kind", [ForgettingLDA, ForgettingNCM])
norms = pytest.mark.parametrize("norm", ["unit", None])


def scores(model, rows, labels):
    """Log loss and accuracy by cross-validation."""
    probabilities = cross_val_predict(model, rows, labels, cv=5, method="predict_proba")
    return log_loss(labels, probabilities), (probabilities.argmax(axis=1) == labels).mean()


@pytest.mark.parametrize(("kind", "earlier"), [(ForgettingLDA, 5.0), (ForgettingNCM, 0.015)])
def test_a_temperature_by_rows_left_out_is_better_than_that_of_other_keys(kind, earlier):
    """On rows that are not this project's keys."""
    digits = load_digits(return_X_y=True)
    tuned = scores(kind(), *digits)
    fixed = scores(kind(temperature=earlier), *digits)
    assert tuned[0] < fixed[0]
    assert tuned[1] == fixed[1]
    assert (
        scores(kind(norm=None), X, Y)[0]
        < 0.8 * scores(kind(norm=None, temperature=earlier), X, Y)[0]
    )


def test_rows_that_keep_their_length_are_told_apart_by_it():
    scaled = X - X.mean(axis=0)  # its length says which class, its direction does not
    assert (
        scores(ForgettingLDA(norm=None), scaled, Y)[1]
        > 0.95
        > scores(ForgettingLDA(), scaled, Y)[1] + 0.05
    )


@heads
@norms
def test_any_deletions_leave_the_bytes_of_a_fit_on_the_rest_in_memory_and_on_disk(
    kind, norm, tmp_path
):
    order = GENERATOR.permutation(len(X))
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
    assert len(temperatures) > 1  # it follows the rows that are left
    new = saved.add(X[:3], Y[:3])
    assert saved.ids_[-3:].tolist() == new.tolist()
    with Predictor.load(tmp_path / "model") as deployed:
        np.testing.assert_allclose(
            deployed.predict(X).probabilities, saved.predict_proba(X), atol=1e-5
        )
        assert deployed.verify().sound


@heads
def test_what_cannot_be_held_exactly_is_refused_with_the_bound_that_can(kind):
    model = kind(norm=None, bound=4.0)
    with pytest.raises(
        ValueError, match=r"feature number 0 reaches 7\.9, which exceeds bound=4: .*pass bound=8"
    ):
        model.fit(X, Y)
    model.set_params(bound=8).fit(X, Y)
    with pytest.raises(ValueError, match="reaches 79"):
        model.add(10 * X[[131]], Y[:1])
    assert np.isfinite(model.predict_proba(10 * X)).all()  # what is asked about may be anything
    for wrong in (
        {"norm": "l2"},
        {"bound": 0},
        {"bound": np.inf},
        {"bound": "large"},
        {"temperature": "best"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            kind(**{"norm": None, **wrong}).fit(X, Y)


@heads
@pytest.mark.parametrize("place", ["memory", "directory"])
@pytest.mark.parametrize("changes", [{"bound": 8.0}, {"norm": "unit"}], ids=str)
def test_a_scale_that_is_set_after_the_fit_waits_for_the_next(kind, place, changes, tmp_path):
    """Rows with two scales were mixed."""
    model = kind(norm=None, bound=64.0).fit(X[:120], Y[:120])
    if place == "directory":
        model.save(tmp_path / "model")
    model.set_params(**changes)
    model.add(X[120:], Y[120:])
    never = kind(norm=None, bound=64.0).fit(X, Y)
    assert model.predict_proba(X).tobytes() == never.predict_proba(X).tobytes()
    assert model.coef_.tobytes() == never.coef_.tobytes()
    model.fit(X, Y)
    assert model.coef_.tobytes() != never.coef_.tobytes()


@pytest.mark.parametrize(
    ("model", "named"),
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
def test_numbers_that_would_overflow_are_refused(model, named):
    with pytest.raises(ValueError, match=named):
        model.fit(X, Y)


@pytest.mark.parametrize(
    "model",
    [
        *(
            kind(temperature=bound)
            for kind in (ForgettingLDA, ForgettingNCM)
            for bound in (1e-6, 1e6)
        ),
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
    results = check_estimator(ForgettingLDA(norm=None, bound=1e4), on_skip=None, on_fail=None)
    others = {one["check_name"]: one["exception"] for one in results if one["status"] != "passed"}
    assert set(others) <= {"check_array_api_input"}, others


def test_classifiers_of_pictures_are_calibrated_too():
    pictures = GENERATOR.integers(0, 256, (24, 16, 16, 3), dtype=np.uint8)
    labels = np.arange(24) % 2
    before = MunkeyClassifier(family="lda", key_size=32, device="cpu").fit(pictures, labels)
    gone = before.forget(range(9))
    never = MunkeyClassifier(family="lda", key_size=32, device="cpu")
    never.fit(pictures[9:], labels[9:], ids=range(9, 24))
    assert len(gone) == 9
    assert before.predict_proba(pictures).tobytes() == never.predict_proba(pictures).tobytes()
    assert before._handle.model.manifest.settings["temperature"] == "auto"
