"""One row for each system and path that is audited: what was found, beside which controls, and in which words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np

from munkey.audits.attacks.distance import distance
from munkey.audits.attacks.residual_share import Share
from munkey.audits.attacks.strata import Strata
from munkey.audits.attacks.tail import Tail
from munkey.audits.evidence import Compared, Halves, Pairs
from munkey.audits.power import power_words
from munkey.audits.registry import Estimate, Finding, Refused
from munkey.audits.roc import Attack
from munkey.audits.verdict import Control, ControlName, Findings, control, findings, holm, sham_control, verdict
from munkey.core.diverged import DIVERGED

Role = Literal["nothing", "method", "oracle", "control nothing", "control"]
DEPLOYED = "deployed"  # the path that answers users
CONTROLS: dict[Role, ControlName] = {"nothing": "original", "oracle": "oracle", "control": "trained to remember"}
Line = dict[str, object]


@dataclass(frozen=True, eq=False)
class AuditedSystem:
    """A system of an audit. Models 2p and 2p + 1 are a pair.

    margins: (S, N) by path, the deployed one among them; logits: (M, n, C) of the deployed path on the samples that the
    first pair's first model forgot, of that model alone, or of all oracles. diverged: which models did, and why; a
    system of which one did has no margins.
    """

    name: str
    title: str
    role: Role
    margins: Mapping[str, np.ndarray]
    logits: np.ndarray
    diverged: str = ""


@dataclass(frozen=True, eq=False)
class FamilyAudit:
    """What was asked of one family. halves: as many as any system has models; generator: of bootstraps and redraws."""

    family: str
    systems: Sequence[AuditedSystem]
    halves: Halves
    generator: np.random.Generator

    def lines(self) -> list[Line]:
        """The rows, those of the control last; oracles, with which the others are compared, have a row too.

        A system that diverged has a row that says so; where one did that the others are compared with, all have.
        """
        return [line for system in self.systems for line in self._lines(system)]

    def _unaudited(self, system: AuditedSystem) -> str:
        """Why a system cannot be audited; empty where it can."""
        if system.diverged:
            return f"{DIVERGED}, {system.diverged}"
        needed: list[Role] = ["nothing", "oracle"]
        if system.role == "control":
            needed.append("control nothing")
        for other in self.systems:
            if other.role in needed and other.diverged:
                return f"not audited: its {CONTROLS.get(other.role, 'original')} {DIVERGED}, {other.diverged}"
        return ""

    @cached_property
    def controls(self) -> list[Control]:
        """Doing nothing and the model that keeps must be flagged, oracles and sham pools must not."""
        controls = []
        if any(system.diverged for system in self.systems if system.role in ("nothing", "oracle")):
            return []
        for system in self.systems:
            if system.role in CONTROLS and not self._unaudited(system):
                controls.append(control(CONTROLS[system.role], self._findings(system, DEPLOYED)))
        return [*controls, sham_control(self._pairs(self._only("nothing"), DEPLOYED), self.generator)]

    def _only(self, role: Role) -> AuditedSystem:
        return next(system for system in self.systems if system.role == role)

    def _pairs(self, system: AuditedSystem, path: str) -> Pairs:
        margins = system.margins[path]
        seen = (self.halves.deleted[: len(margins)], self.halves.absent[: len(margins)])
        halves = Halves(*seen, self.halves.test, self.halves.units)
        if system.role in ("nothing", "control nothing") and path == DEPLOYED:
            return Pairs(margins, halves)
        before: Role = "control nothing" if system.role.startswith("control") else "nothing"
        return Pairs(margins, halves, self._pairs(self._only(before), DEPLOYED))

    @cached_property
    def _findings(self) -> Callable[[AuditedSystem, str], Findings]:
        """Of a system on a path. A control is a row too, and is attacked once."""

        return cache(lambda system, path: findings(self._pairs(system, path), self.generator))

    def _lines(self, system: AuditedSystem) -> list[Line]:
        why = self._unaudited(system)
        if why:
            facts: Line = {"family": self.family, "name": system.name, "title": system.title, "role": system.role}
            return [{**facts, "path": DEPLOYED, "pairs": 0, "verdict": DIVERGED, "words": why}]
        by_path = {path: self._findings(system, path) for path in system.margins}
        over_paths = holm({path: found.p for path, found in by_path.items() if found.tests})
        return [
            {
                **{"family": self.family, "name": system.name, "title": system.title, "role": system.role},
                **{"path": path, "pairs": len(system.margins[path]) // 2},
                **numbers(found.share, found.attacks),
                **{f"{name}_p": each.p for name, each in found.tests.items()},
                **({"p": found.p, "limit": found.limit} if found.tests else {}),
                **{"p_paths": over_paths.get(path)},
                **(self._conclusion(system, found) if path == DEPLOYED else {}),
            }
            for path, found in by_path.items()
        ]

    def _power(self, pairs: int) -> str:
        """What simulated audits as large as this find, where as much was memorized."""
        before = self._findings(self._only("nothing"), DEPLOYED).attacks["u-lira"]
        auroc = before.auroc.value if isinstance(before, Attack) else None
        return power_words(self.halves.first.shape[1], pairs, auroc)

    def _conclusion(self, system: AuditedSystem, found: Findings) -> Line:
        """What is said of a system by its deployed path: the verdict, and its distance to the oracles.

        The verdict is on a method; of any other system it says how it did as a control.
        """
        if system.role == "method":
            judged = verdict(found, self.controls, self._power(len(system.margins[DEPLOYED]) // 2))
            line: Line = {"verdict": judged.kind, "words": judged.words, "flagged": " ".join(found.flagged)}
        else:
            name = CONTROLS.get(system.role)
            words = (f"control: {each.words}" for each in self.controls if each.name == name)
            line = {"verdict": "control", "words": next(words, "what the control is a share of")}
        apart = distance(Compared(system.logits, self._only("oracle").logits), self.generator)
        if not isinstance(apart, Refused) and system.role != "oracle":
            line |= {"js": 1000 * apart.value.value, "js_floor": 1000 * apart.floor.value}
            line |= {"js_ratio": apart.ratio.value}
        return line


def numbers(share: Share | Refused, attacks: Mapping[str, Finding]) -> Line:
    """Percent but for contrasts, in normal scores among test samples. What was refused is left out."""
    line: Line = {}
    if isinstance(share, Share):
        line |= {"contrast": share.contrast, **share.share.columns("share"), **share.training.columns("training")}
        line |= {"chance": share.chance, "p_pairs": share.p_pairs, "unit": share.unit}
    for name, finding in attacks.items():
        for number in ("auroc", "tpr_1", "tpr_5"):
            if isinstance(estimate := getattr(finding, number, None), Estimate):
                line |= estimate.columns(f"{name}_{number}")
        if isinstance(finding, Tail):
            line |= {"square": finding.square, "scatter": finding.scatter}
            line |= {"tenth_contrast": finding.tenth, **finding.tenth_share.columns("tenth")}
        if isinstance(finding, Strata):
            line |= {f"put_{stratum}": put for stratum, put in finding.put.items()}
            for stratum, of_stratum in finding.shares.items():
                line |= of_stratum.columns(f"share_of_{stratum}")
    return line
