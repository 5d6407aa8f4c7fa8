"""Attacks with the answers of one model: forget samples against test samples, with intervals.

These are the weakest attacks, but all that the logits of the main run allow. An AUROC near 50
proves little, since how hard a sample is hides how much the model remembers of it.
"""

from dataclasses import astuple

import numpy as np

from munkey.audits.evidence import Answers
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
def loss(answers: Answers, generator: np.random.Generator) -> Attack:
    """Attack by phi, which has the order of the loss and resolves losses near 0."""
    phi = compute_margins(answers.logits, answers.labels)
    return attack_population([phi], [np.flatnonzero(answers.test)], answers, generator)


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
def margin(answers: Answers, generator: np.random.Generator) -> Attack:
    from munkey.evaluation.metrics import compute_attack_features

    gap = compute_attack_features(answers.logits, answers.labels)[:, 3]  # p1 - p2
    return attack_population([gap], [np.flatnonzero(answers.test)], answers, generator)


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
def logistic(answers: Answers, generator: np.random.Generator) -> Attack:
    """Attack as the metric MIA does: fitted to one half of test, it scores the other half."""
    from munkey.evaluation.metrics import compute_attack_features, cross_fit_attacks

    features = compute_attack_features(answers.logits, answers.labels)
    test = np.flatnonzero(answers.test)
    fits = cross_fit_attacks(
        features[answers.retain], features[test], answers.labels[test], generator
    )
    scores = []
    negatives = []
    for score, rows in fits:
        scores.append(score(features))
        negatives.append(test[rows])
    return attack_population(scores, negatives, answers, generator)


def attack_population(
    scores: list[np.ndarray],
    negatives: list[np.ndarray],
    answers: Answers,
    generator: np.random.Generator,
) -> Attack:
    """Attack forget samples against test samples. Rates are averaged over the parts of a cross-fit.

    Intervals are from a bootstrap over forget samples, and over the negatives of each part.

    Parameters
    ----------
    scores
        The scores (N,) of all samples, for each part.
    negatives
        The positions of the test samples of each part.
    """
    rankings = []
    for score, rows in zip(scores, negatives, strict=True):
        rankings.append(Ranking(score[answers.forget], score[rows]))

    def redraw_rates() -> Rates:
        forget_weights = redraw(int(answers.forget.sum()), generator)
        # The weights of all parts are drawn before any rate is computed, in this order.
        part_weights = [redraw(len(rows), generator) for rows in negatives]
        part_rates = []
        for ranking, weights in zip(rankings, part_weights, strict=True):
            part_rates.append(ranking.compute_rates(forget_weights, weights))
        return average_rates(part_rates)

    rates = average_rates([ranking.compute_rates() for ranking in rankings])
    return bootstrap_intervals(rates, redraw_rates, min(len(rows) for rows in negatives))


def average_rates(rates: list[Rates]) -> Rates:
    """Return the mean rates over the parts of a cross-fit."""
    return Rates(*np.mean([astuple(part) for part in rates], axis=0).tolist())
