"""Attacks that know one model and no other: forget samples against test samples, with intervals.

The weakest attacks, and the only ones that the main run's logits allow. Around 50 they prove little: a sample's own
difficulty hides what the model remembers of it.
"""

import numpy as np

from munkey.audits.evidence import Answers
from munkey.audits.margins import margins
from munkey.audits.registry import audit
from munkey.audits.roc import Attack, Ranking, Rates, redraw, with_intervals


@audit(
    "loss",
    title="Loss",
    needs="logits",
    definition="the lower the loss, the likelier a member",
    source="Yeom et al. 2018",
)
def loss(answers: Answers, generator: np.random.Generator) -> Attack:
    """Ranked by phi, which has the order of the loss and still tells losses near 0 apart."""
    phi = margins(answers.logits, answers.labels)
    return population([phi], [np.flatnonzero(answers.test)], answers, generator)


@audit(
    "margin",
    title="Margin",
    needs="logits",
    definition="the larger the gap between the two likeliest classes, the likelier a member; needs no label",
    source="Salem et al. 2019",
)
def margin(answers: Answers, generator: np.random.Generator) -> Attack:
    from munkey.evaluation.metrics import attack_features

    gap = attack_features(answers.logits, answers.labels)[:, 3]
    return population([gap], [np.flatnonzero(answers.test)], answers, generator)


@audit(
    "logistic",
    title="Logistic (the paper's MIA)",
    needs="logits",
    definition="logistic regression on loss, entropy, confidence and margin, fitted to retain against half of test",
    source="the paper's MIA (sec. 4), with an interval",
)
def logistic(answers: Answers, generator: np.random.Generator) -> Attack:
    """As the metric MIA: each half of test is scored by the attack that is fitted to the other half."""
    from munkey.evaluation.metrics import attack_features, cross_fits

    features, test = attack_features(answers.logits, answers.labels), np.flatnonzero(answers.test)
    fits = list(cross_fits(features[answers.retain], features[test], answers.labels[test], generator))
    scores, scored = [score(features) for score, _ in fits], [test[rows] for _, rows in fits]
    return population(scores, scored, answers, generator)


def population(
    scores: list[np.ndarray], negatives: list[np.ndarray], answers: Answers, generator: np.random.Generator
) -> Attack:
    """Forget samples against `negatives` (rows), by scores (N,); the mean over the parts of a cross-fit.

    Intervals: bootstrap over forget samples, and over the negatives of each part.
    """
    rankings = [Ranking(score[answers.forget], score[rows]) for score, rows in zip(scores, negatives, strict=True)]

    def redrawn() -> Rates:
        forget = redraw(int(answers.forget.sum()), generator)
        counted = [redraw(len(rows), generator) for rows in negatives]
        return mean([ranking.rates(forget, each) for ranking, each in zip(rankings, counted, strict=True)])

    return with_intervals(mean([each.rates() for each in rankings]), redrawn, min(map(len, negatives)))


def mean(rates: list[Rates]) -> Rates:
    return Rates(*np.mean([[each.auroc, each.tpr_1, each.tpr_5] for each in rates], axis=0).tolist())
