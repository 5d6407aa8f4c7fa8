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
from munkey.evaluation.records import DEPLOYED

Role = Literal["nothing", "method", "oracle", "control nothing", "control"]
CONTROLS: dict[Role, ControlName] = {  # the control that a system with this role serves as
    "nothing": "original",
    "oracle": "oracle",
    "control": "trained to remember",
}
Row = dict[str, object]


@dataclass(frozen=True, eq=False)
class AuditedSystem:
    """An audited system. Models 2p and 2p + 1 are a pair.

    Attributes
    ----------
    role
        What the system is in the audit. "nothing" is the original, which forgot nothing; the shares
        of methods are relative to it. "control" was trained to remember, and "control nothing" is
        its original.
    margins
        The margins (S, N) by path, including the deployed path.
    logits
        The logits (M, n, C) of the deployed path on the samples that model 0 deleted: those of
        model 0, or of all oracles.
    diverged
        Which models diverged, and why; empty if none did. A diverged system has no margins.
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
        The random generator of bootstraps and redraws.
    """

    family: str
    systems: Sequence[AuditedSystem]
    halves: Halves
    generator: np.random.Generator
    _findings: dict[tuple[AuditedSystem, str], Findings] = field(default_factory=dict, init=False)

    def make_rows(self) -> list[Row]:
        """Make the rows of all systems, including oracles, in the order of the systems.

        If a system, or one that it is compared with, has diverged, its row has the reason instead
        of numbers.
        """
        rows = []
        for system in self.systems:
            rows += self._make_system_rows(system)
        return rows

    def _explain_unaudited(self, system: AuditedSystem) -> str:
        """Return why a system cannot be audited, or an empty string if it can.

        A system cannot be audited if it, or a system that it is compared with, diverged.
        """
        if system.diverged:
            return f"{DIVERGED}, {system.diverged}"
        name_by_role: dict[Role, str] = {"nothing": "original", "oracle": "oracle"}
        if system.role == "control":
            name_by_role["control nothing"] = "original"
        for other in self.systems:
            if other.role in name_by_role and other.diverged:
                name = name_by_role[other.role]
                return f"not audited: its {name} {DIVERGED}, {other.diverged}"
        return ""

    @cached_property
    def controls(self) -> list[Control]:
        """The controls; none if the original or the oracle diverged."""
        for system in self.systems:
            if system.diverged and system.role in ("nothing", "oracle"):
                return []
        controls = []
        for system in self.systems:
            if system.role in CONTROLS and not self._explain_unaudited(system):
                findings = self._collect_findings(system, DEPLOYED)
                controls.append(judge_control(CONTROLS[system.role], findings))
        original_pairs = self._make_pairs(self._find_system("nothing"), DEPLOYED)
        controls.append(judge_sham_pools(original_pairs, self.generator))
        return controls

    def _find_system(self, role: Role) -> AuditedSystem:
        """Return the first system with this role, which must exist."""
        return next(system for system in self.systems if system.role == role)

    def _make_pairs(self, system: AuditedSystem, path: str) -> Pairs:
        """Return a system's pairs on a path, with those of its original as the reference.

        The deployed path of an original has no reference.
        """
        margins = system.margins[path]
        halves = Halves(
            deleted=self.halves.deleted[: len(margins)],
            absent=self.halves.absent[: len(margins)],
            test=self.halves.test,
            units=self.halves.units,
        )
        if system.role in ("nothing", "control nothing") and path == DEPLOYED:
            return Pairs(margins, halves)
        original: Role = "control nothing" if system.role.startswith("control") else "nothing"
        original_pairs = self._make_pairs(self._find_system(original), DEPLOYED)
        return Pairs(margins, halves, original_pairs)

    def _collect_findings(self, system: AuditedSystem, path: str) -> Findings:
        """Return the findings for a system on a path. Cached, because a control is also a row."""
        if (system, path) not in self._findings:
            pairs = self._make_pairs(system, path)
            self._findings[system, path] = collect_findings(pairs, self.generator)
        return self._findings[system, path]

    def _make_system_rows(self, system: AuditedSystem) -> list[Row]:
        """Make a row for each path of a system; one without numbers if it cannot be audited."""
        identity: Row = {
            "family": self.family,
            "name": system.name,
            "title": system.title,
            "role": system.role,
        }
        reason = self._explain_unaudited(system)
        if reason:
            return [identity | {"path": DEPLOYED, "pairs": 0, "verdict": DIVERGED, "words": reason}]
        findings_by_path = {}
        p_by_path = {}
        for path in system.margins:
            findings = self._collect_findings(system, path)
            findings_by_path[path] = findings
            if findings.tests:
                p_by_path[path] = findings.p
        # Each p is already corrected for the tests of its path; this also corrects for the paths.
        corrected_p_by_path = holm(p_by_path)
        rows = []
        for path, findings in findings_by_path.items():
            row = identity | self._make_path_row(system, path, findings)
            row["p_paths"] = corrected_p_by_path.get(path)
            if path == DEPLOYED:
                row |= self._conclude(system, findings)
            rows.append(row)
        return rows

    def _make_path_row(self, system: AuditedSystem, path: str, findings: Findings) -> Row:
        """Make the columns that depend only on the findings for one path."""
        row: Row = {"path": path, "pairs": _count_pairs(system, path), "equal": findings.equal}
        row |= collect_numbers(findings.share, findings.attacks)
        for name, test in findings.tests.items():
            row[f"{name}_p"] = test.p
        if findings.tests:
            row |= {"p": findings.p, "limit": findings.limit}
        return row

    def _describe_power(self, pairs: int) -> str:
        """Describe the power of simulated audits with about this pool size and memorization."""
        original_findings = self._collect_findings(self._find_system("nothing"), DEPLOYED)
        u_lira = original_findings.attacks["u-lira"]
        auroc = u_lira.auroc.value if isinstance(u_lira, Attack) else None
        return describe_power(self.halves.first.shape[1], pairs, auroc)

    def _conclude(self, system: AuditedSystem, findings: Findings) -> Row:
        """Return the verdict on a method or the outcome of a control, on the deployed path.

        The row also has the distance to the oracle, except for oracles.
        """
        if system.role == "method":
            power = self._describe_power(_count_pairs(system, DEPLOYED))
            verdict = reach_verdict(findings, self.controls, power)
            row: Row = {
                "verdict": verdict.kind,
                "words": verdict.sentence,
                "flagged": " ".join(findings.flagged_tests),
            }
        else:
            name = CONTROLS.get(system.role)
            row = {"verdict": "control", "words": "what the control is a share of"}
            for control in self.controls:
                if control.name == name:
                    row["words"] = f"control: {control.sentence}"
                    break
        comparison = OracleComparison(system.logits, self._find_system("oracle").logits)
        to_oracle = distance(comparison, self.generator)
        if not isinstance(to_oracle, NoFinding) and system.role != "oracle":
            row["js"] = 1000 * to_oracle.value.value
            row["js_floor"] = 1000 * to_oracle.floor.value
            row["js_ratio"] = to_oracle.ratio.value
        return row


