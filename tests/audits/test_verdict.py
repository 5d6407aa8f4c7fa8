"""Controls and verdicts: every control can fail, and then nothing is said; words are those of the design."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from munkey.audits import verdict as module
from munkey.audits.attacks.residual_share import Share
from munkey.audits.attacks.tail import Tail
from munkey.audits.redraws import Significance
from munkey.audits.registry import Estimate, NoFinding
from munkey.audits.roc import Attack
from munkey.audits.verdict import (
    TESTS,
    Control,
    Findings,
    holm,
    judge_control,
    judge_sham_pools,
    reach_verdict,
    run_joint_tests,
)
from tests.audits.inputs import population

RIGHT = [
    Control("original", True),
    Control("oracle", False),
    Control("sham", False),
    Control("trained to remember", True),
]


def share(value=0.0, low=-3.0, high=2.2, chance=1.0):
    estimate = Estimate(value, low, high)
    return Share(value / 100, (value / 100, 0.5), estimate, estimate, chance, 0.5, 1.0)


TAIL = Tail(square=2.5, tenth=0.3, tenth_share=Estimate(22.2, 10, 30), scatter=1.64)
ATTACK = Attack(Estimate(57.31, 50, 60), Estimate(4.06, 1, 7), NoFinding(""))
ATTACKS = {"u-lira": ATTACK, "rmia": ATTACK, "tail": TAIL}


def make_findings(share_left=None, *, min_p=0.001, **p):
    """p: of tests, by name, without the hyphen of U-LiRA's; 0.5 where not named."""
    tests = {}
    for name in TESTS:
        tests[name] = Significance(p.get(name.replace("u-lira", "u_lira"), 0.5), min_p)
    return Findings(share_left or share(), ATTACKS, tests)


@pytest.mark.parametrize(
    ("findings", "kind", "words"),
    [
        (
            make_findings(share(4, 2, 6), share=1e-3),
            "residue",
            "4.0% [2.0, 6.0]",
        ),
        (
            make_findings(share(-40, -57, -23), share=1e-3, square=1e-3),
            "over-forgets",
            "-40.0% [-57.0, -23.0]",
        ),
        (
            make_findings(),
            "none found",
            "no more than 3% on average",
        ),
        (make_findings(share(-9, -20, -0.5)), "none found", "no more than 0%"),
        (
            make_findings(share(-0.3, -0.4, 0.2), u_lira_auroc=0.01),
            "residue",
            "U-LiRA's AUROC 57.3; on average -0.3% [-0.4, 0.2]",
        ),
        (
            make_findings(rmia_tpr_1=0.01),
            "residue",
            "RMIA at 1% false alarms finds 4.1%",
        ),
        (
            make_findings(square=0.01, few=0.01),
            "residue",
            "2.5 times",
        ),
        (make_findings(few=0.049), "residue", "22%"),
        (make_findings(level=0.01), "residue", "the level of each model"),
        (make_findings(scatter=0.01), "residue", "1.64 times"),
        (make_findings(share(-5), few=0.01), "residue", "the tenth that keeps most"),
        (make_findings(share(40, -50, 130)), "no power", "130%"),
        (make_findings(share(40, -np.inf, np.inf)), "no power", "no bound holds"),
        (make_findings(share(40, -np.inf, np.inf), share=1e-3), "residue", "40.0% [unbounded]"),
        (Findings(NoFinding("there is 1 pair"), {}, {}), "no power", "there is 1 pair"),
    ],
)
def test_a_verdict_says_what_these_attacks_found(findings, kind, words):
    verdict = reach_verdict(findings, RIGHT)
    assert verdict.kind == kind
    assert words in verdict.sentence
    assert "forgotten" not in verdict.sentence
    assert "-0.0" not in verdict.sentence


def test_a_verdict_without_a_finding_quotes_simulated_audits():
    sentence = reach_verdict(make_findings(), RIGHT, "5% kept whole: 7 of 30").sentence
    assert "5% kept whole: 7 of 30" in sentence
    residue = make_findings(share(4, 2, 6), share=1e-3)
    assert "7 of 30" not in reach_verdict(residue, RIGHT, "5% kept whole: 7 of 30").sentence


