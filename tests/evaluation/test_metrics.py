"""Metrics, by hand where a hand can, and on populations whose answer is known."""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from munkey.core.files import write_json, write_npz
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.evaluation import metrics
from munkey.evaluation.metrics import (
    compute_accuracy,
    compute_attack_features,
    compute_auroc,
    compute_metrics,
    compute_pathway_sensitivity,
    compute_rf_jsd,
    fit_probe,
    measure_membership_inference,
    measure_membership_inference_by_class,
    switch_off_classes,
)
from munkey.evaluation.records import Evaluation


def logits_right(labels, right, classes=3):
    """Logits whose top class is the label for the first `right` samples and another one for the rest."""
    top = np.where(np.arange(len(labels)) < right, labels, (labels + 1) % classes)
    return 4 * np.eye(classes, dtype=np.float32)[top]


def attacked(retain, forget, test, seed=0, labels=None):
    labels = np.arange(len(test)) % 2 if labels is None else labels
    return measure_membership_inference(retain, forget, test, labels, np.random.default_rng(seed))


def normal(mean, count, seed):
    return np.random.default_rng(seed).normal(mean, 1, (count, 4))


def test_accuracy_is_the_share_of_all_samples_in_percent():
    logits = np.array([[2.0, 1.0], [0.0, 1.0], [3.0, -1.0], [0.5, 0.4]])
    assert compute_accuracy(logits, np.array([0, 1, 1, 0])) == 75


def test_accuracy_of_nothing_or_of_a_diverged_model_is_refused():
    with pytest.raises(ValueError, match="zero samples"):
        compute_accuracy(np.zeros((0, 2)), np.zeros(0, int))
    with pytest.raises(ValueError, match="not finite"):
        compute_accuracy(np.array([[np.nan, 1.0]]), np.array([1]))


def test_attack_features_are_loss_entropy_confidence_and_margin():
    p = np.array([0.7, 0.2, 0.1])
    features = compute_attack_features(np.log(p)[None] + 5, np.array([1]))
    np.testing.assert_allclose(
        features, [[-np.log(0.2), -(p * np.log(p)).sum(), 0.7, 0.5]], rtol=1e-12
    )


@pytest.mark.parametrize("top", [200.0, 1e4, 3e38])
def test_attack_features_stay_finite_where_logits_are_saturated(top):
    features = compute_attack_features(
        np.array([[top, 0, -top], [top, 0, -top]], dtype=np.float32), np.array([0, 1])
    )
    np.testing.assert_allclose(features[:, 1:], [[0, 1, 1], [0, 1, 1]], atol=1e-12)
    np.testing.assert_allclose(features[:, 0], [0, np.float32(top)], rtol=1e-6)


def test_attack_features_tell_saturated_losses_apart():
    """In float32 both losses would be 0."""
    confident = np.array([[20.0, 0.0], [30.0, 0.0]], dtype=np.float32)
    first, second = compute_attack_features(confident, np.array([0, 0]))[:, 0]
    assert first > second > 0


def test_the_attack_is_below_50_where_forget_samples_look_less_like_members_than_test_samples():
    assert attacked(normal(3, 600, 0), normal(-3, 200, 1), normal(0, 400, 2)) < 1


def test_the_attack_does_not_depend_on_the_features_units():
    retain = normal(1, 300, 0)
    forget = normal(0.5, 100, 1)
    test = normal(0, 200, 2)
    units = np.array([1e-3, 1, 50, 1e4])
    in_other_units = attacked(units * retain + 7, units * forget + 7, units * test + 7)
    assert in_other_units == pytest.approx(attacked(retain, forget, test), abs=0.05)


@dataclass
class RecordedAttack:
    """In place of an attack that learns: notes what it is fitted to and asked about. Samples are their own names."""

    members: list[int] = field(default_factory=list)
    outsiders: list[int] = field(default_factory=list)
    judged: list[int] = field(default_factory=list)

    def __call__(self, features):
        """Scores; the forget samples are asked about first."""
        self.judged += features[:, 0].tolist()
        return np.arange(len(features))


RETAIN = np.arange(100)
FORGET = 1000 + np.arange(7)
TEST = 2000 + np.arange(30)
CLASSES = np.repeat([0, 1, 2], 10)  # of the test samples


