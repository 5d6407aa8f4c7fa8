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


def found(own=None, *, min_p=0.001, **p):
    """p: of tests, by name, without the hyphen of U-LiRA's; 0.5 where not named."""
    named = {name: p.get(name.replace("u-lira", "u_lira"), 0.5) for name in TESTS}
    return Findings(
        own or share(), ATTACKS, {name: Significance(each, min_p) for name, each in named.items()}
    )


@pytest.mark.parametrize(
    ("findings", "kind", "words"),
    [
        (
            found(share(4, 2, 6), share=1e-3),
            "residue",
            "residue: 4% [2, 6] of what training put there is left",
        ),
        (
            found(share(-40, -57, -23), share=1e-3, square=1e-3),
            "over-forgets",
            "-40% [-57, -23], further",
        ),
        (
            found(),
            "none found",
            "these attacks found no more than 3% on average, and find 4% left of each in four audits of five",
        ),
        (found(share(-9, -20, -0.5)), "none found", "these attacks found no more than 0%"),
        (
            found(share(-0.3, -0.4, 0.2), u_lira_auroc=0.01),
            "residue",
            "U-LiRA's AUROC 57.3; on average 0% [0, 0] is",
        ),
        (
            found(rmia_tpr_1=0.01),
            "residue",
            "RMIA at 1% false alarms finds 4.1% of them; on average 0% [-3, 2]",
        ),
        (
            found(square=0.01, few=0.01),
            "residue",
            "2.5 times as much as by chance (mean square); the tenth",
        ),
        (found(few=0.049), "residue", "the tenth that keeps most keeps 22%; on average"),
        (found(level=0.01), "residue", "residue: the level of each model differs; on average"),
        (found(scatter=0.01), "residue", "answers scatter 1.64 times as much as where never seen"),
        (found(share(-5), few=0.01), "residue", "the tenth that keeps most"),
        (
            found(share(40, -50, 130)),
            "no power",
            "this audit has no power here: as much as 130% may be left",
        ),
        (found(share(40, -np.inf, np.inf)), "no power", "no bound holds"),
        (found(share(40, -np.inf, np.inf), share=1e-3), "residue", "residue: 40% [unbounded]"),
        (
            Findings(NoFinding("there is 1 pair"), {}, {}),
            "no power",
            "this audit has no power here: there is 1 pair",
        ),
    ],
)
def test_a_verdict_says_what_these_attacks_found(findings, kind, words):
    said = reach_verdict(findings, RIGHT)
    assert said.kind == kind and words in said.sentence
    assert "forgotten" not in said.sentence and "-0" not in said.sentence


def test_where_none_is_found_the_verdict_says_what_simulated_audits_of_its_kind_find():
    said = reach_verdict(found(), RIGHT, "5% kept whole: 7 of 30").sentence
    assert "in four audits of five; 5% kept whole: 7 of 30" in said
    assert (
        "7 of 30"
        not in reach_verdict(
            found(share(4, 2, 6), share=1e-3), RIGHT, "5% kept whole: 7 of 30"
        ).sentence
    )


def test_of_an_attack_that_could_not_have_found_anything_the_verdict_says_so():
    assert "could not find" not in reach_verdict(found(), RIGHT).sentence
    without = Findings(
        share(), ATTACKS, {name: Significance(0.5, 0.01) for name in TESTS if "u-lira" not in name}
    )
    said = reach_verdict(without, RIGHT).sentence
    assert said.endswith("; U-LiRA's AUROC, U-LiRA at 1% false alarms could not find anything")
    assert reach_verdict(found(min_p=0.06), RIGHT).sentence.count("the share") == 1
    assert found(min_p=0.06).powerless_tests == list(TESTS)


def test_of_what_is_left_nowhere_to_the_bit_nothing_else_is_said():
    exact = Share(0, (0.0, 0.0), Estimate(0, 0, 0), Estimate(0, 0, 0), 0, 1, 1)
    said = reach_verdict(found(exact), RIGHT)
    assert (said.kind, said.sentence) == (
        "none found",
        "deleted and never seen samples are answered alike, to the bit",
    )


def test_where_partners_answer_alike_to_the_bit_no_cut_of_the_pool_can_flag_them():
    for seed in range(5):
        pairs = population(4, 0.0, np.random.default_rng(seed))
        exact = replace(pairs, margins=np.repeat(pairs.margins[::2], 2, axis=0))
        found = module.collect_findings(exact, np.random.default_rng(0))
        assert (found.tests, found.flagged_tests, found.p) == ({}, [], 1) and judge_control(
            "oracle", found
        ).is_right
        assert reach_verdict(found, RIGHT).sentence.endswith("answered alike, to the bit")


def test_the_limit_is_what_a_test_of_the_share_finds_in_four_audits_of_five_after_the_correction():
    """Two-sided at 5% over 11 tests: 2.84 sd; one-sided 80%: 0.84."""
    assert found(share(chance=2.0)).limit == pytest.approx(2 * (2.838 + 0.842), abs=0.01)
    assert Findings(NoFinding("there is 1 pair"), {}, {}).limit == np.inf


