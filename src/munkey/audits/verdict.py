"""Controls and verdicts: an audit may say what it found only where it finds what is known to be there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from munkey.audits.attacks import residual_share, rmia, tail, u_lira
from munkey.audits.attacks.residual_share import Share
from munkey.audits.evidence import Pairs, sham
from munkey.audits.redraws import Significance, corrected
from munkey.audits.registry import AUDITS, Finding, Refused
from munkey.audits.roc import rate_tests

ALPHA = 0.05
STRICT = 0.01  # for controls that must pass: by chance, only one audit in a hundred is called powerless for each
REDRAWS = 1199
SHAMS, SHAM_REDRAWS = 40, 239
ATTACKS = ("u-lira", "rmia", "tail", "strata")
TESTS = {  # all that is corrected together, in words
    "share": "the share",
    "u-lira_auroc": "U-LiRA's AUROC",
    "u-lira_tpr_1": "U-LiRA at 1 % false alarms",
    "rmia_auroc": "RMIA's AUROC",
    "rmia_tpr_1": "RMIA at 1 % false alarms",
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
MAY_BE_LEFT_OUT: frozenset[ControlName] = frozenset({"trained to remember"})  # a model of its own, of MUNKEY only


@dataclass(frozen=True)
class Control:
    """flagged: whether the audit found something in it; None where the control was not run."""

    name: ControlName
    flagged: bool | None

    @property
    def right(self) -> bool:
        """Whether it came out as it must. One that was not run is right only if it may be left out."""
        if self.flagged is None:
            return self.name in MAY_BE_LEFT_OUT
        return self.flagged is MUST_BE_FLAGGED[self.name]

    @property
    def words(self) -> str:
        if self.flagged is None:
            return f"{self.name} was not run"
        said = "was flagged" if self.flagged else "passed"
        return f"{self.name} {said}, {'as it must' if self.right else 'but must not'}"


@dataclass(frozen=True)
class Verdict:
    kind: Kind
    words: str


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p of several tests, each of which is another chance to find something by luck.

    Reject those at most alpha, and the chance of any false rejection is at most alpha.
    Raises ValueError for what is not a probability.
    """
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise ValueError(f"p = {p} of {name!r} is not between 0 and 1")
    names = sorted(p_values, key=p_values.__getitem__)
    steps = [(len(names) - rank) * p_values[name] for rank, name in enumerate(names)]
    adjusted = dict(zip(names, np.maximum.accumulate(steps).clip(max=1).tolist(), strict=True)) if names else {}
    return {name: adjusted[name] for name in p_values}


def joint_tests(pairs: Pairs, generator: np.random.Generator, redraws: int) -> dict[str, Significance]:
    """All tests of a row, corrected together: the share, both rates of both attacks, and the tail. Needs two pairs."""
    scored = {"u-lira": u_lira.scores(pairs), "rmia": rmia.scores(pairs)}
    parts = [residual_share.statistics(pairs), tail.statistics(pairs)]
    parts += [rate_tests(name, each, pairs) for name, each in scored.items() if not isinstance(each, Refused)]

    def statistics(first: np.ndarray) -> dict[str, float]:
        return {name: value for part in parts for name, value in part(first).items()}

    return corrected(statistics, pairs.halves.first, generator, redraws)


@dataclass(frozen=True)
class Findings:
    """Of one row. attacks: what each found, or why it could not; tests: by name, as `TESTS`, of those that could be."""

    share: Share | Refused
    attacks: Mapping[str, Finding]
    tests: Mapping[str, Significance]

    @property
    def p(self) -> float:
        """The smallest corrected p; 1 where nothing could be tested."""
        return min((each.p for each in self.tests.values()), default=1.0)

    @property
    def flagged(self) -> list[str]:
        """The tests that found something, in the order of `TESTS`."""
        return [name for name in TESTS if name in self.tests and self.tests[name].p <= ALPHA]

    @property
    def powerless(self) -> list[str]:
        """The tests that could not have found anything, whatever was left."""
        return [name for name in TESTS if name not in self.tests or self.tests[name].least > ALPHA]

    @property
    def limit(self) -> float:
        """The share that is found in four audits of five if it is left of every sample alike, percent."""
        from scipy.stats import norm

        if isinstance(self.share, Refused):
            return math.inf
        return float(norm.isf(ALPHA / 2 / len(self.tests)) + norm.isf(0.2)) * self.share.chance


