"""Verdicts of audits. A verdict needs controls: systems whose result is known beforehand."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from munkey.audits.attacks import residual_share, rmia, tail, u_lira
from munkey.audits.attacks.residual_share import Share
from munkey.audits.evidence import Pairs, draw_sham_pairs
from munkey.audits.redraws import Significance, run_permutation_tests
from munkey.audits.registry import AUDITS, Finding, NoFinding
from munkey.audits.roc import make_rate_statistics

ALPHA = 0.05  # significance level of a row's tests, which are corrected together
# Significance level of controls that must not be flagged. By chance alone, each of these controls
# fails in one audit in a hundred.
STRICT = 0.01
REDRAWS = 1199  # number of redraws for a row; makes p a multiple of 1 / 1200
SHAMS = 40  # number of sham pools
SHAM_REDRAWS = 239  # number of redraws for each sham pool
ATTACKS = ("u-lira", "rmia", "tail", "strata")
TESTS = {  # all tests that are corrected together, and their names in verdicts
    "share": "the share",
    "u-lira_auroc": "U-LiRA's AUROC",
    "u-lira_tpr_1": "U-LiRA at 1% false alarms",
    "rmia_auroc": "RMIA's AUROC",
    "rmia_tpr_1": "RMIA at 1% false alarms",
    "square": "the mean square",
    "few": "the few that keep most",
    "scatter": "the scatter",
    "level": "the level of each model",
    "shape": "the shape of the scatter",
    "memory": "what is left by memory",
}

Kind = Literal["residue", "none found", "over-forgets", "no power"]
ControlName = Literal["original", "oracle", "sham", "trained to remember"]
MUST_BE_FLAGGED: dict[ControlName, bool] = {
    "original": True,
    "oracle": False,
    "sham": False,
    "trained to remember": True,
}
# Controls that need not be run: only MUNKEY can be trained to remember.
OPTIONAL_CONTROLS: frozenset[ControlName] = frozenset({"trained to remember"})


@dataclass(frozen=True)
class Control:
    """The outcome of a control.

    Attributes
    ----------
    flagged
        Whether the audit found a residue; None if the control was not run.
    """

    name: ControlName
    flagged: bool | None

    @property
    def is_right(self) -> bool:
        """Whether the outcome is as required. Only an optional control may be left out."""
        if self.flagged is None:
            return self.name in OPTIONAL_CONTROLS
        return self.flagged is MUST_BE_FLAGGED[self.name]

    @property
    def sentence(self) -> str:
        """The outcome and whether it is as required, without a final period."""
        if self.flagged is None:
            return f"{self.name} was not run"
        outcome = "was flagged" if self.flagged else "passed"
        judgment = "as it must" if self.is_right else "but must not"
        return f"{self.name} {outcome}, {judgment}"


@dataclass(frozen=True)
class Verdict:
    """The verdict of an audit on a method.

    Attributes
    ----------
    sentence
        The verdict in a sentence.
    """

    kind: Kind
    sentence: str


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust the p-values of several tests by Holm's method (Holm 1979).

    If all tests with adjusted p <= alpha are rejected, the probability of any false rejection is at
    most alpha. Raises ValueError for a value that is not a probability.
    """
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise ValueError(f"p = {p} of {name!r} is not between 0 and 1")
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        tests_left = len(p_values) - rank
        largest = max(largest, tests_left * p_values[name])
        adjusted[name] = min(largest, 1.0)
    return {name: adjusted[name] for name in p_values}


def run_joint_tests(
    pairs: Pairs, generator: np.random.Generator, redraws: int
) -> dict[str, Significance]:
    """Run all tests of a row, corrected together: of the share, the tail, and the attacks' rates.

    Requires at least two pairs. Attacks that need more pairs are left out.
    """
    statistics_functions = [residual_share.make_statistics(pairs), tail.make_statistics(pairs)]
    for name, scores in (("u-lira", u_lira.make_scores(pairs)), ("rmia", rmia.make_scores(pairs))):
        if not isinstance(scores, NoFinding):
            statistics_functions.append(make_rate_statistics(name, scores, pairs))

    def compute_statistics(first: np.ndarray) -> dict[str, float]:
        values: dict[str, float] = {}
        for compute in statistics_functions:
            values |= compute(first)
        return values

    return run_permutation_tests(compute_statistics, pairs.halves.first, generator, redraws)


