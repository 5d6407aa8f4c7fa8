"""Controls and verdicts: every control can fail, and then nothing is said; words are those of the design."""

from dataclasses import replace

import numpy as np
import pytest

from munkey.audits.attacks.residual_share import Share, residual_share
from munkey.audits.attacks.u_lira import u_lira
from munkey.audits.evidence import Pairs
from munkey.audits.registry import Estimate, Refused
from munkey.audits.roc import Attack
from munkey.audits.verdict import Control, control, holm, p_values, sham_control, verdict
from tests.audits.inputs import population

RIGHT = [
    Control("nothing done", True),
    Control("oracle", False),
    Control("sham", False),
    Control("trained to remember", True),
]


def share(value=0.0, low=-3.0, high=2.2, p=0.5):
    return Share(value / 100, (), Estimate(value, low, high), 1.0, p, p)


def attack(p):
    return Attack(Estimate(50, 49, 51), Refused(""), Refused(""), p)


@pytest.mark.parametrize(
    ("found", "attacks", "kind", "words"),
    [
        (share(4, 2, 6, 1e-4), {}, "residue", "residue: 4 % [2, 6] of what training put there is left"),
        (share(-40, -57, -23, 1e-6), {"u-lira": 0.01}, "over-forgets", "over-forgets: -40 % [-57, -23], further"),
        (share(), {}, "none found", "these attacks found no more than 3 %"),
        (share(-9, -20, -0.5), {}, "none found", "these attacks found no more than 0 %"),
        (share(), {"u-lira": 0.01, "rmia": 0.5}, "residue", "residue: 0 % [-3, 2]"),
        (share(p=0.04), {"u-lira": 0.9}, "none found", "no more than 3 %"),  # 2 * 0.04 by Holm
        (share(-5, p=0.04), {"u-lira": 0.01}, "over-forgets", "over-forgets"),
        (share(-5, p=0.4), {"u-lira": 0.01}, "residue", "with no more margin: -5 % [-3, 2]"),
        (share(40, -50, 130), {}, "no power", "this audit has no power here: as much as 130 % may be left"),
        (share(40, -np.inf, np.inf), {}, "no power", "no bound holds"),
        (share(40, -np.inf, np.inf, 1e-9), {}, "residue", "residue: 40 % [unbounded]"),
        (Refused("there is 1 pair"), {}, "no power", "this audit has no power here: there is 1 pair"),
    ],
)
def test_a_verdict_says_what_these_attacks_found(found, attacks, kind, words):
    said = verdict(found, {name: attack(p) for name, p in attacks.items()}, RIGHT)
    assert said.kind == kind and words in said.words
    assert "forgotten" not in said.words


def test_p_values_are_corrected_together_and_refused_attacks_count_for_nothing():
    found = p_values(share(p=0.01), {"u-lira": attack(0.02), "rmia": Refused("too few"), "loss": attack(None)})
    assert found == pytest.approx({"residual-share": 0.02, "u-lira": 0.02})


@pytest.mark.parametrize("name", ["nothing done", "oracle", "sham", "trained to remember"])
def test_each_control_that_comes_out_wrong_takes_the_audits_power(name):
    wrong = [replace(each, flagged=not each.flagged) if each.name == name else each for each in RIGHT]
    said = verdict(share(4, 2, 6, 1e-4), {}, wrong)
    assert said.kind == "no power" and "this audit has no power here" in said.words and name in said.words
    assert verdict(share(4, 2, 6, 1e-4), {}, RIGHT).kind == "residue"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("nothing done", "no power"), ("oracle", "no power"), ("sham", "no power"), ("trained to remember", "none found")],
)
def test_of_the_controls_only_that_with_another_model_may_be_left_out(name, kind):
    rest = [each for each in RIGHT if each.name != name]
    assert verdict(share(), {}, rest).kind == kind
    assert verdict(share(), {}, [*rest, control(name, None, {})]).kind == kind


def test_controls_say_how_they_came_out_also_those_that_were_not_run():
    words = verdict(share(), {}, [Control("oracle", True), Control("nothing done", True)]).words
    assert words.endswith("oracle was flagged, but must not; sham was not run")
    assert Control("nothing done", True).words == "nothing done was flagged, as it must"
    assert Control("trained to remember", False).words == "trained to remember passed, but must not"
    assert Control("trained to remember", None).words == "trained to remember was not run"


@pytest.mark.parametrize("name", ["nothing done", "trained to remember"])
def test_a_control_that_must_be_flagged_passes_where_models_memorize_nothing(name):
    for effect, flagged in ((1.0, True), (0.0, False)):
        nothing = population(6, 0.0, np.random.default_rng(0), effect=effect, spread=0.0).nothing
        found = control(name, residual_share(nothing), {"u-lira": u_lira(nothing, np.random.default_rng(0))})
        assert (found.flagged, found.right) == (flagged, flagged)


def test_to_over_forget_is_not_to_be_flagged_as_doing_nothing_must_be():
    assert not control("nothing done", share(-50, p=1e-9), {}).right
    assert control("oracle", share(-50, p=1e-9), {}).flagged  # an oracle passes in neither direction


def test_the_oracle_passes_and_is_flagged_where_it_saw_the_pool():
    nothing = population(4, 0.0, np.random.default_rng(0)).nothing
    saw = nothing.margins
    unseen = Pairs(population(4, 0.0, np.random.default_rng(1)).margins, nothing.halves, nothing)
    assert control("oracle", residual_share(unseen), {}).right
    assert not control("oracle", residual_share(Pairs(saw, nothing.halves, nothing)), {}).right


def test_a_control_that_must_pass_is_held_against_1_percent():
    assert not control("oracle", share(4, p=0.02), {}).flagged and control("oracle", share(4, p=0.005), {}).flagged
    assert control("nothing done", share(4, p=0.02), {}).flagged


@pytest.mark.parametrize("seed", range(3))
def test_the_sham_passes(seed):
    pairs = population(4, 1.0, np.random.default_rng(seed))
    assert sham_control(pairs, np.random.default_rng(seed)).right


def test_the_sham_is_flagged_where_test_samples_do_not_share_one_distribution(monkeypatch):
    """Its p-values are as if too small an sd had been taken for what chance does."""
    from munkey.audits.attacks import residual_share as module

    honest = module.chance_sd
    monkeypatch.setattr(module, "chance_sd", lambda pairs: honest(pairs) / 1.5)
    assert not sham_control(population(4, 1.0, np.random.default_rng(0)), np.random.default_rng(0)).right


def test_holm_by_hand():
    """0.01 * 3; 0.03 * 2; then 0.04 * 1, which must not fall below the one before it."""
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert holm({"a": 0.4, "b": 0.9}) == pytest.approx({"a": 0.8, "b": 0.9})
    assert holm({"a": 0.7, "b": 0.9}) == {"a": 1, "b": 1}
    assert holm({"only": 0.2}) == {"only": 0.2} and holm({}) == {}


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(ValueError, match="'a'"):
        holm({"a": p})
