"""What an audit trains, unlearns and asks: systems in pairs, which swap halves of a pool (docs/audits.md).

Seeds 2p and 2p + 1 are pair p: each is trained on the half of the pool that the other never sees, and forgets it.
"""

from munkey.audits.gather import Listed
from munkey.audits.rows import DEPLOYED, Role
from munkey.models.family import Family
from munkey.pipeline.cases import AUDIT
from munkey.pipeline.layout import fill
from munkey.pipeline.params import ablated, rate_name
from munkey.pipeline.plan import Plan
from munkey.unlearn.contract import METHODS

PATHS = (DEPLOYED, "softmax", "image", "token")  # of a family with pathways


class AuditPlan:
    """The audits of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.params, self.settings = plan, plan.params, plan.params.audit

    @property
    def subset(self) -> str:
        """How the systems are called that have forgotten their half."""
        return f"rate{rate_name(self.settings.pool / 2)}"

    def systems_of(self, dataset: str) -> list[Listed]:
        """All that is audited. A family that is made of keys has learned nothing, and is left out."""
        methods = [METHODS[name] for name in self.params.methods if METHODS[name].original.letter]
        families = list({method.original.name: method.original for method in methods}.values())
        systems = []
        for family in families:
            systems.append(self._system(dataset, "nothing", family, str(family.original)))
            systems += [
                self._system(dataset, "method", family, method.name)
                for method in methods
                if method.original.name == family.name
            ]
            systems.append(self._system(dataset, "oracle", family, str(family.oracle)))
        control: list[tuple[Role, str]] = [
            ("control nothing", str(ablated().original)),
            ("control", self.plan.ablated_method.name),
        ]
        return systems + [self._system(dataset, role, ablated(), name) for role, name in control]

    def _system(self, dataset: str, role: Role, family: Family, name: str) -> Listed:
        case = f"{dataset}/{AUDIT}{'control' if role.startswith('control') else 'pool'}"
        subset = "full" if role.endswith("nothing") else self.subset
        pairs = {"oracle": self.settings.oracles, "control": self.settings.control_pairs}
        seeds = range(2 * pairs.get(role.split()[0], self.settings.pairs))
        paths = [fill(self.plan.layout.logits, case=case, seed=s, subset=subset, system=name) for s in seeds]
        title = METHODS[name].title if name in METHODS else family.title
        return {
            "name": name,
            "title": title,
            "role": role,
            "family": family.name,
            "paths": list(PATHS) if family.has_pathways else list(PATHS[:1]),
            "logits": paths,
        }

    def halves_of(self, dataset: str) -> list[str]:
        """The half of the pool that each seed is trained on and forgets."""
        pairs = max(self.settings.pairs, self.settings.oracles, self.settings.control_pairs)
        return [fill(self.plan.layout.half, dataset=dataset, seed=seed) for seed in range(2 * pairs)]