@dataclass(frozen=True)
class Findings:
    """The findings of one row.

    Attributes
    ----------
    attacks
        The findings of the attacks, by name.
    tests
        The tests that could be run, by their names in `TESTS`.
    equal
        Whether partners answer alike for all samples, bit for bit.
    """

    share: Share | NoFinding
    attacks: Mapping[str, Finding]
    tests: Mapping[str, Significance]
    equal: bool = False

    @property
    def p(self) -> float:
        """The smallest corrected p-value; 1 if no test was run."""
        return min((test.p for test in self.tests.values()), default=1.0)

    @property
    def flagged_tests(self) -> list[str]:
        """The tests that found a residue, in the order of `TESTS`."""
        names = []
        for name in TESTS:
            if name in self.tests and self.tests[name].p <= ALPHA:
                names.append(name)
        return names

    @property
    def powerless_tests(self) -> list[str]:
        """The tests that were not run, or could not have found even the largest residue."""
        names = []
        for name in TESTS:
            if name not in self.tests or self.tests[name].min_p > ALPHA:
                names.append(name)
        return names

    @property
    def limit(self) -> float:
        """The share that four out of five audits detect, if equal for all samples, in percent.

        Infinite if no share could be measured.
        """
        from scipy.stats import norm

        if isinstance(self.share, NoFinding):
            return math.inf
        # The usual sample-size formula: quantiles of the corrected level and of a power of 80%.
        quantiles = norm.isf(ALPHA / 2 / len(self.tests)) + norm.isf(0.2)
        return float(quantiles) * self.share.chance


def collect_findings(pairs: Pairs, generator: np.random.Generator) -> Findings:
    """Collect the findings of a row.

    If partners have exactly equal margins, no tests are run.
    """
    share = residual_share.residual_share(pairs)
    attacks = {name: AUDITS[name].run(pairs, generator) for name in ATTACKS}
    tests: dict[str, Significance] = {}
    equal = pairs.partners_agree
    if not isinstance(share, NoFinding) and not equal:
        tests = run_joint_tests(pairs, generator, REDRAWS)
    return Findings(share, attacks, tests, equal)


def judge_control(name: ControlName, findings: Findings | None) -> Control:
    """Judge a control by its findings.

    A control counts as not run if its findings are None or contain no share.
    """
    if findings is None or isinstance(findings.share, NoFinding):
        return Control(name, flagged=None)
    if MUST_BE_FLAGGED[name]:
        return Control(name, flagged=findings.p <= ALPHA and findings.share.contrast > 0)
    return Control(name, flagged=findings.p <= STRICT)


def judge_sham_pools(pairs: Pairs, generator: np.random.Generator) -> Control:
    """Judge whether sham pools are flagged more often than by chance (one-sided binomial test)."""
    from scipy.stats import binomtest

    flagged_count = 0
    for _ in range(SHAMS):
        sham_pairs = draw_sham_pairs(pairs, generator)
        tests = run_joint_tests(sham_pairs, generator, SHAM_REDRAWS)
        # These p-values are corrected for all tests, so ALPHA is also the level of their minimum.
        if min(test.p for test in tests.values()) <= ALPHA:
            flagged_count += 1
    p = binomtest(flagged_count, SHAMS, ALPHA, alternative="greater").pvalue
    return Control("sham", flagged=bool(p < STRICT))