@pytest.fixture
def attacks(monkeypatch):
    """Runs the attack on samples that are numbers: what its two halves were fed."""

    def run(seed=0, retain=RETAIN):
        fed = []

        def fitted(members, outsiders):
            fed.append(RecordedAttack(members[:, 0].tolist(), outsiders[:, 0].tolist()))
            return fed[-1]

        with monkeypatch.context() as patched:
            patched.setattr(metrics, "fit_attack", fitted)
            generator = np.random.default_rng(seed)
            measure_membership_inference(
                retain[:, None], FORGET[:, None], TEST[:, None], CLASSES, generator
            )
        return fed

    return run


def judged_of_test(attack):
    assert attack.judged[:7] == FORGET.tolist()
    return attack.judged[7:]


@pytest.mark.parametrize("seed", range(3))
def test_the_attack_is_fitted_to_one_half_of_the_test_set_and_scored_on_the_other(attacks, seed):
    first, second = attacks(seed)
    first_half = judged_of_test(first)
    second_half = judged_of_test(second)
    assert sorted(first_half + second_half) == TEST.tolist()
    assert sorted(first.outsiders) == sorted(second_half)
    assert sorted(second.outsiders) == sorted(first_half)
    for half in (first_half, second_half):
        assert np.bincount(CLASSES[np.array(half) - 2000]).tolist() == [5, 5, 5]


def test_members_are_as_many_as_outsiders_and_drawn_from_the_whole_retain_set(attacks):
    fed = attacks()
    for attack in fed:
        assert len(attack.members) == len(attack.outsiders) == 15
        assert len(set(attack.members)) == 15
        assert set(attack.members) <= set(RETAIN)
        assert max(attack.members) >= 50  # the lower half alone, by chance: one in 100,000
    assert set(fed[0].members) != set(fed[1].members)


def test_a_small_retain_set_is_used_up_against_as_many_test_samples(attacks):
    for attack in attacks(retain=RETAIN[:4]):
        assert sorted(attack.members) == [0, 1, 2, 3]
        assert len(set(attack.outsiders)) == 4


def test_halves_and_members_depend_on_the_generator_alone(attacks):
    assert attacks(1) == attacks(1)
    first, _ = attacks(1)
    other, _ = attacks(2)
    assert judged_of_test(first) != judged_of_test(other)
    assert set(first.members) != set(other.members)


def test_the_scores_of_both_halves_are_averaged(monkeypatch):
    scores = iter([0.2, 0.6])
    monkeypatch.setattr(metrics, "compute_auroc", lambda *_: next(scores))
    assert attacked(normal(0, 40, 0), normal(0, 20, 1), normal(0, 40, 2)) == pytest.approx(40)


def test_the_attack_converges():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attacked(normal(0.6, 300, 0), normal(0.4, 100, 1), normal(0, 200, 2))


def test_pathway_sensitivity_is_the_difference_of_the_cut_accuracies_over_the_whole_one():
    assert compute_pathway_sensitivity(image=80, token=20, both=75) == pytest.approx(0.8)
    assert compute_pathway_sensitivity(image=20, token=80, both=75) == pytest.approx(0.8)
    assert compute_pathway_sensitivity(image=50, token=50, both=90) == 0
    assert compute_pathway_sensitivity(image=1, token=0, both=0) == pytest.approx(0.01 / 1e-8)


@pytest.fixture
def predictions():
    """30 samples each: training (the first 10 of them to forget), val and test, with known numbers of right answers."""
    labels = np.arange(90) % 3
    parts = [(0, 10, 4), (10, 30, 18), (30, 60, 15), (60, 90, 21)]  # start, end, how many are right
    logits = np.concatenate([logits_right(labels[start:end], right) for start, end, right in parts])
    ids = 100 + np.arange(90)
    splits = np.repeat(["train", "val", "test"], 30)
    return {"ids": ids, "labels": labels, "splits": splits, "logits": logits}


def test_every_accuracy_is_measured_on_its_own_samples(predictions):
    measured = compute_metrics(predictions, 100 + np.arange(10), np.random.default_rng(0))
    del measured["MIA"]
    assert measured == {"TA": 70, "RA": 90, "FA": 40, "VA": 50, "tested": 30}


