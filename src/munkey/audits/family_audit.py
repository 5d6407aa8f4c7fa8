"""The audit of a family: a row of findings and a verdict for each system and path."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np

from munkey.audits.attacks.distance import distance
from munkey.audits.attacks.residual_share import Share
from munkey.audits.attacks.strata import Strata
from munkey.audits.attacks.tail import Tail
from munkey.audits.evidence import Halves, OracleComparison, Pairs
from munkey.audits.power import describe_power
from munkey.audits.registry import Estimate, Finding, NoFinding
from munkey.audits.roc import Attack
from munkey.audits.verdict import (
    Control,
    ControlName,
    Findings,
    collect_findings,
    holm,
    judge_control,
    judge_sham_pools,
    reach_verdict,
)
from munkey.core.diverged import DIVERGED

Role = Literal["nothing", "method", "oracle", "control nothing", "control"]
DEPLOYED = "deployed"  # the path that answers users
CONTROLS: dict[Role, ControlName] = {
    "nothing": "original",
    "oracle": "oracle",
    "control": "trained to remember",
}
Line = dict[str, object]


@dataclass(frozen=True, eq=False)
class AuditedSystem:
    """A system of an audit. Models 2p and 2p + 1 are a pair.

    Attributes
    ----------
    margins
        (S, N) by path, among them the deployed one.
    logits
        (M, n, C), of the deployed path on the samples that model 0 deleted: of that model
        alone, or of all oracles.
    diverged
        Which models did, and why; such a system has no margins.
    """

    name: str
    title: str
    role: Role
    margins: Mapping[str, np.ndarray]
    logits: np.ndarray
    diverged: str = ""


@dataclass(frozen=True, eq=False)
class FamilyAudit:
    """The audit of one family.

    Attributes
    ----------
    halves
        Of all models.
    generator
        Of bootstraps and redraws.
    """

    family: str
    systems: Sequence[AuditedSystem]
    halves: Halves
    generator: np.random.Generator

    def lines(self) -> list[Line]:
        """Return the rows of all systems, oracles among them, in the order of the systems.

        The row of a system that diverged says so. If a system that others are compared with
        diverged, their rows say so, too.
        """
        lines = []
        for system in self.systems:
            lines += self._lines(system)
        return lines

    def _why_unaudited(self, system: AuditedSystem) -> str:
        """Return why a system cannot be audited; empty if it can."""
        if system.diverged:
            return f"{DIVERGED}, {system.diverged}"
        needed: list[Role] = ["nothing", "oracle"]
        if system.role == "control":
            needed.append("control nothing")
        for other in self.systems:
            if other.role in needed and other.diverged:
                name = CONTROLS.get(other.role, "original")
                return f"not audited: its {name} {DIVERGED}, {other.diverged}"
        return ""

    @cached_property
    def controls(self) -> list[Control]:
        """The controls; none if doing nothing or an oracle diverged."""
        for system in self.systems:
            if system.diverged and system.role in ("nothing", "oracle"):
                return []
        controls = []
        for system in self.systems:
            if system.role in CONTROLS and not self._why_unaudited(system):
                row = self._findings(system, DEPLOYED)
                controls.append(judge_control(CONTROLS[system.role], row))
        nothing = self._pairs(self._system_in_role("nothing"), DEPLOYED)
        controls.append(judge_sham_pools(nothing, self.generator))
        return controls

    def _system_in_role(self, role: Role) -> AuditedSystem:
        return next(system for system in self.systems if system.role == role)

    def _pairs(self, system: AuditedSystem, path: str) -> Pairs:
        margins = system.margins[path]
        halves = Halves(
            deleted=self.halves.deleted[: len(margins)],
            absent=self.halves.absent[: len(margins)],
            test=self.halves.test,
            units=self.halves.units,
        )
        if system.role in ("nothing", "control nothing") and path == DEPLOYED:
            return Pairs(margins, halves)
        before: Role = "control nothing" if system.role.startswith("control") else "nothing"
        return Pairs(margins, halves, self._pairs(self._system_in_role(before), DEPLOYED))

    @cached_property
    def _findings(self) -> Callable[[AuditedSystem, str], Findings]:
        """The findings for a system and a path; cached, since a control is a row, too."""
        return cache(
            lambda system, path: collect_findings(self._pairs(system, path), self.generator)
        )

    def _lines(self, system: AuditedSystem) -> list[Line]:
        facts: Line = {
            "family": self.family,
            "name": system.name,
            "title": system.title,
            "role": system.role,
        }
        why = self._why_unaudited(system)
        if why:
            return [facts | {"path": DEPLOYED, "pairs": 0, "verdict": DIVERGED, "words": why}]
        by_path = {}
        p_values = {}
        for path in system.margins:
            row = self._findings(system, path)
            by_path[path] = row
            if row.tests:
                p_values[path] = row.p
        over_paths = holm(p_values)
        lines = []
        for path, row in by_path.items():
            line = facts | {"path": path, "pairs": len(system.margins[path]) // 2}
            line |= collect_numbers(row.share, row.attacks)
            for name, test in row.tests.items():
                line[f"{name}_p"] = test.p
            if row.tests:
                line |= {"p": row.p, "limit": row.limit}
            line["p_paths"] = over_paths.get(path)
            if path == DEPLOYED:
                line |= self._conclusion(system, row)
            lines.append(line)
        return lines

    def _power(self, pairs: int) -> str:
        """Return the power of simulated audits of this size and memorization, in words."""
        before = self._findings(self._system_in_role("nothing"), DEPLOYED).attacks["u-lira"]
        auroc = before.auroc.value if isinstance(before, Attack) else None
        return describe_power(self.halves.first.shape[1], pairs, auroc)

    def _conclusion(self, system: AuditedSystem, row: Findings) -> Line:
        """Return the verdict on a method, or the outcome of a control, by its deployed path."""
        if system.role == "method":
            power = self._power(len(system.margins[DEPLOYED]) // 2)
            decision = reach_verdict(row, self.controls, power)
            line: Line = {
                "verdict": decision.kind,
                "words": decision.words,
                "flagged": " ".join(row.flagged_tests),
            }
        else:
            name = CONTROLS.get(system.role)
            line = {"verdict": "control", "words": "what the control is a share of"}
            for each in self.controls:
                if each.name == name:
                    line["words"] = f"control: {each.words}"
                    break
        comparison = OracleComparison(system.logits, self._system_in_role("oracle").logits)
        to_oracle = distance(comparison, self.generator)
        if not isinstance(to_oracle, NoFinding) and system.role != "oracle":
            line["js"] = 1000 * to_oracle.value.value
            line["js_floor"] = 1000 * to_oracle.floor.value
            line["js_ratio"] = to_oracle.ratio.value
        return line


def collect_numbers(share: Share | NoFinding, attacks: Mapping[str, Finding]) -> Line:
    """Return the numbers of a row: contrasts in normal scores, all others in percent."""
    line: Line = {}
    if isinstance(share, Share):
        line["contrast"] = share.contrast
        line |= share.share.columns("share")
        line |= share.training.columns("training")
        line |= {"chance": share.chance, "p_pairs": share.p_pairs, "unit": share.unit}
    for name, finding in attacks.items():
        for number in ("auroc", "tpr_1", "tpr_5"):
            estimate = getattr(finding, number, None)
            if isinstance(estimate, Estimate):
                line |= estimate.columns(f"{name}_{number}")
        if isinstance(finding, Tail):
            line |= {"square": finding.square, "scatter": finding.scatter}
            line["tenth_contrast"] = finding.tenth
            line |= finding.tenth_share.columns("tenth")
        if isinstance(finding, Strata):
            for stratum, put in finding.put.items():
                line[f"put_{stratum}"] = put
            for stratum, stratum_share in finding.shares.items():
                line |= stratum_share.columns(f"share_of_{stratum}")
    return line
