"""Metrics from logits (sec. 4): TA, RA, FA, MIA (percent), and pathway sensitivity P_s."""

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from scipy.special import logsumexp, rel_entr, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score

from munkey.core.diverged import DIVERGED, DivergedError, explain_divergence
from munkey.core.files import read_json, read_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.evaluation.records import Evaluation

RANDOM = ("stratified", "uniform")  # the samplings of forget sets in the paper
UNIT_SAMPLINGS = ("unit", "one-of-unit", "known", "relied-on")
EPSILON = 1e-8  # in P_s (sec. 3.2)
TOLERANCE = 1e-5  # for features and scores of attacks; smaller differences count as rounding errors


def compute_accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Compute the top-1 accuracy in percent.

    Raises
    ------
    ValueError
        If there are no samples.
    DivergedError
        If the logits are not finite.
    """
    if not len(labels):
        raise ValueError("accuracy of no samples")
    if not np.isfinite(logits).all():
        raise DivergedError("logits are not finite: the model diverged")
    return 100 * float(np.mean(logits.argmax(axis=1) == labels))


def compute_attack_features(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute loss, entropy, confidence and margin p1 - p2 of each sample, (N, 4) (sec. 4, MIA)."""
    log_p = logits.astype(np.float64)
    log_p = log_p - logsumexp(log_p, axis=1, keepdims=True)
    p = np.exp(log_p)
    sorted_p = np.sort(p, axis=1)
    loss = -log_p[np.arange(len(labels)), labels]
    entropy = -(p * log_p).sum(axis=1)
    confidence = sorted_p[:, -1]
    margin = sorted_p[:, -1] - sorted_p[:, -2]
    return np.stack([loss, entropy, confidence, margin], axis=1)


def measure_membership_inference(
    retain: np.ndarray,
    forget: np.ndarray,
    test: np.ndarray,
    test_labels: np.ndarray,
    generator: np.random.Generator,
) -> float:
    """Measure how well an attack distinguishes forget from test samples, 100 * AUROC (sec. 4, MIA).

    Test samples are split into halves, stratified by `test_labels`. The attack, a logistic
    regression, is fitted to distinguish retain samples (members) from one half, in equal numbers,
    and scored on forget samples and the other half. Then the halves swap, and both scores are
    averaged. This cross-fitting is our addition, so that the attack is never scored on samples that
    it was fitted to. Below 50, forget samples look less like members than test samples do.

    Parameters
    ----------
    retain, forget, test
        The features of the samples, as `compute_attack_features` returns them.
    """
    fits = cross_fit_attacks(retain, test, test_labels, generator)
    scores = [compute_auroc(score(forget), score(test[rows])) for score, rows in fits]
    return 100 * float(np.mean(scores))


def measure_membership_inference_by_class(
    retain: np.ndarray,
    forget: np.ndarray,
    test: np.ndarray,
    forget_labels: np.ndarray,
    test_labels: np.ndarray,
    generator: np.random.Generator,
) -> float:
    """Compute `measure_membership_inference` within each class, averaged by the class's share of forget.

    Otherwise, the attack could recognize a forget set that is mostly of one class by its class. A
    class without samples in one half of test is not scored there.
    """
    scores = []
    for score, rows in cross_fit_attacks(retain, test, test_labels, generator):
        forget_scores = score(forget)
        test_scores = score(test[rows])
        class_scores = []
        class_sizes = []
        for label in np.unique(forget_labels):
            class_forget_scores = forget_scores[forget_labels == label]
            class_test_scores = test_scores[test_labels[rows] == label]
            if len(class_test_scores):
                class_scores.append(compute_auroc(class_forget_scores, class_test_scores))
                class_sizes.append(len(class_forget_scores))
        scores.append(np.average(class_scores, weights=class_sizes))
    return 100 * float(np.mean(scores))


