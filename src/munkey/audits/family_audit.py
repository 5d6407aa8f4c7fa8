"""The audit of a family: a row of findings and a verdict for each system and path."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
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
        The margins (S, N) by path, among them the deployed one.
    logits
        The logits (M, n, C) of the deployed path on the samples that model 0 deleted: of that
        model alone, or of all oracles.
    diverged
        Which models diverged, and why. Such a system has no margins.
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
        The halves of all models.
    generator
        The source of bootstraps and redraws.
    """

    family: str
    systems: Sequence[AuditedSystem]
    halves: Halves
    generator: np.random.Generator
    _findings: dict[tuple[AuditedSystem, str], Findings] = field(default_factory=dict, init=False)

    def make_lines(self) -> list[Line]:
        """Return the rows of all systems, oracles among them, in the order of the systems.

        The row of a system that diverged says so. If a system that others are compared with
        diverged, their rows say so, too.
        """
        lines = []
        for system in self.systems:
            lines += self._make_lines(system)
        return lines

    def _explain_unaudited(self, system: AuditedSystem) -> str:
        """Return why a system cannot be audited; empty if it can."""
        if system.diverged:
            return f"{DIVERGED}, {system.diverged}"
        needed_roles: list[Role] = ["nothing", "oracle"]
        if system.role == "control":
            needed_roles.append("control nothing")
        for other in self.systems:
            if other.role in needed_roles and other.diverged:
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
            if system.role in CONTROLS and not self._explain_unaudited(system):
                findings = self._collect_findings(system, DEPLOYED)
                controls.append(judge_control(CONTROLS[system.role], findings))
        nothing = self._make_pairs(self._find_system("nothing"), DEPLOYED)
        controls.append(judge_sham_pools(nothing, self.generator))
        return controls

    def _find_system(self, role: Role) -> AuditedSystem:
        return next(system for system in self.systems if system.role == role)

    def _make_pairs(self, system: AuditedSystem, path: str) -> Pairs:
        """Return the pairs of a system on a path, with those of doing nothing to compare with."""
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
        nothing = self._make_pairs(self._find_system(before), DEPLOYED)
        return Pairs(margins, halves, nothing)

    def _collect_findings(self, system: AuditedSystem, path: str) -> Findings:
        """Return the findings for a system on a path, collected once: a control is a row, too."""
        if (system, path) not in self._findings:
            pairs = self._make_pairs(system, path)
            self._findings[system, path] = collect_findings(pairs, self.generator)
        return self._findings[system, path]

    def _make_lines(self, system: AuditedSystem) -> list[Line]:
        """Return the rows of a system, one for each path."""
        facts: Line = {
            "family": self.family,
            "name": system.name,
            "title": system.title,
            "role": system.role,
        }
        why = self._explain_unaudited(system)
        if why:
            return [facts | {"path": DEPLOYED, "pairs": 0, "verdict": DIVERGED, "words": why}]
        findings_by_path = {}
        p_values = {}
        for path in system.margins:
            findings = self._collect_findings(system, path)
            findings_by_path[path] = findings
            if findings.tests:
                p_values[path] = findings.p
        p_over_paths = holm(p_values)
        lines = []
        for path, findings in findings_by_path.items():
            line = facts | {"path": path, "pairs": len(system.margins[path]) // 2}
            line |= collect_numbers(findings.share, findings.attacks)
            for name, test in findings.tests.items():
                line[f"{name}_p"] = test.p
            if findings.tests:
                line |= {"p": findings.p, "limit": findings.limit}
            line["p_paths"] = p_over_paths.get(path)
            if path == DEPLOYED:
                line |= self._conclude(system, findings)
            lines.append(line)
        return lines

    def _describe_power(self, pairs: int) -> str:
        """Describe the power of simulated audits of this size and memorization."""
        nothing = self._collect_findings(self._find_system("nothing"), DEPLOYED)
        u_lira = nothing.attacks["u-lira"]
        auroc = u_lira.auroc.value if isinstance(u_lira, Attack) else None
        return describe_power(self.halves.first.shape[1], pairs, auroc)

    def _conclude(self, system: AuditedSystem, findings: Findings) -> Line:
        """Return the verdict on a method, or the outcome of a control, by its deployed path."""
        if system.role == "method":
            power = self._describe_power(len(system.margins[DEPLOYED]) // 2)
            verdict = reach_verdict(findings, self.controls, power)
            line: Line = {
                "verdict": verdict.kind,
                "words": verdict.words,
                "flagged": " ".join(findings.flagged_tests),
            }
        else:
            name = CONTROLS.get(system.role)
            line = {"verdict": "control", "words": "what the control is a share of"}
            for control in self.controls:
                if control.name == name:
                    line["words"] = f"control: {control.words}"
                    break
        comparison = OracleComparison(system.logits, self._find_system("oracle").logits)
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
