"""Metrics from logits (sec. 4): TA, RA, FA, MIA, pathway sensitivity. All in percent but P_s. No model is needed."""

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from scipy.special import logsumexp, rel_entr, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score

from munkey.core.diverged import DIVERGED, DivergedError, why_diverged
from munkey.core.files import read_json, read_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.evaluation.records import Evaluation

RANDOM = ("stratified", "uniform")  # sampling of forget sets as in the paper
OF_UNITS = ("unit", "one-of-unit", "known", "relied-on")
EPSILON = 1e-8  # of P_s (sec. 3.2)
TOLERANCE = 1e-5  # of the attack's features and scores: what differs by less differs by rounding alone


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Top-1 accuracy over all samples, percent. Raises ValueError for no samples or logits that are not finite."""
    if not len(labels):
        raise ValueError("accuracy of no samples")
    if not np.isfinite(logits).all():
        raise DivergedError("logits are not finite: the model diverged")
    return 100 * float(np.mean(logits.argmax(axis=1) == labels))


def attack_features(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(N, 4): loss, entropy, confidence, margin p1 - p2 of each sample, from float64 log-softmax (sec. 4, MIA)."""
    log_p = logits.astype(np.float64)
    log_p = log_p - logsumexp(log_p, axis=1, keepdims=True)
    p = np.exp(log_p)
    top = np.sort(p, axis=1)[:, ::-1]
    loss = -log_p[np.arange(len(labels)), labels]
    return np.stack([loss, -(p * log_p).sum(axis=1), top[:, 0], top[:, 0] - top[:, 1]], axis=1)


def membership_inference(
    retain: np.ndarray, forget: np.ndarray, test: np.ndarray, test_labels: np.ndarray, generator: np.random.Generator
) -> float:
    """AUROC (times 100) of a logistic regression that tells forget from test samples by their attack features.

    Test is split into two halves stratified by `test_labels`. The attack learns retain (members) against one half, in
    equal numbers, and is scored on forget against the other; the halves swap and the two scores are averaged, so it is
    never scored on what it has seen. The sign is kept: below 50, forget samples look less like members than test ones.
    """
    fits = cross_fits(retain, test, test_labels, generator)
    return 100 * float(np.mean([auroc(score(forget), score(test[scored])) for score, scored in fits]))


def within_classes(
    retain: np.ndarray,
    forget: np.ndarray,
    test: np.ndarray,
    forget_labels: np.ndarray,
    test_labels: np.ndarray,
    generator: np.random.Generator,
) -> float:
    """The same attack, scored within each class and averaged with the classes' shares of the forget set.

    So a forget set that is mostly of one class is not told from test by the class. A class without a test sample in a
    half is left out of it.
    """
    found = []
    for score, scored in cross_fits(retain, test, test_labels, generator):
        of, there = score(forget), score(test[scored])
        both = [label for label in np.unique(forget_labels) if (test_labels[scored] == label).any()]
        pairs = [(of[forget_labels == label], there[test_labels[scored] == label]) for label in both]
        found.append(np.average([auroc(*pair) for pair in pairs], weights=[len(pair[0]) for pair in pairs]))
    return 100 * float(np.mean(found))


def cross_fits(
    retain: np.ndarray, test: np.ndarray, test_labels: np.ndarray, generator: np.random.Generator
) -> Iterator[tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]]:
    """Both attacks of `membership_inference`, as from `fitted_attack`, and the rows of test that each may score."""
    halves = StratifiedKFold(n_splits=2, shuffle=True, random_state=int(generator.integers(2**32)))
    for fitted, scored in halves.split(test, test_labels):
        size = min(len(fitted), len(retain))
        members = retain[generator.choice(len(retain), size=size, replace=False)]
        yield fitted_attack(members, test[generator.choice(fitted, size=size, replace=False)]), scored