def test_what_flags_a_row_are_the_tests_below_the_level_in_their_order():
    assert found(square=0.049, share=0.01, few=0.051).flagged_tests == ["share", "square"]
    assert found(square=0.049).p == 0.049 and found().flagged_tests == []


@cache
def of_a_residue(pairs, left=1.0):
    return run_joint_tests(
        population(pairs, left, np.random.default_rng(0)), np.random.default_rng(0), 199
    )


def test_all_is_tested_that_can_be():
    assert list(of_a_residue(3)) == ["share", *list(TESTS)[5:], *list(TESTS)[1:5]]
    # which needs 3 pairs
    assert of_a_residue(2).keys() == TESTS.keys() - {"u-lira_auroc", "u-lira_tpr_1"}
    assert of_a_residue(3)["share"].p < 0.05 and of_a_residue(3)["rmia_auroc"].p < 0.05


@pytest.mark.parametrize("name", ["original", "oracle", "sham", "trained to remember"])
def test_each_control_that_comes_out_wrong_takes_the_audits_power(name):
    wrong = [
        replace(each, flagged=not each.flagged) if each.name == name else each for each in RIGHT
    ]
    said = reach_verdict(found(share=1e-3), wrong)
    assert (
        said.kind == "no power"
        and "this audit has no power here" in said.sentence
        and name in said.sentence
    )
    assert reach_verdict(found(share=1e-3), RIGHT).kind == "residue"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("original", "no power"),
        ("oracle", "no power"),
        ("sham", "no power"),
        ("trained to remember", "none found"),
    ],
)
def test_of_the_controls_only_that_with_another_model_may_be_left_out(name, kind):
    rest = [each for each in RIGHT if each.name != name]
    assert reach_verdict(found(), rest).kind == kind
    assert reach_verdict(found(), [*rest, judge_control(name, None)]).kind == kind


def test_controls_say_how_they_came_out_also_those_that_were_not_run():
    words = reach_verdict(found(), [Control("oracle", True), Control("original", True)]).sentence
    assert words.endswith("oracle was flagged, but must not; sham was not run")
    assert Control("original", True).sentence == "original was flagged, as it must"
    assert (
        Control("trained to remember", False).sentence == "trained to remember passed, but must not"
    )
    assert Control("trained to remember", None).sentence == "trained to remember was not run"


def test_to_over_forget_is_not_to_be_flagged_as_doing_nothing_must_be():
    assert not judge_control("original", found(share(-50), share=1e-3)).is_right
    # an oracle passes in neither direction
    assert judge_control("oracle", found(share(-50), share=1e-3)).flagged


@pytest.mark.parametrize("test", ["u_lira_tpr_1", "rmia_auroc", "square", "few", "scatter"])
def test_a_control_is_held_against_every_test(test):
    assert not judge_control("oracle", found(**{test: 1e-3})).is_right


def test_a_control_that_must_pass_is_held_against_1_percent():
    assert not judge_control("oracle", found(share(4), share=0.02)).flagged
    assert judge_control("oracle", found(share(4), share=0.005)).flagged
    assert judge_control("original", found(share(4), share=0.02)).flagged


def test_a_leak_that_one_test_alone_sees_reaches_every_level():
    """Another test's luck is as rare in one redraw each, so the smallest corrected p is tests / (redraws + 1)."""
    assert len(TESTS) / (module.REDRAWS + 1) <= module.STRICT
    assert len(TESTS) / (module.SHAM_REDRAWS + 1) <= module.ALPHA
    assert judge_control("oracle", found(share(4), few=module.STRICT)).flagged
    assert (
        found(few=module.ALPHA).flagged_tests == ["few"]
        and not found(min_p=module.ALPHA).powerless_tests
    )


@pytest.mark.parametrize("seed", range(2))
def test_the_sham_passes(seed, monkeypatch):
    monkeypatch.setattr(module, "SHAM_REDRAWS", 99)
    pairs = population(4, 1.0, np.random.default_rng(seed))
    assert judge_sham_pools(pairs, np.random.default_rng(seed)).is_right


@pytest.mark.parametrize("test", ["share", "few"])
def test_the_sham_is_flagged_where_any_test_finds_something_in_samples_that_nobody_saw(
    test, monkeypatch
):
    monkeypatch.setattr(
        module,
        "run_joint_tests",
        lambda pairs, generator, redraws: {test: Significance(0.01, 0.001)},
    )
    assert not judge_sham_pools(
        population(4, 1.0, np.random.default_rng(0)), np.random.default_rng(0)
    ).is_right


def test_holm_by_hand():
    """0.01 * 3; 0.03 * 2; then 0.04 * 1, which must not fall below the one before it."""
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06}
    )
    assert holm({"a": 0.4, "b": 0.9}) == pytest.approx({"a": 0.8, "b": 0.9})
    assert holm({"a": 0.7, "b": 0.9}) == {"a": 1, "b": 1}
    assert holm({"only": 0.2}) == {"only": 0.2} and holm({}) == {}


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(ValueError, match="'a'"):
        holm({"a": p})
