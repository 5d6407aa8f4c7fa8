"""Attacks on one model: by hand, and where test is too small."""

import numpy as np
import pytest

from munkey.audits.attacks.population import attack_population, logistic, loss, margin
from munkey.audits.evidence import Predictions
from munkey.audits.margins import compute_margins
from munkey.audits.registry import Estimate, NoFinding
from munkey.evaluation.metrics import (
    compute_attack_features,
    compute_auroc,
    measure_membership_inference,
)


def answers(forget_shift=0.0, retain_shift=2.0, test=240, seed=0):
    """Of 3 classes: 200 retain samples, 100 forget samples, `test` test samples, 10 others."""
    random = np.random.default_rng(seed)
    number = np.arange(310 + test)
    labels = number % 3
    shift = np.where(number < 200, retain_shift, np.where(number < 300, forget_shift, 0.0))
    logits = random.normal(size=(len(number), 3)) + (1 + shift)[:, None] * np.eye(3)[labels]
    parts = number < 200, (number >= 200) & (number < 300), (number >= 300) & (number < 300 + test)
    return Predictions(logits.astype(np.float32), labels, *parts)


def test_loss_by_hand():
    """Two forget samples of loss log 1.5 and log 3 against test samples of log 2 and log 4: 3 of 4 are lower."""
    p = np.array([2 / 3, 1 / 3, 1 / 2, 1 / 4])
    logits = np.log(np.stack([p, 1 - p], axis=1))
    forget = np.array([1, 1, 0, 0], bool)
    test = np.array([0, 0, 1, 1], bool)
    predictions = Predictions(logits, np.zeros(4, int), np.zeros(4, bool), forget, test)
    assert loss(predictions, np.random.default_rng(0)).auroc.value == pytest.approx(75)


def test_margin_is_the_gap_between_the_two_likeliest_classes_and_needs_no_label():
    p = np.array([[0.6, 0.3, 0.1], [0.1, 0.5, 0.4], [0.2, 0.2, 0.6], [0.45, 0.45, 0.1]])
    forget = np.array([1, 1, 0, 0], bool)
    test = np.array([0, 0, 1, 1], bool)
    for labels in (np.zeros(4, int), np.full(4, 2)):
        predictions = Predictions(np.log(p), labels, np.zeros(4, bool), forget, test)
        # 0.3, 0.1 against 0.4, 0
        assert margin(predictions, np.random.default_rng(0)).auroc.value == pytest.approx(50)


@pytest.mark.parametrize("attack", [loss, margin, logistic])
def test_members_are_found_and_other_samples_are_at_50(attack):
    member = attack(answers(forget_shift=2.0), np.random.default_rng(0))
    assert member.auroc.low > 60
    stranger = attack(answers(forget_shift=0.0), np.random.default_rng(0))
    assert stranger.auroc.low < 50 < stranger.auroc.high


def test_forget_samples_are_compared_with_all_test_samples_and_no_others():
    predictions = answers(forget_shift=1.0)
    phi = compute_margins(predictions.logits, predictions.labels)
    expected = compute_auroc(phi[200:300], phi[300:540])
    assert loss(predictions, np.random.default_rng(0)).auroc.value == pytest.approx(
        100 * expected, abs=1e-6
    )


def test_the_logistic_attack_is_the_metric_with_an_interval():
    """The same split and the same draws: the metric's own number."""
    predictions = answers(forget_shift=1.0)
    features = compute_attack_features(predictions.logits, predictions.labels)
    expected = measure_membership_inference(
        features[predictions.retain],
        features[predictions.forget],
        features[predictions.test],
        predictions.labels[predictions.test],
        np.random.default_rng(3),
    )
    result = logistic(predictions, np.random.default_rng(3))
    assert result.auroc.value == pytest.approx(expected, abs=0.02)
    assert result.auroc.low < expected < result.auroc.high


def test_the_logistic_attack_scores_no_sample_that_it_was_fitted_to(monkeypatch):
    predictions = answers()
    fed = []
    monkeypatch.setattr(
        "munkey.evaluation.metrics.compute_attack_features",
        lambda logits, _: np.arange(len(logits), dtype=float)[:, None],
    )
    monkeypatch.setattr(
        "munkey.evaluation.metrics.fit_attack",
        lambda members, outsiders: (
            fed.append((members, outsiders)) or (lambda features: features[:, 0])
        ),
    )
    rows_of_attacks = []
    monkeypatch.setattr(
        "munkey.audits.attacks.population.attack_population",
        lambda scores, rows, *_: rows_of_attacks.append(rows),
    )
    logistic(predictions, np.random.default_rng(0))
    for (members, outsiders), scored in zip(fed, rows_of_attacks[0], strict=True):
        assert set(outsiders[:, 0]).isdisjoint(scored)
        assert set(members[:, 0]) <= set(range(200))
        assert len(members) == len(outsiders) == 120
    assert sorted(np.concatenate(rows_of_attacks[0])) == list(range(300, 540))


@pytest.mark.parametrize(
    ("attack", "test", "refused"), [(loss, 99, True), (loss, 100, False), (logistic, 198, True)]
)
def test_a_rate_at_1_percent_is_refused_where_test_is_too_small(attack, test, refused):
    result = attack(answers(test=test), np.random.default_rng(0))
    assert isinstance(result.tpr_1, NoFinding if refused else Estimate)
    assert isinstance(result.tpr_5, Estimate)
    if refused:
        assert result.tpr_1.why.endswith("100 are needed")


def test_the_aurocs_of_a_cross_fit_are_averaged():
    predictions = answers(test=2)
    forget = np.flatnonzero(predictions.forget)
    test = np.flatnonzero(predictions.test)
    high, low = np.zeros((2, len(predictions.labels)))
    high[forget] = 1
    low[test] = 1
    result = attack_population(
        [high, low], [test[:1], test[1:]], predictions, np.random.default_rng(0)
    )
    assert result.auroc.value == 50
