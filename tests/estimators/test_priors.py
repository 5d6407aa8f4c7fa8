"""Prior probabilities of LDA's classes."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from munkey import ForgettingLDA, Predictor
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model.fitted import list_fixed_constants
from munkey.deploy.model.manifest import read_manifest
from tests.estimators.inputs import check_scikit_learn, each_place, put

IRIS, SPECIES = load_iris(return_X_y=True)
SUBSET = np.r_[0:50, 50:70, 100:110]  # 50, 20 and 10 rows of the classes
X = IRIS[SUBSET]
NAMES = np.array(["setosa", "versicolor", "virginica"])
Y = NAMES[SPECIES[SUBSET]]
PRIORS = [0.25, 0.25, 0.5]
each_prior = pytest.mark.parametrize("priors", ["balanced", PRIORS], ids=["balanced", "array"])


def bits(model):
    """Everything that depends on the priors."""
    arrays = [
        model.priors_,
        model.coef_,
        model.intercept_,
        model.predict_log_proba(IRIS),
        model.decision_function(IRIS),
    ]
    return [model.alpha_, model.temperature_, *(array.tobytes() for array in arrays)]


def test_the_intercept_takes_the_log_of_the_priors_instead_of_the_shares():
    usual = ForgettingLDA(norm=None, temperature=2.0).fit(X, Y)
    model = ForgettingLDA(norm=None, temperature=2.0, priors=PRIORS).fit(X, Y)
    np.testing.assert_allclose(usual.priors_, [5 / 8, 2 / 8, 1 / 8], rtol=1e-15)
    np.testing.assert_array_equal(model.coef_, usual.coef_)
    np.testing.assert_allclose(
        model.intercept_ - usual.intercept_, np.log([2 / 5, 1, 4]) / 2, rtol=1e-12
    )


def test_priors_move_answers_as_in_scikit_learn():
    ours = ForgettingLDA(norm=None, temperature=1.0)
    theirs = LinearDiscriminantAnalysis()
    moves = []
    for kind, factor in ((ours, 3), (theirs, 1)):  # only ours need not sum to 1
        usual = clone(kind).fit(X, Y).decision_function(X)
        kind.set_params(priors=factor * np.array(PRIORS)).fit(X, Y)
        moved = kind.decision_function(X) - usual
        moves.append(moved - moved[:, :1])
    np.testing.assert_allclose(ours.priors_, theirs.priors_, rtol=1e-15)
    np.testing.assert_allclose(*moves, atol=1e-4)


@each_prior
@pytest.mark.parametrize("alpha", [0.2, "auto"])
def test_any_change_leaves_the_bytes_of_a_fit_on_the_rest_in_memory_and_on_disk(
    priors, alpha, tmp_path
):
    """Also where a class goes with its last row, whose prior goes too."""
    model = ForgettingLDA(alpha, norm=None, priors=priors).fit(X[5:], Y[5:], ids=range(5, 80))
    reversed_rows = ForgettingLDA(alpha, norm=None, priors=priors)
    reversed_rows.fit(X[5:][::-1], Y[5:][::-1], ids=range(79, 4, -1))
    reversed_rows.save(tmp_path / "model")
    saved = ForgettingLDA.load(tmp_path / "model")
    assert saved.get_params() == model.get_params()
    first_ids = np.random.default_rng(0).permutation(np.arange(5, 70))[:30]
    steps = [
        lambda one: one.forget(first_ids),
        lambda one: one.add(X[:5], Y[:5], ids=range(100, 105)),
        lambda one: one.forget(labels="versicolor"),
        lambda one: one.forget([75]),
    ]
    for step in steps:
        step(model)
        step(saved)
        rows = np.where(model.ids_ < 100, model.ids_, model.ids_ - 100)
        remaining_priors = priors
        if priors is PRIORS:
            remaining_priors = np.array(PRIORS)[np.isin(NAMES, Y[rows])].tolist()
        never = ForgettingLDA(alpha, norm=None, priors=remaining_priors)
        never.fit(X[rows], Y[rows], ids=model.ids_)
        loaded = ForgettingLDA.load(tmp_path / "model")
        for other in (model, saved, loaded):
            assert bits(other) == bits(never)
        assert loaded.get_params() == never.get_params()  # so that its clone can be fitted
        with Predictor.load(tmp_path / "model") as served:
            answer = served.predict(IRIS)
            columns = [answer.names.index(name) for name in never.classes_ if name in answer.names]
            np.testing.assert_allclose(
                answer.probabilities[:, columns], never.predict_proba(IRIS), atol=1e-5
            )
            assert served.verify().sound
    assert model.classes_.tolist() == ["setosa", "virginica"]
    model.save(tmp_path / "again")
    assert bits(ForgettingLDA.load(tmp_path / "again")) == bits(never)


def test_served_answers_take_the_priors(tmp_path):
    usual = ForgettingLDA(norm=None, temperature=1.0).fit(X, Y)
    usual.save(tmp_path / "usual")
    ForgettingLDA(norm=None, temperature=1.0, priors=PRIORS).fit(X, Y).save(tmp_path / "model")
    logits = {}
    for name in ("usual", "model"):
        with Predictor.load(tmp_path / name) as served:
            logits[name] = served.predict(X).logits
    moved = logits["model"] - logits["usual"]
    np.testing.assert_allclose(moved, np.tile(np.log([2 / 5, 1, 4]), (80, 1)), atol=1e-4)


def test_auto_weighs_rows_as_the_priors_do():
    """As if each row were there as often as its class is meant to occur."""
    rows = np.arange(70)
    repeated_rows = np.r_[np.repeat(np.arange(50), 2), np.repeat(np.arange(50, 70), 5)]
    weighed = ForgettingLDA(norm=None, priors="balanced").fit(X[rows], Y[rows])
    usual = ForgettingLDA(norm=None).fit(X[rows], Y[rows])
    repeated = ForgettingLDA(norm=None).fit(X[repeated_rows], Y[repeated_rows])
    np.testing.assert_allclose(weighed.priors_, [0.5, 0.5])
    weighed_difference = abs(np.log(weighed.temperature_ / repeated.temperature_))
    usual_difference = abs(np.log(usual.temperature_ / repeated.temperature_))
    assert weighed_difference < usual_difference


@each_place
def test_a_class_without_a_prior_is_refused_and_nothing_changes(place, tmp_path):
    model = ForgettingLDA(norm=None, priors=PRIORS).fit(X, Y)
    put(model, place, tmp_path)
    before = bits(model)
    with pytest.raises(ValueError, match="lutea"):
        model.add(X[:2], ["lutea", "setosa"])
    assert bits(model) == before
    model.forget(labels="virginica")
    # Its prior went with its last row.
    with pytest.raises(ValueError, match=r"given for \['setosa', 'versicolor'\]"):
        model.add(X[-1:], ["virginica"])
    np.testing.assert_allclose(model.priors_, [0.5, 0.5])


@each_place
def test_balanced_priors_take_new_classes_and_those_of_the_next_fit_wait_for_it(place, tmp_path):
    model = ForgettingLDA(norm=None, priors="balanced").fit(X[:70], Y[:70])
    put(model, place, tmp_path)
    model.set_params(priors=[1.0, 2.0])
    model.add(X[70:], Y[70:])
    assert bits(model) == bits(ForgettingLDA(norm=None, priors="balanced").fit(X, Y))
    np.testing.assert_allclose(model.priors_, np.full(3, 1 / 3))


@pytest.mark.parametrize(
    ("priors", "reason"),
    [
        ([0.5, 0.5], "2 numbers for 3 classes"),
        (np.ones(4), "4 numbers for 3 classes"),
        ([0.5, 0.5, 0.0], "positive numbers"),
        ([0.5, 0.7, -0.2], "positive numbers"),
        ([0.5, 0.5, np.nan], "positive numbers"),
        ("uniform", "priors"),
        ({"setosa": 1, "versicolor": 1, "virginica": 1}, "not a dict"),
    ],
    ids=str,
)
def test_faulty_priors_are_refused(priors, reason):
    with pytest.raises(ValueError, match=reason):
        ForgettingLDA(norm=None, priors=priors).fit(X, Y)


def test_an_array_is_a_constant_that_deletions_keep(tmp_path):
    constants = {}
    for number, priors in enumerate([None, "balanced", np.array(PRIORS)]):
        model = ForgettingLDA("auto", norm=None, priors=priors)
        clone(model).fit(X, Y).save(tmp_path / str(number))
        constants[number] = list_fixed_constants(read_manifest(tmp_path / str(number)))
    assert constants == {0: ["bound"], 1: ["bound"], 2: ["priors", "bound"]}


def test_a_directory_with_too_few_priors_is_damaged(tmp_path):
    ForgettingLDA(norm=None, priors=PRIORS).fit(X, Y).save(tmp_path / "model")
    manifest = read_manifest(tmp_path / "model")
    settings = {**manifest.settings, "priors": PRIORS[:2]}
    manifest.model_copy(update={"settings": settings}).write(tmp_path / "model")
    with pytest.raises(UnreadableModelError):
        ForgettingLDA.load(tmp_path / "model")
    with Predictor.load(tmp_path / "model") as served, pytest.raises(UnreadableModelError):
        served.predict(X)


@pytest.mark.filterwarnings("ignore")  # of scikit-learn's own data
def test_scikit_learns_checks_pass():
    check_scikit_learn(ForgettingLDA(priors="balanced"))