def test_the_attack_gets_the_features_of_the_retain_the_forget_and_the_test_set(
    predictions, monkeypatch
):
    """Every sample has features of its own, so that no set can pass for another."""
    noise = np.random.default_rng(0).normal(size=predictions["logits"].shape).astype(np.float32)
    predictions["logits"] = predictions["logits"] + noise
    predictions["labels"] = np.random.default_rng(1).permutation(predictions["labels"])
    labels = predictions["labels"]
    generator = np.random.default_rng(0)
    calls = []
    monkeypatch.setattr(
        metrics, "measure_membership_inference", lambda **inputs: calls.append(inputs) or 61.5
    )
    measured = compute_metrics(predictions, 100 + np.arange(10), generator)
    features = compute_attack_features(predictions["logits"], labels)
    (inputs,) = calls
    assert inputs.pop("generator") is generator
    assert set(inputs) == {"retain", "forget", "test", "test_labels"}
    np.testing.assert_array_equal(inputs["retain"], features[10:30])
    np.testing.assert_array_equal(inputs["forget"], features[:10])
    np.testing.assert_array_equal(inputs["test"], features[60:])
    np.testing.assert_array_equal(inputs["test_labels"], labels[60:])
    assert measured["MIA"] == 61.5


def test_pathways_are_measured_on_the_memorys_members_by_their_own_labels(predictions):
    labels = predictions["labels"][10:30]
    answers = predictions | {"memory_ids": 1000 + np.arange(20), "memory_labels": labels}
    answers["image_logits"] = logits_right(labels, 12)
    answers["token_logits"] = logits_right(labels, 4)
    answers["both_logits"] = logits_right(labels, 16)
    measured = compute_metrics(answers, 100 + np.arange(10), np.random.default_rng(0))
    assert (measured["A_image"], measured["A_token"], measured["A_both"]) == (60, 20, 80)
    assert measured["P_s"] == pytest.approx(0.5)


@pytest.mark.parametrize("stranger", [130, 170, 5])
def test_a_forget_set_outside_the_training_split_is_refused(predictions, stranger):
    with pytest.raises(KeyError, match="not in the training split"):
        compute_metrics(predictions, np.array([100, stranger]), np.random.default_rng(0))


def test_a_diverged_model_is_not_measured(predictions):
    predictions["logits"][70] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        compute_metrics(predictions, np.array([100, 101]), np.random.default_rng(0))


@pytest.fixture
def run(predictions, tmp_path):
    """The files of an evaluated system, whose logits are so uneven that the attack hangs on its generator."""
    noise = np.random.default_rng(0).normal(size=predictions["logits"].shape)
    predictions["logits"] = predictions["logits"] + noise.astype(np.float32)
    write_npz(tmp_path / "logits.npz", predictions)
    forget_sets.write(tmp_path / "forget.csv", 100 + np.arange(10))
    write_json(
        tmp_path / "record.json",
        {"unlearn_s": 1.5, "search_s": 20.0, "train_epoch_s": 9.0, "cpu_s": 3.0},
    )
    history = [{"seconds": 0.5}, {"seconds": 0.75}]
    write_json(
        tmp_path / "training.json",
        {"unlearn_s": 8.0, "train_epoch_s": 0.5, "cpu_s": 9.0, "history": history},
    )
    return Evaluation(
        "digits",
        "",
        "0.1",
        3,
        "cf",
        logits=str(tmp_path / "logits.npz"),
        record=str(tmp_path / "record.json"),
        training=str(tmp_path / "training.json"),
        forget=str(tmp_path / "forget.csv"),
    )


def values_by_metric(rows):
    """The values of rows of metrics."""
    return {row["metric"]: row["value"] for row in rows}