def _count_pairs(system: AuditedSystem, path: str) -> int:
    """Return the number of pairs of models. Each model has one row of margins."""
    return len(system.margins[path]) // 2


def collect_numbers(share: Share | NoFinding, attacks: Mapping[str, Finding]) -> Row:
    """Collect the numbers of a row.

    Contrasts, including `put_STRATUM`, are in normal scores. Shares and rates are in percent.
    """
    row: Row = {}
    if isinstance(share, Share):
        row["contrast"] = share.contrast
        row |= share.share.make_columns("share")
        row |= share.training.make_columns("training")
        row |= {"chance": share.chance, "p_pairs": share.p_pairs, "unit": share.unit}
    for name, finding in attacks.items():
        for number in ("auroc", "tpr_1", "tpr_5"):
            estimate = getattr(finding, number, None)
            if isinstance(estimate, Estimate):
                row |= estimate.make_columns(f"{name}_{number}")
        if isinstance(finding, Tail):
            row |= {"square": finding.square, "scatter": finding.scatter}
            row["tenth_contrast"] = finding.tenth
            row |= finding.tenth_share.make_columns("tenth")
        if isinstance(finding, Strata):
            for stratum, put in finding.put.items():
                row[f"put_{stratum}"] = put
            for stratum, stratum_share in finding.shares.items():
                row |= stratum_share.make_columns(f"share_of_{stratum}")
    return row