def cross_fit_attacks(
    retain: np.ndarray, test: np.ndarray, test_labels: np.ndarray, generator: np.random.Generator
) -> Iterator[tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]]:
    """Yield both attacks of `measure_membership_inference`, each with the test rows that it may score."""
    halves = StratifiedKFold(n_splits=2, shuffle=True, random_state=int(generator.integers(2**32)))
    for fit_rows, score_rows in halves.split(test, test_labels):
        size = min(len(fit_rows), len(retain))
        members = retain[generator.choice(len(retain), size=size, replace=False)]
        outsiders = test[generator.choice(fit_rows, size=size, replace=False)]
        yield fit_attack(members, outsiders), score_rows


def fit_attack(members: np.ndarray, outsiders: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Fit a logistic regression, and return its score function, which is higher for members.

    The function maps features (N, 4) to scores (N,).
    """
    features = np.concatenate([members, outsiders])
    is_member = np.repeat([1, 0], [len(members), len(outsiders)])
    mean = features.mean(axis=0)
    # Without TOLERANCE, standardizing a nearly constant feature would amplify rounding errors.
    scale = np.sqrt(features.var(axis=0) + TOLERANCE**2)
    attack = LogisticRegression(tol=1e-10, max_iter=1000)
    attack.fit((features - mean) / scale, is_member)

    def score(features: np.ndarray) -> np.ndarray:
        return np.asarray(attack.decision_function((features - mean) / scale))

    return score


def compute_auroc(positives: np.ndarray, negatives: np.ndarray) -> float:
    """Compute the AUROC: the share of pairs in which the positive has the higher score.

    Pairs whose scores differ by less than TOLERANCE count half.
    """
    sorted_negatives = np.sort(negatives)
    lower = np.searchsorted(sorted_negatives, positives - TOLERANCE, side="left")
    not_higher = np.searchsorted(sorted_negatives, positives + TOLERANCE, side="right")
    return float(np.mean(lower + not_higher) / (2 * len(sorted_negatives)))


def compute_rf_jsd(
    before: np.ndarray, unseen_labels: np.ndarray, after: np.ndarray, forget_labels: np.ndarray
) -> float:
    """Compute RF-JSD in nats, 0 to ln 2, which needs no oracle (Spartalis et al. 2025).

    For each class, it is the Jensen-Shannon divergence of two mean predictions: the original's on
    unseen samples, and the unlearned model's on forgotten samples. It is averaged over the classes
    that both have; NaN if there are none. Class means say little about single samples. The authors'
    code (`log_js_proxy`) swaps the arguments of both divergences, which makes them unbounded.

    Parameters
    ----------
    before
        The logits (N, C) of the original on unseen samples.
    after
        The logits (N, C) of the unlearned model on forgotten samples.
    """
    classes = np.intersect1d(unseen_labels, forget_labels)
    if not len(classes):
        return math.nan
    p = _average_probabilities(before, unseen_labels, classes)
    q = _average_probabilities(after, forget_labels, classes)
    mixture = (p + q) / 2
    divergences = (rel_entr(p, mixture) + rel_entr(q, mixture)).sum(axis=1) / 2  # of each class
    return float(divergences.mean())


def _average_probabilities(
    logits: np.ndarray, labels: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """Compute the mean probabilities of each class's samples, (number of classes, C)."""
    probabilities = softmax(logits.astype(float), axis=1)
    return np.stack([probabilities[labels == label].mean(axis=0) for label in classes])


def compute_pathway_sensitivity(image: float, token: float, both: float) -> float:
    """Compute P_s = |A_img - A_tok| / (A_both + epsilon) (eq. 3) from accuracies in percent."""
    return abs(image - token) / 100 / (both / 100 + EPSILON)


def measure_pathways(cut: Mapping[str, np.ndarray], labels: np.ndarray) -> dict[str, float]:
    """Measure A_image, A_token and A_both in percent, and P_s.

    Parameters
    ----------
    cut
        The logits of the memory's samples with only the image, only the token, and both.
    """
    accuracies = {}
    values = {}
    for name, logits in cut.items():
        accuracies[name] = compute_accuracy(logits, labels)
        values[f"A_{name}"] = accuracies[name]
    values["P_s"] = compute_pathway_sensitivity(**accuracies)
    return values


def compute_metrics(
    predictions: Mapping[str, np.ndarray],
    forget_ids: np.ndarray,
    generator: np.random.Generator,
    sampling: str = "stratified",
) -> dict[str, float]:
    """Compute all metrics of one system against one forget set.

    After requests that are not random, MIA is computed within classes, and FM compares the losses of
    forgotten samples with those of test samples. If whole classes or units are forgotten, FTA is the
    accuracy on their test samples, and RTA is that on all other test samples.

    Parameters
    ----------
    predictions
        The ids, labels, splits and logits of every sample, and units if the data set has them; for
        MUNKEY also memory_ids, memory_labels, image_logits, token_logits and both_logits of the
        memory's samples.

    Raises
    ------
    KeyError
        If the forget set has samples that are not in the training split.
    """
    ids = predictions["ids"]
    labels = predictions["labels"]
    splits = predictions["splits"]
    logits = predictions["logits"]
    forget = np.isin(ids, forget_ids)
    train = splits == "train"
    val = splits == "val"
    test = splits == "test"
    retain = train & ~forget
    if (forget & train).sum() != len(forget_ids):
        raise KeyError("the forget set has samples that are not in the training split")
    is_random = sampling in RANDOM
    features = compute_attack_features(logits, labels)
    parts = (features[retain], features[forget], features[test])
    metrics = {
        "TA": compute_accuracy(logits[test], labels[test]),
        "RA": compute_accuracy(logits[retain], labels[retain]),
        "FA": compute_accuracy(logits[forget], labels[forget]),
    }
    if is_random:
        metrics["MIA"] = measure_membership_inference(*parts, labels[test], generator)
    else:
        metrics["MIA"] = measure_membership_inference_by_class(
            *parts, labels[forget], labels[test], generator
        )
    metrics["VA"] = compute_accuracy(logits[val], labels[val])
    metrics["tested"] = float(test.sum())  # the sample size of TA, for its interval
    if not is_random:
        metrics["forgotten"] = float(forget.sum())
        forget_loss = features[forget, 0]
        test_loss = features[test, 0]
        metrics["FM"] = 100 * compute_auroc(-forget_loss, -test_loss)
        is_forgotten = np.isin(labels, find_emptied_classes(labels, forget, retain))  # by class
        if (test & is_forgotten).sum() > 1:
            metrics["probe"] = fit_probe(logits[test], is_forgotten[test], generator)
        elif sampling in UNIT_SAMPLINGS and "units" in predictions:
            units = predictions["units"]
            is_forgotten = np.isin(units, np.setdiff1d(units[forget], [""]))
        forgotten_test = test & is_forgotten
        other_test = test & ~is_forgotten
        if forgotten_test.any():
            metrics["FTA"] = compute_accuracy(logits[forgotten_test], labels[forgotten_test])
            metrics["RTA"] = compute_accuracy(logits[other_test], labels[other_test])
    if "memory_ids" in predictions:
        cut = {name: predictions[f"{name}_logits"] for name in ("image", "token", "both")}
        metrics |= measure_pathways(cut, predictions["memory_labels"])
    return metrics


def fit_probe(
    logits: np.ndarray, is_forgotten: np.ndarray, generator: np.random.Generator
) -> float:
    """Measure how well a linear probe distinguishes a forgotten class from all others, in percent.

    It is the balanced accuracy of a logistic regression on the logits (N, C) of test samples, in
    two-fold cross-validation; 50 is chance. It detects information on the class in all logits, not
    only in the class's own.

    Parameters
    ----------
    is_forgotten
        Whether each sample belongs to the forgotten class, (N,) bool.
    """
    halves = StratifiedKFold(n_splits=2, shuffle=True, random_state=int(generator.integers(2**32)))
    scaled = (logits - logits.mean(axis=0)) / (logits.std(axis=0) + EPSILON)
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    scores = cross_val_score(model, scaled, is_forgotten, cv=halves, scoring="balanced_accuracy")
    return 100 * float(scores.mean())


def find_emptied_classes(labels: np.ndarray, forget: np.ndarray, retain: np.ndarray) -> np.ndarray:
    """Find the classes without retained samples.

    Parameters
    ----------
    labels
        The labels (N,) of all samples.
    forget, retain
        Whether each sample is in the forget or the retain set, (N,) bool.
    """
    return np.setdiff1d(labels[forget], labels[retain])


def switch_off_classes(
    predictions: Mapping[str, np.ndarray],
    forget_ids: np.ndarray,
) -> dict[str, np.ndarray] | None:
    """Switch off the outputs of emptied classes in predictions. Returns None without such classes.

    A deployment may do so, but it is only a policy, since the weights still know the class.
    """
    forget = np.isin(predictions["ids"], forget_ids)
    retain = (predictions["splits"] == "train") & ~forget
    classes = find_emptied_classes(predictions["labels"], forget, retain)
    if not len(classes):
        return None
    logits = predictions["logits"].copy()
    logits[:, classes] = logits.min() - 100
    switched_predictions = {**predictions, "logits": logits}
    # Without memory_ids, no pathway sensitivity is computed.
    switched_predictions.pop("memory_ids", None)
    return switched_predictions


def make_metric_rows(run: Evaluation, original: str | None = None) -> list[dict[str, object]]:
    """Compute the metrics of a system, as rows with the key, metric and value.

    If a whole class is forgotten, there are also rows of METHOD-off, the same system with the
    outputs of that class switched off. A system that diverged has a single row: the metric
    `diverged` with value 1, and as `why` the reason and the log.

    Parameters
    ----------
    original
        The file of the original's logits, for RF-JSD; None for a system that is not unlearned.
    """
    predictions = read_npz(run.logits)
    forget_ids = forget_sets.read(run.forget)
    variants = {run.method: predictions}
    if run.sampling not in RANDOM:
        switched_predictions = switch_off_classes(predictions, forget_ids)
        if switched_predictions:
            variants[f"{run.method}-off"] = switched_predictions
    why = explain_divergence(predictions)
    if why:
        reason = {"metric": DIVERGED, "value": 1.0, "why": why}
        return [run.key | {"method": name} | reason for name in variants]
    before = read_npz(original) if original else None
    rows = []
    for name, variant in variants.items():
        for row in _make_variant_rows(run, variant, forget_ids, before):
            rows.append(row | {"method": name})
    return rows


def _make_variant_rows(
    run: Evaluation,
    predictions: Mapping[str, np.ndarray],
    forget_ids: np.ndarray,
    before: Mapping[str, np.ndarray] | None,
) -> list[dict[str, object]]:
    """Compute the metric rows of a system, or of its variant with outputs switched off."""
    generator = Stage(run.seed, run.dataset, "attack", run.rate).numpy_generator()
    metrics = compute_metrics(predictions, forget_ids, generator, run.sampling)
    if before is not None:
        unseen = before["splits"] == "test"
        forget = np.isin(predictions["ids"], forget_ids)
        metrics["RF-JSD"] = compute_rf_jsd(
            before["logits"][unseen],
            before["labels"][unseen],
            predictions["logits"][forget],
            predictions["labels"][forget],
        )
    record = read_json(run.record)
    training = read_json(run.training)
    for name in ("unlearn_s", "search_s", "cpu_s"):
        if name in record:
            metrics[name] = record[name]
    facts = record.get("facts", {})
    if "budget" in facts:  # of a certified method
        for name in ("budget", "delta", "epsilon"):
            metrics[name] = facts[name]
    if "train_epoch_s" in training:
        metrics["train_epoch_s"] = training["train_epoch_s"]
        # A closed-form family is fitted in one step, and has no epochs.
        epoch_seconds = sum(epoch["seconds"] for epoch in training["history"])
        metrics["train_s"] = epoch_seconds or training["train_epoch_s"]
    return [run.key | {"metric": metric, "value": value} for metric, value in metrics.items()]