def fitted_attack(members: np.ndarray, outsiders: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A logistic regression, fitted to convergence, from features (N, 4) to scores (N,): higher for members.

    Features are standardized; one that varies by no more than TOLERANCE is left small, since to stretch it would
    stretch rounding noise.
    """
    both = np.concatenate([members, outsiders])
    mean, spread = both.mean(axis=0), np.sqrt(both.var(axis=0) + TOLERANCE**2)
    attack = LogisticRegression(tol=1e-10, max_iter=1000)
    attack.fit((both - mean) / spread, np.repeat([1, 0], [len(members), len(outsiders)]))
    return lambda features: np.asarray(attack.decision_function((features - mean) / spread))


def auroc(positives: np.ndarray, negatives: np.ndarray) -> float:
    """Share of pairs in which the positive scores higher; scores within TOLERANCE of each other count half."""
    ranked = np.sort(negatives)
    lower = np.searchsorted(ranked, positives - TOLERANCE, side="left")
    not_higher = np.searchsorted(ranked, positives + TOLERANCE, side="right")
    return float(np.mean(lower + not_higher) / (2 * len(ranked)))


def rf_jsd(before: np.ndarray, unseen_labels: np.ndarray, after: np.ndarray, forget_labels: np.ndarray) -> float:
    """RF-JSD [nats, from 0 to ln 2], which needs no oracle (Spartalis et al. 2025): in each class, the Jensen-Shannon
    divergence of two mean answers, that of the original to unseen samples and that of the unlearned model to forgotten
    ones; averaged over the classes that both have (nan: none). Means of classes say little of single samples.

    before, after: logits (N, C) of the original for unseen samples, of the unlearned model for forgotten ones. Their
    code (`log_js_proxy`) has the arguments of both divergences swapped, which leaves them without a bound.
    """
    if not len(both := np.intersect1d(unseen_labels, forget_labels)):
        return math.nan
    p, q = (
        np.stack([softmax(logits[labels == label].astype(float), axis=1).mean(axis=0) for label in both])
        for logits, labels in ((before, unseen_labels), (after, forget_labels))
    )
    mixture = (p + q) / 2
    return float((rel_entr(p, mixture) + rel_entr(q, mixture)).sum(axis=1).mean() / 2)


def pathway_sensitivity(image: float, token: float, both: float) -> float:
    """P_s = |A_img - A_tok| / (A_both + epsilon), from the three accuracies in percent (sec. 3.2, eq. 3)."""
    return abs(image - token) / 100 / (both / 100 + EPSILON)


def pathways(cut: Mapping[str, np.ndarray], labels: np.ndarray) -> dict[str, float]:
    """A_image, A_token and A_both in percent, and P_s, from the logits of a memory's members by what is at work."""
    accuracies = {name: accuracy(logits, labels) for name, logits in cut.items()}
    sensitivity = pathway_sensitivity(**accuracies)
    return {f"A_{name}": value for name, value in accuracies.items()} | {"P_s": sensitivity}


def measure(
    predictions: Mapping[str, np.ndarray],
    forget_ids: np.ndarray,
    generator: np.random.Generator,
    sampling: str = "stratified",
) -> dict[str, float]:
    """All metrics of one system against one forget set. After other requests than random ones, MIA is within classes,
    and FM says how the forgotten samples' losses compare with those of test samples; of classes that are forgotten
    whole, and of units, FTA is the accuracy on their test samples, RTA that on all others.

    predictions: ids, labels, splits, logits of every sample, and units, where there are any; for MUNKEY also
    memory_ids, memory_labels, image_logits, token_logits and both_logits of the memory's members. Raises KeyError where
    the forget set is not within the training split.
    """
    grouped = sampling not in RANDOM
    ids, labels, splits, logits = (predictions[name] for name in ("ids", "labels", "splits", "logits"))
    forget, train, test = np.isin(ids, forget_ids), splits == "train", splits == "test"
    if (forget & train).sum() != len(forget_ids):
        raise KeyError("the forget set holds samples that are not in the training split")
    retain = train & ~forget
    features = attack_features(logits, labels)
    parts = (features[retain], features[forget], features[test])
    metrics = {
        "TA": accuracy(logits[test], labels[test]),
        "RA": accuracy(logits[retain], labels[retain]),
        "FA": accuracy(logits[forget], labels[forget]),
        "MIA": within_classes(*parts, labels[forget], labels[test], generator)
        if grouped
        else membership_inference(*parts, labels[test], generator),
        "VA": accuracy(logits[splits == "val"], labels[splits == "val"]),
        "tested": float(test.sum()),  # what an interval of TA is over
    }
    if grouped:
        metrics["forgotten"] = float(forget.sum())
        metrics["FM"] = 100 * auroc(-parts[1][:, 0], -parts[2][:, 0])
        gone = np.isin(labels, emptied(labels, forget, retain))
        if (test & gone).sum() > 1:
            metrics["probe"] = probe(logits[test], gone[test], generator)
        elif sampling in OF_UNITS and "units" in predictions:
            gone = np.isin(predictions["units"], np.setdiff1d(predictions["units"][forget], [""]))
        if (test & gone).any():
            metrics["FTA"] = accuracy(logits[test & gone], labels[test & gone])
            metrics["RTA"] = accuracy(logits[test & ~gone], labels[test & ~gone])
    if "memory_ids" in predictions:
        cut = {name: predictions[f"{name}_logits"] for name in ("image", "token", "both")}
        metrics |= pathways(cut, predictions["memory_labels"])
    return metrics


def probe(logits: np.ndarray, gone: np.ndarray, generator: np.random.Generator) -> float:
    """How well a class that is forgotten is still told from all others, percent: the balanced accuracy on test samples
    of a logistic regression on the model's logits (N, C), each half scored by the other's. 50 is chance.

    A linear probe of what the model makes of the class, whatever its own output says. gone: (N,) bool.
    """
    halves = StratifiedKFold(n_splits=2, shuffle=True, random_state=int(generator.integers(2**32)))
    scaled = (logits - logits.mean(axis=0)) / (logits.std(axis=0) + EPSILON)
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    return 100 * float(cross_val_score(model, scaled, gone, cv=halves, scoring="balanced_accuracy").mean())


def emptied(labels: np.ndarray, forget: np.ndarray, retain: np.ndarray) -> np.ndarray:
    """The classes of which all training samples are forgotten. labels: (N,); forget, retain: (N,) bool."""
    return np.setdiff1d(labels[forget], labels[retain])


def withdrawn(predictions: Mapping[str, np.ndarray], forget_ids: np.ndarray) -> dict[str, np.ndarray] | None:
    """The same answers with the outputs of the emptied classes switched off; None where no class is emptied.

    Whoever serves a model may do so. It is a policy: what the weights know of the class is still in them.
    """
    forget = np.isin(predictions["ids"], forget_ids)
    classes = emptied(predictions["labels"], forget, (predictions["splits"] == "train") & ~forget)
    if not len(classes):
        return None
    logits = predictions["logits"].copy()
    logits[:, classes] = logits.min() - 100
    return {name: each for name, each in predictions.items() if name != "memory_ids"} | {"logits": logits}


def measured(run: Evaluation, original: str | None = None) -> list[dict[str, object]]:
    """A line per metric of a system, from its logits, its record and that of its training: key, metric, value.

    Of one that diverged, a single line: the metric `diverged`, 1, and as `why` the reason and the log.

    original: the logits of what it was unlearned from, for RF-JSD; None: it was not unlearned. Where a class is
    forgotten whole, also for the same system with that output switched off, as METHOD-off.
    """
    predictions, forget_ids = read_npz(run.logits), forget_sets.read(run.forget)
    why = why_diverged(predictions)
    if why:
        names = [run.method]
        if run.sampling not in RANDOM and withdrawn(predictions, forget_ids):
            names.append(f"{run.method}-off")
        return [run.key | {"method": name, "metric": DIVERGED, "value": 1.0, "why": why} for name in names]
    before = read_npz(original) if original else None
    lines = _measured(run, predictions, forget_ids, before)
    if run.sampling not in RANDOM and (off := withdrawn(predictions, forget_ids)):
        lines += [line | {"method": f"{run.method}-off"} for line in _measured(run, off, forget_ids, before)]
    return lines


def _measured(
    run: Evaluation,
    predictions: Mapping[str, np.ndarray],
    forget_ids: np.ndarray,
    before: Mapping[str, np.ndarray] | None,
) -> list[dict[str, object]]:
    generator = Stage(run.seed, run.dataset, "attack", run.rate).numpy_generator()
    metrics = measure(predictions, forget_ids, generator, run.sampling)
    if before is not None:
        pairs = ((before, before["splits"] == "test"), (predictions, np.isin(predictions["ids"], forget_ids)))
        metrics["RF-JSD"] = rf_jsd(*(each[name][rows] for each, rows in pairs for name in ("logits", "labels")))
    record, training = read_json(run.record), read_json(run.training)
    metrics |= {name: record[name] for name in ("unlearn_s", "search_s", "cpu_s") if name in record}
    if "budget" in (facts := record.get("facts", {})):  # a certified method
        metrics |= {name: facts[name] for name in ("budget", "delta", "epsilon")}
    if "train_epoch_s" in training:  # a model that was trained, in epochs, or fitted, at once
        seconds = sum(epoch["seconds"] for epoch in training["history"]) or training["train_epoch_s"]
        metrics |= {"train_epoch_s": training["train_epoch_s"], "train_s": seconds}
    return [run.key | {"metric": metric, "value": value} for metric, value in metrics.items()]