def test_the_verdict_names_attacks_that_could_not_find_anything():
    assert "could not find" not in reach_verdict(make_findings(), RIGHT).sentence
    tests = dict(make_findings().tests)
    del tests["u-lira_auroc"]
    del tests["u-lira_tpr_1"]
    sentence = reach_verdict(Findings(share(), ATTACKS, tests), RIGHT).sentence
    assert "AUROC, U-LiRA at 1% false alarms could not" in sentence
    assert reach_verdict(make_findings(min_p=0.06), RIGHT).sentence.count("the share") == 1
    assert make_findings(min_p=0.06).powerless_tests == list(TESTS)


def test_the_verdict_on_equal_answers_says_only_that_they_are_equal():
    exact = Share(0, (0.0, 0.0), Estimate(0, 0, 0), Estimate(0, 0, 0), 0, 1, 1)
    verdict = reach_verdict(Findings(exact, ATTACKS, {}, equal=True), RIGHT)
    assert verdict.kind == "none found"
    assert "to the bit" in verdict.sentence
    assert "no more than" not in verdict.sentence


def test_answers_that_have_equal_ranks_are_not_equal_to_the_bit():
    pairs = population(4, 0.0, np.random.default_rng(0))
    margins = np.repeat(pairs.margins[::2], 2, axis=0)
    margins[1::2] += 1e-9 * np.arange(margins.shape[1])
    findings = module.collect_findings(replace(pairs, margins=margins), np.random.default_rng(0))
    assert findings.share.contrast == 0
    assert not findings.equal
    assert "to the bit" not in reach_verdict(findings, RIGHT).sentence


def test_partners_with_equal_answers_are_not_tested():
    for seed in range(5):
        pairs = population(4, 0.0, np.random.default_rng(seed))
        exact = replace(pairs, margins=np.repeat(pairs.margins[::2], 2, axis=0))
        findings = module.collect_findings(exact, np.random.default_rng(0))
        assert (findings.tests, findings.flagged_tests, findings.p) == ({}, [], 1)
        assert judge_control("oracle", findings).is_right
        assert "to the bit" in reach_verdict(findings, RIGHT).sentence


def test_the_limit_is_the_share_that_four_audits_of_five_find_after_the_correction():
    """Two-sided at 5% over 11 tests: 2.84 sd; one-sided 80%: 0.84."""
    assert make_findings(share(chance=2.0)).limit == pytest.approx(2 * (2.838 + 0.842), abs=0.01)
    assert Findings(NoFinding("there is 1 pair"), {}, {}).limit == np.inf


def test_flagged_tests_are_those_below_the_level_in_their_order():
    assert make_findings(square=0.049, share=0.01, few=0.051).flagged_tests == ["share", "square"]
    assert make_findings(square=0.049).p == 0.049
    assert make_findings().flagged_tests == []


@cache
def of_a_residue(pairs, remaining=1.0):
    return run_joint_tests(
        population(pairs, remaining, np.random.default_rng(0)), np.random.default_rng(0), 199
    )


def test_two_pairs_have_all_tests_but_those_of_u_lira():
    assert list(of_a_residue(3)) == ["share", *list(TESTS)[5:], *list(TESTS)[1:5]]
    # which needs 3 pairs
    assert of_a_residue(2).keys() == TESTS.keys() - {"u-lira_auroc", "u-lira_tpr_1"}
    assert of_a_residue(3)["share"].p < 0.05
    assert of_a_residue(3)["rmia_auroc"].p < 0.05


