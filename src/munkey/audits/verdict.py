"""Controls and verdicts: an audit may say what it found only where it finds what is known to be there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from munkey.audits.attacks.residual_share import Share, residual_share
from munkey.audits.evidence import Pairs, sham
from munkey.audits.registry import Finding, Refused
from munkey.audits.roc import Attack

ALPHA = 0.05
STRICT = 0.01  # for controls that must pass: by chance, only one audit in a hundred is called powerless for each
SHAMS = 1000

Kind = Literal["residue", "none found", "over-forgets", "no power"]
ControlName = Literal["nothing done", "oracle", "sham", "trained to remember"]
MUST_BE_FLAGGED: dict[ControlName, bool] = {
    "nothing done": True,
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


def p_values(share: Share, attacks: Mapping[str, Finding]) -> dict[str, float]:
    """The p-values of a row, corrected by Holm: of the share (against chance) and of each attack that has one."""
    swapped = {name: each.p for name, each in attacks.items() if isinstance(each, Attack) and each.p is not None}
    return holm({"residual-share": share.p_chance} | swapped)


def control(name: ControlName, share: Share | None, attacks: Mapping[str, Finding]) -> Control:
    """A control from its own findings. share: None where it was not run."""
    if share is None:
        return Control(name, None)
    level = ALPHA if MUST_BE_FLAGGED[name] else STRICT
    found = min(p_values(share, attacks).values()) < level
    return Control(name, found and (share.contrast > 0 or not MUST_BE_FLAGGED[name]))


def sham_control(pairs: Pairs, generator: np.random.Generator, shams: int = SHAMS) -> Control:
    """Whether sham pools are flagged more often than the 5 % that chance allows (binomial, one-sided, 1 %)."""
    from scipy.stats import binomtest

    findings = [residual_share(sham(pairs, generator)) for _ in range(shams)]
    rejected = sum(isinstance(each, Share) and each.p_chance < ALPHA for each in findings)
    return Control("sham", bool(binomtest(rejected, shams, ALPHA, alternative="greater").pvalue < STRICT))


def verdict(share: Share | Refused, attacks: Mapping[str, Finding], controls: Sequence[Control]) -> Verdict:
    """What may be said of a row. attacks: findings by name; refused ones count for nothing.

    "none found" says above which share a residue would have been found: the upper end of the share's interval. Where
    that is 100 % or more, the audit cannot tell the row from doing nothing: no power.
    """
    known = {each.name: each for each in controls}
    listed = [known.get(name, Control(name, None)) for name in MUST_BE_FLAGGED]  # what is not there did not run
    wrong = [each.words for each in listed if not each.right]
    if wrong:
        return powerless("; ".join(wrong))
    if isinstance(share, Refused):
        return powerless(share.why)
    p, left = p_values(share, attacks), share.share
    bounds = f"[{left.low:.0f}, {left.high:.0f}]" if math.isfinite(left.high) else "[unbounded]"
    interval = f"{left.value:.0f} % {bounds}"
    if share.contrast < 0 and p["residual-share"] < ALPHA:
        return Verdict("over-forgets", f"over-forgets: {interval}, further from training than never seen")
    if min(p.values()) < ALPHA:
        found = f"{interval} of what training put there is left"
        told = f"an attack tells the deleted samples apart, with no more margin: {interval}"
        return Verdict("residue", f"residue: {told if share.contrast < 0 else found}")
    if left.high >= 100:
        return powerless(f"as much as {left.high:.0f} % may be left" if math.isfinite(left.high) else "no bound holds")
    return Verdict("none found", f"these attacks found no more than {max(math.ceil(left.high), 0)} %")


def powerless(why: str) -> Verdict:
    return Verdict("no power", f"this audit has no power here: {why}")
