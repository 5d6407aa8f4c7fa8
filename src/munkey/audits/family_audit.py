"""One row for each system and path that is audited: what was found, beside which controls, and in which words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np

from munkey.audits.attacks.distance import distance
from munkey.audits.attacks.klom import klom
from munkey.audits.attacks.residual_share import Share, residual_share
from munkey.audits.evidence import Compared, Halves, Pairs
from munkey.audits.registry import AUDITS, Estimate, Finding, Refused
from munkey.audits.verdict import Control, ControlName, control, holm, p_values, sham_control, verdict

Role = Literal["nothing", "method", "oracle", "control nothing", "control"]
DEPLOYED = "deployed"  # the path that answers users
ATTACKS = ("u-lira", "rmia")  # with a p of their own
CONTROLS: dict[Role, ControlName] = {"nothing": "nothing done", "oracle": "oracle", "control": "trained to remember"}
Line = dict[str, object]
Findings = tuple[Share | Refused, dict[str, Finding]]  # the share, and what each attack found


@dataclass(frozen=True, eq=False)
class AuditedSystem:
    """A system of an audit. Models 2p and 2p + 1 are a pair.

    margins: (S, N) by path, the deployed one among them; logits: (M, n, C) of the deployed path on the samples that the
    first pair's first model forgot, of that model alone, or of all oracles.
    """

    name: str
    title: str
    role: Role
    margins: Mapping[str, np.ndarray]
    logits: np.ndarray


@dataclass(frozen=True, eq=False)
class FamilyAudit:
    """What was asked of one family. halves: of as many models as any system has; generator: of bootstraps and swaps."""

    family: str
    systems: Sequence[AuditedSystem]
    halves: Halves
    generator: np.random.Generator

    def lines(self) -> list[Line]:
        """The rows, those of the control last; oracles, with which the others are compared, have a row too."""
        return [line for system in self.systems for line in self._lines(system)]

    @cached_property
    def controls(self) -> list[Control]:
        """Doing nothing and the model that keeps must be flagged, oracles and sham pools must not."""
        controls = []
        for system in self.systems:
            if system.role in CONTROLS:
                share, attacks = self._findings(system, DEPLOYED)
                own = None if isinstance(share, Refused) else share
                controls.append(control(CONTROLS[system.role], own, attacks))
        return [*controls, sham_control(self._pairs(self._only("nothing"), DEPLOYED), self.generator)]

    def _only(self, role: Role) -> AuditedSystem:
        return next(system for system in self.systems if system.role == role)

    def _pairs(self, system: AuditedSystem, path: str) -> Pairs:
        margins = system.margins[path]
        halves = Halves(self.halves.deleted[: len(margins)], self.halves.absent[: len(margins)], self.halves.test)
        if system.role in ("nothing", "control nothing") and path == DEPLOYED:
            return Pairs(margins, halves)
        before: Role = "control nothing" if system.role.startswith("control") else "nothing"
        return Pairs(margins, halves, self._pairs(self._only(before), DEPLOYED))

    @cached_property
    def _findings(self) -> Callable[[AuditedSystem, str], Findings]:
        """Of a system on a path. A control is a row too, and is attacked once."""

        def findings(system: AuditedSystem, path: str) -> Findings:
            pairs = self._pairs(system, path)
            return residual_share(pairs), {name: AUDITS[name].run(pairs, self.generator) for name in ATTACKS}

        return cache(findings)

    def _lines(self, system: AuditedSystem) -> list[Line]:
        findings = {path: self._findings(system, path) for path in system.margins}
        smallest = {
            path: min(p_values(share, attacks).values())
            for path, (share, attacks) in findings.items()
            if isinstance(share, Share)
        }
        over_paths = holm(smallest)
        return [
            {
                **{"family": self.family, "name": system.name, "title": system.title, "role": system.role},
                **{"path": path, "pairs": len(system.margins[path]) // 2},
                **numbers(share, attacks),
                **{"p": smallest.get(path), "p_paths": over_paths.get(path)},
                **(self._conclusion(system, share, attacks) if path == DEPLOYED else {}),
            }
            for path, (share, attacks) in findings.items()
        ]

    def _conclusion(self, system: AuditedSystem, share: Share | Refused, attacks: Mapping[str, Finding]) -> Line:
        """What is said of a system by its deployed path: the verdict, and its distance to the oracles.

        The verdict is on a method; of any other system it says how it did as a control.
        """
        if system.role == "method":
            judged = verdict(share, attacks, self.controls)
            line: Line = {"verdict": judged.kind, "words": judged.words}
        else:
            name = CONTROLS.get(system.role)
            words = (f"control: {each.words}" for each in self.controls if each.name == name)
            line = {"verdict": "control", "words": next(words, "what the control is a share of")}
        apart = distance(Compared(system.logits, self._only("oracle").logits), self.generator)
        spread = klom(self._pairs(system, DEPLOYED), self.generator)
        if not isinstance(apart, Refused) and system.role != "oracle":
            line |= {"js": 1000 * apart.value.value, "js_floor": 1000 * apart.floor.value}
            line |= {"js_ratio": apart.ratio.value}
        return line | ({} if isinstance(spread, Refused) else {"klom": spread.value, "klom_floor": spread.floor})


def numbers(share: Share | Refused, attacks: Mapping[str, Finding]) -> Line:
    """Percent but for the contrast, in sd of test margins. What was refused is left out."""
    line: Line = {}
    if isinstance(share, Share):
        line |= {"contrast": share.contrast, **share.share.columns("share")}
        line |= {"chance": share.chance, "p_chance": share.p_chance, "p_pairs": share.p_pairs}
    for name, finding in attacks.items():
        for number in ("auroc", "tpr_1", "tpr_5"):
            if isinstance(estimate := getattr(finding, number, None), Estimate):
                line |= estimate.columns(f"{name}_{number}")
        line[f"{name}_p"] = getattr(finding, "p", None)
    return line