@pytest.mark.parametrize("name", ["original", "oracle", "sham", "trained to remember"])
def test_a_wrong_control_takes_the_audits_power(name):
    controls = {control.name: control for control in RIGHT}
    controls[name] = replace(controls[name], flagged=not controls[name].flagged)
    verdict = reach_verdict(make_findings(share=1e-3), list(controls.values()))
    assert verdict.kind == "no power"
    assert name in verdict.sentence
    assert reach_verdict(make_findings(share=1e-3), RIGHT).kind == "residue"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("original", "no power"),
        ("oracle", "no power"),
        ("sham", "no power"),
        ("trained to remember", "none found"),
    ],
)
def test_only_the_control_trained_to_remember_may_be_left_out(name, kind):
    rest = [control for control in RIGHT if control.name != name]
    assert reach_verdict(make_findings(), rest).kind == kind
    assert reach_verdict(make_findings(), [*rest, judge_control(name, None)]).kind == kind


def test_sentences_of_controls_say_how_they_came_out_or_that_they_were_not_run():
    words = reach_verdict(
        make_findings(), [Control("oracle", True), Control("original", True)]
    ).sentence
    assert "oracle was flagged, but must not" in words
    assert "sham was not run" in words
    assert "was flagged, as it must" in Control("original", True).sentence
    assert "passed, but must not" in Control("trained to remember", False).sentence
    assert "was not run" in Control("trained to remember", None).sentence


def test_an_original_that_over_forgets_is_wrong_and_an_oracle_that_does_is_flagged():
    assert not judge_control("original", make_findings(share(-50), share=1e-3)).is_right
    # an oracle passes in neither direction
    assert judge_control("oracle", make_findings(share(-50), share=1e-3)).flagged


@pytest.mark.parametrize("test", ["u_lira_tpr_1", "rmia_auroc", "square", "few", "scatter"])
def test_any_test_can_flag_an_oracle(test):
    assert not judge_control("oracle", make_findings(**{test: 1e-3})).is_right


def test_a_control_that_must_pass_is_flagged_below_1_percent():
    assert not judge_control("oracle", make_findings(share(4), share=0.02)).flagged
    assert judge_control("oracle", make_findings(share(4), share=0.005)).flagged
    assert judge_control("original", make_findings(share(4), share=0.02)).flagged


def test_the_redraws_suffice_for_a_leak_that_only_one_test_finds():
    """Another test's luck is as rare in one redraw each, so the smallest corrected p is tests / (redraws + 1)."""
    assert len(TESTS) / (module.REDRAWS + 1) <= module.STRICT
    assert len(TESTS) / (module.SHAM_REDRAWS + 1) <= module.ALPHA
    assert judge_control("oracle", make_findings(share(4), few=module.STRICT)).flagged
    assert make_findings(few=module.ALPHA).flagged_tests == ["few"]
    assert not make_findings(min_p=module.ALPHA).powerless_tests


@pytest.mark.parametrize("seed", range(2))
def test_a_sham_pool_passes(seed, monkeypatch):
    monkeypatch.setattr(module, "SHAM_REDRAWS", 99)
    pairs = population(4, 1.0, np.random.default_rng(seed))
    assert judge_sham_pools(pairs, np.random.default_rng(seed)).is_right


@pytest.mark.parametrize("test", ["share", "few"])
def test_the_sham_is_flagged_if_any_test_rejects(test, monkeypatch):
    monkeypatch.setattr(
        module,
        "run_joint_tests",
        lambda pairs, generator, redraws: {test: Significance(0.01, 0.001)},
    )
    pairs = population(4, 1.0, np.random.default_rng(0))
    assert not judge_sham_pools(pairs, np.random.default_rng(0)).is_right


def test_holm_by_hand():
    """0.01 * 3; 0.03 * 2; then 0.04 * 1, which must not fall below the one before it."""
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06}
    )
    assert holm({"a": 0.4, "b": 0.9}) == pytest.approx({"a": 0.8, "b": 0.9})
    assert holm({"a": 0.7, "b": 0.9}) == {"a": 1, "b": 1}
    assert holm({"only": 0.2}) == {"only": 0.2}
    assert holm({}) == {}


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_p_outside_0_and_1_is_refused(p):
    with pytest.raises(ValueError, match="'a'"):
        holm({"a": p})