def reach_verdict(findings: Findings, controls: Sequence[Control], power: str = "") -> Verdict:
    """Return the verdict on a row.

    The audit has no power if a control did not have the required outcome, if no share could be
    measured, or if no test found a residue but the interval of the share reaches 100%, so that the row cannot be
    distinguished from doing nothing. The sentence of "none found" states the upper end of the
    interval, which is for the mean over this pool.

    Parameters
    ----------
    power
        A description of the power of simulated audits of this kind (munkey.audits.power).
    """
    controls_by_name = {control.name: control for control in controls}
    wrong_controls = []
    for name in MUST_BE_FLAGGED:
        control = controls_by_name.get(name, Control(name, flagged=None))  # if missing: not run
        if not control.is_right:
            wrong_controls.append(control.sentence)
    if wrong_controls:
        return make_powerless_verdict("; ".join(wrong_controls))
    if isinstance(findings.share, NoFinding):
        return make_powerless_verdict(findings.share.why)
    return _judge_row(findings, findings.share, power)


def _judge_row(findings: Findings, share: Share, power: str) -> Verdict:
    """Return the verdict on a row whose controls all had the required outcome."""
    estimate = share.share
    is_bounded = math.isfinite(estimate.high)
    if is_bounded:
        limits = f"{_format_decimal(estimate.low)}, {_format_decimal(estimate.high)}"
    else:
        limits = "unbounded"
    interval = f"{_format_decimal(estimate.value)}% [{limits}]"
    flagged_tests = findings.flagged_tests
    if "share" in flagged_tests:
        if share.contrast < 0:
            return Verdict(
                "over-forgets",
                f"over-forgets: {interval}, further from training than never seen",
            )
        return Verdict("residue", f"residue: {interval} of what training put there is left")
    if flagged_tests:
        traces = "; ".join(_describe_test(name, findings) for name in flagged_tests)
        return Verdict("residue", f"residue: {traces}; on average {interval} is left")
    if findings.equal:
        return Verdict(
            "none found", "deleted and never seen samples are answered alike, to the bit"
        )
    if estimate.high >= 100:
        limit = f"as much as {estimate.high:.0f}% may be left" if is_bounded else "no bound holds"
        return make_powerless_verdict(limit)
    sentence = (
        f"these attacks found no more than {max(math.ceil(estimate.high), 0)}% on average,"
        f" and find {math.ceil(findings.limit)}% left of each in four audits of five"
    )
    if power:
        sentence += f"; {power}"
    if findings.powerless_tests:
        unable = ", ".join(TESTS[name] for name in findings.powerless_tests)
        sentence += f"; {unable} could not find anything"
    return Verdict("none found", sentence)


def format_whole(value: float) -> str:
    """Format a number without decimals; never as -0."""
    return f"{round(value) or 0:d}"


def _format_decimal(value: float) -> str:
    """Format a number with one decimal; never as -0.0."""
    return f"{round(value, 1) or 0:.1f}"


def _describe_test(name: str, findings: Findings) -> str:
    """Describe the finding of a test, with its number."""
    # A test of an attack is named ATTACK_NUMBER, such as u-lira_tpr_1.
    attack, _, number = name.partition("_")
    if attack in findings.attacks:
        estimate = getattr(findings.attacks[attack], number)
        if number == "auroc":
            return f"{TESTS[name]} {estimate.value:.1f}"
        return f"{TESTS[name]} finds {estimate.value:.1f}% of them"
    finding = findings.attacks["tail"]
    assert isinstance(finding, tail.Tail)
    descriptions = {
        "square": f"samples differ {finding.square:.1f} times as much as by chance (mean square)",
        "few": f"the tenth that keeps most keeps {format_whole(finding.tenth_share.value)}%",
        "scatter": (
            f"answers scatter {finding.scatter:.2f} times as much as where never seen (mean square)"
        ),
        "memory": "what is left varies with what was memorized",
    }
    return descriptions.get(name, f"{TESTS[name]} differs")


def make_powerless_verdict(why: str) -> Verdict:
    """Return the verdict "no power" with its reason."""
    return Verdict("no power", f"this audit has no power here: {why}")
