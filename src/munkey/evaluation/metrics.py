"""Metrics computed from logits (sec. 4), such as TA, RA, FA, MIA, and pathway sensitivity P_s."""

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

RANDOM = ("stratified", "uniform")  # random samplings of forget sets, as in the paper
# Samplings of forget sets that depend on units, such as persons.
UNIT_SAMPLINGS = ("unit", "one-of-unit", "known", "relied-on")
EPSILON = 1e-8  # the epsilon in the definition of P_s (eq. 3)
# Differences of at most this size between attack features or scores are rounding errors.
ROUNDING_ERROR = 1e-5


def compute_accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the top-1 accuracy in percent.

    Raises ValueError if there are no samples, and DivergedError if any logit is not finite.
    """
    if not len(labels):
        raise ValueError("cannot compute the accuracy of zero samples")
    if not np.isfinite(logits).all():
        raise DivergedError("logits are not finite: the model diverged")
    return 100 * float(np.mean(logits.argmax(axis=1) == labels))


def compute_attack_features(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the MIA features (N, 4): loss, entropy, confidence, and margin p1 - p2 (sec. 4)."""
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
    """Return the MIA, 100 times the AUROC of an attack on forget against test samples (sec. 4).

    The test samples are split into two halves, stratified by label. A logistic regression is fitted
    to separate equally many retain samples (members) from one half, and is scored on forget samples
    against the other half. The scores of both roles are averaged [ours]. Below 50, forget samples
    look less like members than test samples do.

    Parameters
    ----------
    retain, forget, test
        The features (N, 4) of the samples, from `compute_attack_features`.
    test_labels
        The labels (N,) of the test samples.
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
    """Return the MIA of `measure_membership_inference`, scored within each class.

    Otherwise, the attack could recognize a forget set of mostly one class by that class. Classes
    are weighted by their forget samples; a half without test samples of a class skips it.
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
        if class_scores:
            scores.append(np.average(class_scores, weights=class_sizes))
    return 100 * float(np.mean(scores))


def cross_fit_attacks(
    retain: np.ndarray, test: np.ndarray, test_labels: np.ndarray, generator: np.random.Generator
) -> Iterator[tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]]:
    """Yield the two attacks of `measure_membership_inference`, one for each half of the test set.

    An attack maps features (N, 4) to scores (N,). It comes with the indices of the other half.
    """
    halves = StratifiedKFold(n_splits=2, shuffle=True, random_state=int(generator.integers(2**32)))
    for fit_rows, score_rows in halves.split(test, test_labels):
        size = min(len(fit_rows), len(retain))
        members = retain[generator.choice(len(retain), size=size, replace=False)]
        outsiders = test[generator.choice(fit_rows, size=size, replace=False)]
        yield fit_attack(members, outsiders), score_rows