def test_a_system_is_measured_from_its_files(run, predictions):
    rows = metrics.make_metric_rows(run)
    for row in rows:
        assert row.items() >= run.key.items()
    generator = Stage(3, "digits", "attack", "0.1").numpy_generator()
    expected = compute_metrics(predictions, 100 + np.arange(10), generator)
    with_other_generator = compute_metrics(
        predictions, 100 + np.arange(10), np.random.default_rng(0)
    )
    assert expected["MIA"] != with_other_generator["MIA"]
    # Seconds of unlearning, of the search and of the CPU are the system's own; those of epochs are its training's.
    seconds = {
        "unlearn_s": 1.5,
        "search_s": 20.0,
        "cpu_s": 3.0,
        "train_epoch_s": 0.5,
        "train_s": 1.25,
    }
    assert values_by_metric(rows) == expected | seconds


def test_rf_jsd_by_hand_compares_mean_answers_by_class():
    """Class 0: [1/2, 1/2] beside [1, 0], mixed [3/4, 1/4]; class 1: alike; others in one set only."""
    before = np.log(
        [[0.75, 0.25, 1e-99], [0.25, 0.75, 1e-99], [0.25, 0.75, 1e-99], [0.5, 0.5, 1e-99]]
    )
    after = np.log([[1.0, 1e-99, 1e-99], [0.25, 0.75, 1e-99], [0.1, 0.8, 0.1]]) + 3.0
    divergence_of_model = compute_rf_jsd(before, np.array([0, 0, 1, 2]), after, np.array([0, 1, 3]))
    divergence = (0.5 * np.log(0.5 / 0.75) + 0.5 * np.log(0.5 / 0.25) + np.log(1 / 0.75)) / 2
    assert divergence_of_model == pytest.approx((divergence + 0) / 2, abs=1e-12)
    assert np.isnan(compute_rf_jsd(before, np.array([0, 0, 1, 2]), after, np.array([3, 3, 3])))


def test_rf_jsd_is_measured_where_the_original_is_known(run, predictions, tmp_path):
    write_npz(tmp_path / "original.npz", predictions | {"logits": 2 * predictions["logits"]})
    values = values_by_metric(metrics.make_metric_rows(run, str(tmp_path / "original.npz")))
    labels = predictions["labels"]
    test = predictions["splits"] == "test"
    expected = compute_rf_jsd(
        2 * predictions["logits"][test], labels[test], predictions["logits"][:10], labels[:10]
    )
    assert values["RF-JSD"] == expected > 0


@pytest.mark.parametrize(
    ("sampling", "methods"),
    [("stratified", {"cf"}), ("uniform", {"cf"}), ("class", {"cf", "cf-off"})],
)
def test_outputs_are_switched_off_only_after_requests_for_a_whole_class(
    run, predictions, monkeypatch, sampling, methods
):
    monkeypatch.setattr(metrics, "switch_off_classes", lambda *_: predictions)
    rows = metrics.make_metric_rows(replace(run, sampling=sampling))
    assert {row["method"] for row in rows} == methods


def test_the_training_of_a_model_fitted_at_once_takes_the_seconds_of_its_fit(run):
    write_json(run.training, {"train_epoch_s": 0.25, "history": []})
    values = values_by_metric(metrics.make_metric_rows(run))
    assert values["train_s"] == values["train_epoch_s"] == 0.25


def test_a_certified_method_has_rows_for_budget_delta_and_epsilon(run):
    certificate = {"budget": 0.5, "delta": 1e-4, "epsilon": 1.25}
    others = values_by_metric(metrics.make_metric_rows(run))
    write_json(
        run.record,
        {"unlearn_s": 1.5, "search_s": 20.0, "cpu_s": 3.0, "facts": certificate | {"steps": 2}},
    )
    values = values_by_metric(metrics.make_metric_rows(run))
    # A record without the fact is of an earlier version, whose noise was public.
    assert values == others | certificate | {"certified": 0.0}


def test_the_key_of_a_row_names_the_case(run):
    """In this order, which is that of the columns of the file of metrics."""
    assert list(run.key.items()) == [
        ("dataset", "digits"),
        ("rate", "0.1"),
        ("seed", 3),
        ("method", "cf"),
    ]
    case = replace(run, case="inference.k/8")
    assert list(case.key) == ["dataset", "case", "rate", "seed", "method"]
    assert case.key == run.key | {"case": "inference.k/8"}


