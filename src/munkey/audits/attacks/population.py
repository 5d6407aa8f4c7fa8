"""Attacks on the predictions of a single model, which separate forget samples from test samples.

These are the weakest attacks, but the only ones that the main run's logits allow. An AUROC near 50
proves little, because the difficulty of a sample masks how well the model remembers it.
"""

from dataclasses import astuple

import numpy as np

from munkey.audits.evidence import Predictions
from munkey.audits.margins import compute_margins
from munkey.audits.registry import audit
from munkey.audits.roc import Attack, Ranking, Rates, bootstrap_intervals, redraw


@audit(
    "loss",
    title="Loss",
    needs="logits",
    definition="the lower the loss, the likelier a member",
    source="Yeom et al. 2018",
)
def loss(predictions: Predictions, generator: np.random.Generator) -> Attack:
    """Score samples by their margin, which ranks them like the loss but resolves losses near 0."""
    phi = compute_margins(predictions.logits, predictions.labels)
    return attack_population([phi], [np.flatnonzero(predictions.test)], predictions, generator)


@audit(
    "margin",
    title="Margin",
    needs="logits",
    definition=(
        "the larger the gap between the two likeliest classes, the likelier a member; needs no"
        " label"
    ),
    source="Salem et al. 2019",
)
def margin(predictions: Predictions, generator: np.random.Generator) -> Attack:
    """Score samples by the probability of the likeliest class minus that of the second."""
    from munkey.evaluation.metrics import compute_attack_features

    gap = compute_attack_features(predictions.logits, predictions.labels)[:, 3]
    return attack_population([gap], [np.flatnonzero(predictions.test)], predictions, generator)


@audit(
    "logistic",
    title="Logistic (the paper's MIA)",
    needs="logits",
    definition=(
        "logistic regression on loss, entropy, confidence and margin, fitted to retain against"
        " half of test"
    ),
    source="the paper (sec. 4); interval: ours",
)
def logistic(predictions: Predictions, generator: np.random.Generator) -> Attack:
    """Attack like the metric MIA: fit to one half of the test set, score the other, and swap."""
    from munkey.evaluation.metrics import compute_attack_features, cross_fit_attacks

    features = compute_attack_features(predictions.logits, predictions.labels)
    test = np.flatnonzero(predictions.test)
    fits = cross_fit_attacks(
        features[predictions.retain], features[test], predictions.labels[test], generator
    )
    scores = []
    negatives = []
    for score_samples, rows in fits:
        scores.append(score_samples(features))
        negatives.append(test[rows])
    return attack_population(scores, negatives, predictions, generator)


def attack_population(
    scores: list[np.ndarray],
    negatives: list[np.ndarray],
    predictions: Predictions,
    generator: np.random.Generator,
) -> Attack:
    """Measure how well scores separate forget samples (positives) from test samples (negatives).

    Rates are averaged over the folds of a cross-fit. Intervals come from a bootstrap over forget
    samples and over each fold's negatives.

    Parameters
    ----------
    scores
        For each fold, the scores (N,) of all samples, higher for likely members.
    negatives
        For each fold, the positions of its test samples.
    """
    rankings = []
    for score, rows in zip(scores, negatives, strict=True):
        rankings.append(Ranking(score[predictions.forget], score[rows]))

    def redraw_rates() -> Rates:
        forget_weights = redraw(int(predictions.forget.sum()), generator)
        # The results depend on the order of the draws: first forget samples, then each fold.
        fold_weights = [redraw(len(rows), generator) for rows in negatives]
        fold_rates = []
        for ranking, weights in zip(rankings, fold_weights, strict=True):
            fold_rates.append(ranking.compute_rates(forget_weights, weights))
        return average_rates(fold_rates)

    rates = average_rates([ranking.compute_rates() for ranking in rankings])
    return bootstrap_intervals(rates, redraw_rates, min(len(rows) for rows in negatives))


def average_rates(rates: list[Rates]) -> Rates:
    """Average rates over the folds of a cross-fit."""
    return Rates(*np.mean([astuple(fold) for fold in rates], axis=0).tolist())