def fit_attack(members: np.ndarray, outsiders: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Fit a logistic regression that separates members (N, 4) from outsiders (M, 4).

    Returns a function from features (N, 4) to scores (N,), higher for likely members.
    """
    features = np.concatenate([members, outsiders])
    is_member = np.repeat([1, 0], [len(members), len(outsiders)])
    mean = features.mean(axis=0)
    # Without the last term, a nearly constant feature would have its rounding errors amplified.
    scale = np.sqrt(features.var(axis=0) + ROUNDING_ERROR**2)
    attack = LogisticRegression(tol=1e-10, max_iter=1000)
    attack.fit((features - mean) / scale, is_member)

    def score_samples(sample_features: np.ndarray) -> np.ndarray:
        return np.asarray(attack.decision_function((sample_features - mean) / scale))

    return score_samples


def compute_auroc(positives: np.ndarray, negatives: np.ndarray) -> float:
    """Return the share of (positive, negative) pairs in which the positive scores higher.

    Ties, up to ROUNDING_ERROR, count half.
    """
    sorted_negatives = np.sort(negatives)
    lower = np.searchsorted(sorted_negatives, positives - ROUNDING_ERROR, side="left")
    not_higher = np.searchsorted(sorted_negatives, positives + ROUNDING_ERROR, side="right")
    return float(np.mean(lower + not_higher) / (2 * len(sorted_negatives)))


def compute_rf_jsd(
    before: np.ndarray, unseen_labels: np.ndarray, after: np.ndarray, forget_labels: np.ndarray
) -> float:
    """Return RF-JSD in nats, between 0 and ln 2 (Spartalis et al. 2025). It needs no oracle.

    For each class: the Jensen-Shannon divergence between the original's mean prediction for unseen
    samples and the unlearned model's for forgotten samples. The result is the mean over classes in
    both sets, or NaN. The authors' code (`log_js_proxy`) swaps the arguments of both KL
    divergences, which makes them unbounded.

    Parameters
    ----------
    before
        The logits (N, C) of the original for unseen samples.
    after
        The logits (N, C) of the unlearned model for forgotten samples.
    unseen_labels, forget_labels
        The labels (N,) of these samples.
    """
    classes = np.intersect1d(unseen_labels, forget_labels)
    if not len(classes):
        return math.nan
    p = _average_probabilities(before, unseen_labels, classes)
    q = _average_probabilities(after, forget_labels, classes)
    mixture = (p + q) / 2
    class_divergences = (rel_entr(p, mixture) + rel_entr(q, mixture)).sum(axis=1) / 2
    return float(class_divergences.mean())


def _average_probabilities(
    logits: np.ndarray, labels: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """Return the mean predicted probabilities of the samples in each class, (len(classes), C)."""
    probabilities = softmax(logits.astype(float), axis=1)
    return np.stack([probabilities[labels == label].mean(axis=0) for label in classes])


def compute_pathway_sensitivity(image: float, token: float, both: float) -> float:
    """Return P_s = |A_img - A_tok| / (A_both + epsilon) (eq. 3) of accuracies in percent.

    In the formula, they are shares.
    """
    return abs(image - token) / 100 / (both / 100 + EPSILON)


def measure_pathways(
    logits_by_pathway: Mapping[str, np.ndarray], labels: np.ndarray
) -> dict[str, float]:
    """Return the accuracies A_image, A_token and A_both in percent, and P_s.

    `logits_by_pathway` are (N, C), of samples in the memory, for `image`, `token` and `both`.
    """
    accuracies = {}
    for name, logits in logits_by_pathway.items():
        accuracies[name] = compute_accuracy(logits, labels)
    values = {f"A_{name}": value for name, value in accuracies.items()}
    values["P_s"] = compute_pathway_sensitivity(**accuracies)
    return values


def compute_metrics(
    predictions: Mapping[str, np.ndarray],
    forget_ids: np.ndarray,
    generator: np.random.Generator,
    sampling: str = "stratified",
) -> dict[str, float]:
    """Compute all metrics of one system for one forget set.

    If it was not drawn at random, MIA is computed within classes, and FM, the AUROC of the loss,
    compares forgotten with test samples. If a class is empty, or units were drawn, FTA is the
    accuracy on test samples of the forgotten classes or units, and RTA that on all others. If a
    class is empty, `probe` is `fit_probe`'s result.

    Raises KeyError for forgotten samples outside the training split, and DivergedError for logits
    that are not finite.

    Parameters
    ----------
    predictions
        The arrays of `munkey.evaluation.predict.predict_samples`.
    sampling
        How the forget set was drawn.
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
        raise KeyError("the forget set contains samples that are not in the training split")
    is_random = sampling in RANDOM
    features = compute_attack_features(logits, labels)
    features_by_set = {
        "retain": features[retain],
        "forget": features[forget],
        "test": features[test],
    }
    metrics = {
        "TA": compute_accuracy(logits[test], labels[test]),
        "RA": compute_accuracy(logits[retain], labels[retain]),
        "FA": compute_accuracy(logits[forget], labels[forget]),
    }
    if is_random:
        metrics["MIA"] = measure_membership_inference(
            **features_by_set, test_labels=labels[test], generator=generator
        )
    else:
        metrics["MIA"] = measure_membership_inference_by_class(
            **features_by_set,
            forget_labels=labels[forget],
            test_labels=labels[test],
            generator=generator,
        )
    metrics["VA"] = compute_accuracy(logits[val], labels[val])
    metrics["tested"] = float(test.sum())  # the sample size behind TA, for its interval
    if not is_random:
        metrics["forgotten"] = float(forget.sum())
        forget_loss = features[forget, 0]
        test_loss = features[test, 0]
        metrics["FM"] = 100 * compute_auroc(-forget_loss, -test_loss)
        metrics |= _measure_related_test_samples(predictions, forget, retain, sampling, generator)
    if "memory_ids" in predictions:
        logits_by_pathway = {}
        for name in ("image", "token", "both"):
            logits_by_pathway[name] = predictions[f"{name}_logits"]
        metrics |= measure_pathways(logits_by_pathway, predictions["memory_labels"])
    return metrics


def _measure_related_test_samples(
    predictions: Mapping[str, np.ndarray],
    forget: np.ndarray,
    retain: np.ndarray,
    sampling: str,
    generator: np.random.Generator,
) -> dict[str, float]:
    """Return `probe`, FTA and RTA, as far as they are defined (`compute_metrics`)."""
    labels = predictions["labels"]
    logits = predictions["logits"]
    test = predictions["splits"] == "test"
    metrics = {}
    # Whether each sample belongs to an emptied class or, if there is none, to a forgotten unit.
    is_related = np.isin(labels, find_emptied_classes(labels, forget, retain))
    if (test & is_related).sum() > 1:  # each fold of the probe needs one
        metrics["probe"] = fit_probe(logits[test], is_related[test], generator)
    elif sampling in UNIT_SAMPLINGS and "units" in predictions:
        units = predictions["units"]
        is_related = np.isin(units, np.setdiff1d(units[forget], [""]))  # "" is no unit
    related_test = test & is_related
    other_test = test & ~is_related
    if related_test.any():
        metrics["FTA"] = compute_accuracy(logits[related_test], labels[related_test])
        if other_test.any():
            metrics["RTA"] = compute_accuracy(logits[other_test], labels[other_test])
    return metrics


def fit_probe(
    logits: np.ndarray, is_forgotten: np.ndarray, generator: np.random.Generator
) -> float:
    """Return how well a linear probe separates forgotten classes from all others, in percent.

    This is the balanced accuracy of a logistic regression on all logits (N, C) of test samples, in
    two-fold cross-validation; 50 is chance.
    """
    halves = StratifiedKFold(n_splits=2, shuffle=True, random_state=int(generator.integers(2**32)))
    # EPSILON avoids a division by zero if a logit is the same for all samples.
    scaled = (logits - logits.mean(axis=0)) / (logits.std(axis=0) + EPSILON)
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    scores = cross_val_score(model, scaled, is_forgotten, cv=halves, scoring="balanced_accuracy")
    return 100 * float(scores.mean())


def find_emptied_classes(labels: np.ndarray, forget: np.ndarray, retain: np.ndarray) -> np.ndarray:
    """Return the classes of labels (N,) with samples in the forget set but none in the retain set."""
    return np.setdiff1d(labels[forget], labels[retain])


def switch_off_classes(
    predictions: Mapping[str, np.ndarray],
    forget_ids: np.ndarray,
) -> dict[str, np.ndarray] | None:
    """Return predictions with the outputs of emptied classes switched off, or None without any.

    That is a policy: the weights may still contain what they learned of the classes.
    """
    forget = np.isin(predictions["ids"], forget_ids)
    retain = (predictions["splits"] == "train") & ~forget
    classes = find_emptied_classes(predictions["labels"], forget, retain)
    if not len(classes):
        return None
    logits = predictions["logits"].copy()
    logits[:, classes] = logits.min() - 100  # so low that their probabilities are practically 0
    switched_predictions = {**predictions, "logits": logits}
    # Without memory_ids, no pathway sensitivity is computed.
    switched_predictions.pop("memory_ids", None)
    return switched_predictions


def make_metric_rows(run: Evaluation, original: str | None = None) -> list[dict[str, object]]:
    """Return one row per metric of a system, with the system's key, the metric and its value.

    If a class was emptied, METHOD-off is the same system with its output switched off. A diverged
    system has the single metric `diverged`, with the reason and the log file as `why`. RF-JSD needs
    `original`, the file with the original's logits.
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
    """Return one row per metric of predictions; `before` are the original's, for RF-JSD."""
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
    if "budget" in facts:  # only methods that can be certified have a budget
        # Results of earlier versions lack this fact: their noise follows from params.yaml.
        metrics["certified"] = float(facts.get("certified", False))
        for name in ("budget", "delta", "epsilon"):
            metrics[name] = facts[name]
    if "train_epoch_s" in training:
        metrics["train_epoch_s"] = training["train_epoch_s"]
        # A closed-form family is fitted in one step, so its history has no epochs.
        epoch_seconds = sum(epoch["seconds"] for epoch in training["history"])
        metrics["train_s"] = epoch_seconds or training["train_epoch_s"]
    return [run.key | {"metric": metric, "value": value} for metric, value in metrics.items()]