def test_auroc_is_the_share_of_pairs_and_pairs_that_differ_by_rounding_count_half():
    assert compute_auroc(np.array([3.0, 1.0]), np.array([2.0, 0.0])) == 0.75
    assert compute_auroc(np.array([1.0, 1.0 + 4e-6]), np.array([1.0, 1.0 - 4e-6])) == 0.5
    assert compute_auroc(np.array([1.0 + 2e-5]), np.array([1.0])) == 1.0
    positives = normal(0.3, 200, 0)[:, 0]
    negatives = normal(0, 300, 1)[:, 0]
    truth = np.repeat([1, 0], [200, 300])
    expected = roc_auc_score(truth, np.concatenate([positives, negatives]))
    assert compute_auroc(positives, negatives) == pytest.approx(expected, abs=1e-4)


def test_the_attack_is_the_same_for_logits_that_another_machine_rounds_differently():
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 900)
    logits = random.normal(size=(900, 10)) + 4 * np.eye(10)[labels] * (
        random.random((900, 1)) < 0.9
    )
    # Four votes of each sample, for its label or for another class: answers of which many are equal.
    votes = np.zeros((900, 10))
    for row, classes in enumerate(zip(labels, random.integers(0, 10, 900), strict=True)):
        votes[row] = np.bincount(random.choice(classes, 4), minlength=10) / 4
    for answers in (logits, np.log(votes.clip(1e-6))):
        attacks = []
        for noise in (0.0, 1e-6):
            moved = answers + random.uniform(-noise, noise, answers.shape)
            features = compute_attack_features(moved, labels)
            attacks.append(
                attacked(features[:500], features[500:600], features[600:], labels=labels[600:])
            )
        assert abs(attacks[0] - attacks[1]) <= 0.01


def test_within_classes_a_class_gives_no_answer_away():
    """Class 1 scores higher, members or not; all that is forgotten is of class 1, but nothing else tells it apart."""
    generator = np.random.default_rng(0)
    retain = normal(0, 400, 1)
    test = normal(0, 400, 2)
    labels = np.arange(400) % 2
    retain[:, 0] += 1.0  # what members have in common
    shift = 3.0 * (labels == 1)
    test[:, 0] += shift
    forget = normal(0, 200, 3)
    forget[:, 0] += 3.0
    naive = measure_membership_inference(retain, forget, test, labels, generator)
    within = measure_membership_inference_by_class(
        retain, forget, test, np.ones(200, int), labels, generator
    )
    assert abs(within - 50) < 6
    assert abs(naive - 50) > 15


def test_within_classes_by_hand_classes_count_as_in_the_forget_set(monkeypatch):
    """Class 0: 3 forgotten, all above test; class 1: 1 forgotten, below. (3 * 1 + 1 * 0) / 4."""
    forget = np.array([5.0, 6, 7, 1])
    test = np.array([2.0, 2, 4, 4])
    fits = [(lambda values: values, np.arange(4))]
    monkeypatch.setattr(metrics, "cross_fit_attacks", lambda *_: fits)
    labels = (np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]))
    assert (
        measure_membership_inference_by_class(
            forget, forget, test, *labels, np.random.default_rng(0)
        )
        == 75
    )


def test_within_classes_a_half_without_test_samples_of_them_is_left_out(monkeypatch):
    scores = np.array([1.0, 5.0])
    fits = [(lambda values: values, np.array([0])), (lambda values: values, np.array([1]))]
    monkeypatch.setattr(metrics, "cross_fit_attacks", lambda *_: fits)
    forgotten = np.array([3.0, 3.0])
    measured = measure_membership_inference_by_class(
        forgotten, forgotten, scores, np.array([1, 1]), np.array([0, 1]), np.random.default_rng(0)
    )
    assert measured == 0  # both forgotten scores are below the one test score of class 1