def findings(pairs: Pairs, generator: np.random.Generator) -> Findings:
    """What is found in a row. Where partners answer alike, to the bit, there is nothing to test."""
    share = residual_share.residual_share(pairs)
    attacks = {name: AUDITS[name].run(pairs, generator) for name in ATTACKS}
    untested = isinstance(share, Refused) or pairs.alike
    return Findings(share, attacks, {} if untested else joint_tests(pairs, generator, REDRAWS))


def control(name: ControlName, found: Findings | None) -> Control:
    """A control from its own findings. found: None where it was not run."""
    if found is None or isinstance(found.share, Refused):
        return Control(name, None)
    must = MUST_BE_FLAGGED[name]
    return Control(name, found.p <= (ALPHA if must else STRICT) and (found.share.contrast > 0 or not must))


def sham_control(pairs: Pairs, generator: np.random.Generator) -> Control:
    """Whether any test flags sham pools more often than the 5 % that chance allows (binomial, one-sided, 1 %)."""
    from scipy.stats import binomtest

    tests = [joint_tests(sham(pairs, generator), generator, SHAM_REDRAWS) for _ in range(SHAMS)]
    rejected = sum(min(each.p for each in found.values()) <= ALPHA for found in tests)
    return Control("sham", bool(binomtest(rejected, SHAMS, ALPHA, alternative="greater").pvalue < STRICT))


def verdict(found: Findings, controls: Sequence[Control], power: str = "") -> Verdict:
    """What may be said of a row.

    "none found" says above which share, on average over this pool: the upper end of the share's interval. Where that
    is 100 % or more, the audit cannot tell the row from doing nothing: no power. power: what simulated audits of this
    kind find (munkey.audits.power).
    """
    known = {each.name: each for each in controls}
    listed = [known.get(name, Control(name, None)) for name in MUST_BE_FLAGGED]  # what is not there did not run
    if wrong := [each.words for each in listed if not each.right]:
        return without_power("; ".join(wrong))
    if isinstance(found.share, Refused):
        return without_power(found.share.why)
    return _judged(found, found.share, power)


def _judged(found: Findings, share: Share, power: str) -> Verdict:
    left, flagged = share.share, found.flagged
    bounds = f"[{whole(left.low)}, {whole(left.high)}]" if math.isfinite(left.high) else "[unbounded]"
    interval = f"{whole(left.value)} % {bounds}"
    if "share" in flagged:
        if share.contrast < 0:
            return Verdict("over-forgets", f"over-forgets: {interval}, further from training than never seen")
        return Verdict("residue", f"residue: {interval} of what training put there is left")
    if flagged:
        told = "; ".join(_told(name, found) for name in flagged)
        return Verdict("residue", f"residue: {told}; on average {interval} is left")
    if not any(share.contrasts):
        return Verdict("none found", "deleted and never seen samples are answered alike, to the bit")
    if left.high >= 100:
        return without_power(
            f"as much as {left.high:.0f} % may be left" if math.isfinite(left.high) else "no bound holds"
        )
    unable = (
        f"; {', '.join(TESTS[name] for name in found.powerless)} could not find anything" if found.powerless else ""
    )
    most = f"these attacks found no more than {max(math.ceil(left.high), 0)} % on average"
    simulated = f"; {power}" if power else ""
    limit = f"find {math.ceil(found.limit)} % left of each in four audits of five"
    return Verdict("none found", f"{most}, and {limit}{simulated}{unable}")


def whole(value: float) -> str:
    """Without decimals, and without a sign where it is 0."""
    return f"{round(value) or 0:d}"


def _told(name: str, found: Findings) -> str:
    """What a test found, in words and with its figure."""
    attack, _, number = name.partition("_")
    if attack in found.attacks:
        estimate = getattr(found.attacks[attack], number)
        if number == "auroc":
            return f"{TESTS[name]} {estimate.value:.1f}"
        return f"{TESTS[name]} finds {estimate.value:.1f} % of them"
    few = found.attacks["tail"]
    assert isinstance(few, tail.Tail)
    told = {
        "square": f"samples differ {few.square:.1f} times as much as by chance (mean square)",
        "few": f"the tenth that keeps most keeps {whole(few.tenth_share.value)} %",
        "scatter": f"answers scatter {few.scatter:.2f} times as much as where never seen (mean square)",
        "memory": "what is left varies with what was memorized",
    }
    return told.get(name, f"{TESTS[name]} differs")


def without_power(why: str) -> Verdict:
    return Verdict("no power", f"this audit has no power here: {why}")