def test_a_class_that_is_forgotten_whole_has_its_own_test_accuracy_and_its_output_can_be_off():
    labels = np.array([0, 0, 1, 1, 2, 2] * 4)
    splits = np.array((["train"] * 12) + ["test"] * 6 + ["val"] * 6)
    ids = np.arange(24)
    logits = 4 * np.eye(3, dtype=np.float32)[labels]
    predictions = {"ids": ids, "labels": labels, "splits": splits, "logits": logits}
    forgotten = ids[(labels == 1) & (splits == "train")]
    measured = compute_metrics(predictions, forgotten, np.random.default_rng(0), "class")
    assert (measured["FTA"], measured["RTA"], measured["FA"], measured["forgotten"]) == (
        100,
        100,
        100,
        4,
    )
    off = compute_metrics(
        switch_off_classes(predictions, forgotten), forgotten, np.random.default_rng(0), "class"
    )
    assert (off["FTA"], off["RTA"], off["FA"], off["RA"]) == (0, 100, 0, 100)
    with_memory = switch_off_classes(predictions | {"memory_ids": ids}, forgotten)
    assert "memory_ids" not in with_memory  # pathways are measured only with the class on
    assert switch_off_classes(predictions, forgotten[:-1]) is None
    assert "FTA" not in compute_metrics(
        predictions, forgotten[:-1], np.random.default_rng(0), "class"
    )
    assert (measured["probe"], measured["FM"]) == (100, 50)  # all losses are equal


@pytest.mark.parametrize("sampling", ["stratified", "uniform", "cluster", "class"])
def test_the_attack_is_within_classes_unless_the_request_is_random(sampling, monkeypatch):
    monkeypatch.setattr(metrics, "measure_membership_inference_by_class", lambda **_: -1.0)
    labels = np.arange(24) % 3
    splits = np.repeat(["train", "test", "val"], [12, 6, 6])
    predictions = {
        "ids": np.arange(24),
        "labels": labels,
        "splits": splits,
        "logits": 4.0 * np.eye(3)[labels],
    }
    attack = compute_metrics(predictions, np.arange(4), np.random.default_rng(0), sampling)["MIA"]
    assert (attack == -1) == (sampling in ("cluster", "class"))


def test_a_probe_tells_a_class_that_the_logits_tell_and_guesses_one_that_they_do_not():
    generator = np.random.default_rng(0)
    gone = np.arange(200) % 4 == 0
    noise = generator.standard_normal((200, 3))
    telling = noise + 9 * np.stack([gone, ~gone, gone], axis=1)
    assert fit_probe(telling, gone, generator) > 99
    assert abs(fit_probe(noise, gone, generator) - 50) < 12


def test_a_probe_has_the_balanced_accuracy():
    """All of the forgotten class and half of the others, which are three times as many, look like it."""
    gone = np.arange(400) % 4 == 0
    looks_gone = gone | (np.arange(400) % 8 < 4)
    logits = np.stack([looks_gone, ~looks_gone], axis=1).astype(float)
    score = fit_probe(logits, gone, np.random.default_rng(0))
    assert score == pytest.approx((100 + 50) / 2, abs=1)  # of all samples, 62.5% are right


def test_forgotten_units_have_their_own_test_accuracy_and_a_probe_of_losses():
    labels = np.array([0, 1] * 8)
    splits = np.array((["train"] * 8) + ["test"] * 4 + ["val"] * 4)
    ids = np.arange(16)
    units = np.array(["one", "", "two", "", *["", ""] * 2, "one", "one", "", "two", *[""] * 4])
    logits = 2.0 * np.eye(2)[labels]
    logits[8] = logits[8, ::-1]  # a test sample of `one` is wrong
    logits[0] *= 5  # the forgotten sample has a lower loss than all of test
    predictions = {"ids": ids, "labels": labels, "splits": splits, "logits": logits, "units": units}
    measured = compute_metrics(predictions, ids[:1], np.random.default_rng(0), "unit")
    assert (measured["FTA"], measured["RTA"], measured["FM"]) == (50, 100, 100)
    # Sample 1 has no unit: it adds none to those that are forgotten.
    with_another = compute_metrics(predictions, ids[:2], np.random.default_rng(0), "unit")
    assert (with_another["FTA"], with_another["RTA"]) == (50, 100)
    units[8:12] = "one"  # no test sample is of another unit
    only_one = compute_metrics(predictions, ids[:1], np.random.default_rng(0), "unit")
    assert only_one["FTA"] == only_one["TA"]
    assert "RTA" not in only_one
    assert not {"FTA", "FM"} & set(compute_metrics(predictions, ids[:1], np.random.default_rng(0)))
    assert "FTA" not in compute_metrics(predictions, ids[:1], np.random.default_rng(0), "hard")
