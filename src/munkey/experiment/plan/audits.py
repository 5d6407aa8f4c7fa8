"""The systems that an audit trains, unlearns and asks, in pairs, which swap halves of a pool (docs/audits.md).

Seeds 2p and 2p + 1 are pair p: each is trained on the half of the pool that the other never sees,
and forgets it.
"""

from collections.abc import Callable
from functools import reduce
from operator import getitem

from munkey.audits.family_audit import DEPLOYED, Role
from munkey.audits.grid import Setting
from munkey.audits.main_run import MemoryFiles
from munkey.audits.read_evidence import PlannedSystem
from munkey.audits.registry import AUDITS, Finding, Need
from munkey.core.paths import fill
from munkey.evaluation.records import Evaluation
from munkey.experiment.params.load import memory_family, rate_name
from munkey.experiment.plan.cases import AUDIT
from munkey.experiment.plan.plan import Plan
from munkey.models.family import FAMILIES, Family
from munkey.settings import knob_text, short_names
from munkey.unlearn.contract import METHODS, Method

PATHS = (DEPLOYED, "softmax", "image", "token")  # of a family with pathways


def attacks(need: Need) -> list[Callable[..., Finding]]:
    """Return the attacks that an audit's script finds through the registry: their code counts for its result."""
    return [audit.run for audit in AUDITS.values() if audit.needs == need]


class AuditPlan:
    """The audits of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params
        self.settings = plan.params.audit

    @property
    def subset(self) -> str:
        """The name of the subset of systems that have forgotten their half."""
        return f"rate{rate_name(self.settings.pool / 2)}"

    @property
    def in_paper(self) -> list[str]:
        """The data sets whose audits the report shows; none if no method can forget half of a pool."""
        if self.settings.in_paper and self._methods:
            return self.params.datasets
        return []

    @property
    def _methods(self) -> list[Method]:
        """The methods that can forget a half of the pool."""
        methods = list(map(self.params.method, self.params.methods))
        if self.settings.pool_of == "class":
            return methods
        return [method for method in methods if not method.whole_classes]

    def systems_of(self, dataset: str) -> list[PlannedSystem]:
        """Return all systems of an audit, with the controls of the ablated family if it is audited.

        Raises ValueError if no method can be audited.
        """
        methods = self._methods
        if not methods:
            raise ValueError(
                f"nothing to audit: each method ({', '.join(self.params.methods)}) forgets whole classes alone, and"
                f" audit.pool_of is {self.settings.pool_of}; make it class, or add to `methods`"
            )
        methods_of: dict[str, list[Method]] = {}
        for method in methods:
            methods_of.setdefault(method.original.name, []).append(method)
        systems = []
        for name, of_family in methods_of.items():
            family = FAMILIES[name]
            systems.append(self._system(dataset, "nothing", family, family.original))
            for method in of_family:
                systems.append(self._system(dataset, "method", family, method.name))
            systems.append(self._system(dataset, "oracle", family, family.oracle))
        ablated = memory_family()
        if ablated.name in methods_of and self.settings.control_pairs:
            systems.append(self._system(dataset, "control nothing", ablated, ablated.original))
            deleted = self.plan.ablated_method.name
            systems.append(self._system(dataset, "control", ablated, deleted))
        return systems

    def runs_of(self, dataset: str) -> list[Evaluation]:
        """Return the evaluations behind an audit: each model of each pair, before and after it has forgotten its half."""
        layout = self.plan.layout
        rate = rate_name(self.settings.pool / 2)
        runs = []
        for system in self.systems_of(dataset):
            change = _case_of(system["role"])
            family = FAMILIES[system["family"]]
            subset = self._subset_of(system["name"])
            for seed, logits in enumerate(system["logits"]):
                place = {"case": f"{dataset}/{change}", "seed": seed}
                record = fill(layout.record, **place, subset=subset, system=system["name"])
                training = record
                if system["name"] in METHODS:
                    training = fill(layout.record, **place, subset="full", system=family.original)
                half = self.plan.half(dataset, seed)
                runs.append(
                    Evaluation(
                        dataset, change, rate, seed, system["name"], logits, record, training, half
                    )
                )
        return runs

    def grid_of(self, dataset: str) -> list[Setting]:
        """Return the ablated family before and after deletion, for each point of the grid.

        A point whose parameters are those of the pool has the pool's models.
        """
        ablated = memory_family()
        pairs = self.settings.grid_pairs
        pool = f"{dataset}/{AUDIT}pool"
        settings = []
        for name in self.params.audit_grid:
            case = f"{dataset}/{AUDIT}{name}"
            if self.params.for_case(case) == self.params.for_case(pool):
                case = pool
            # the family may add the logits of another one, its head, which is then asked alone, too
            heads = ablated.list_borrowed_sections(self.params.for_case(case).of_family(ablated))
            alone: list[str] = []
            for method in self.params.methods:
                if self.params.method(method).family in heads:
                    alone += self._logits(case, method, pairs)
            settings.append(
                Setting(
                    name=name,
                    knobs=self._knobs(case),
                    before=self._logits(case, ablated.original, pairs),
                    after=self._logits(case, self.plan.ablated_method.name, pairs),
                    alone=alone,
                )
            )
        return settings

    def _knobs(self, case: str) -> dict[str, object]:
        """Return the values of all knobs that the grid changes anywhere, as they hold in a case."""
        sections = self.params.for_case(case).model_dump()
        values: dict[str, object] = {}
        for point in self.params.audit_grid.values():
            for knob in point:
                values[knob] = reduce(getitem, knob.split("."), sections)
        return values

    def _logits(self, case: str, system: str, pairs: int) -> list[str]:
        subset = self._subset_of(system)
        logits = fill(self.plan.layout.logits, case=case, subset=subset, system=system)
        return [fill(logits, seed=seed) for seed in range(2 * pairs)]

    def _subset_of(self, system: str) -> str:
        if system in self.plan.originals:
            return "full"
        return self.subset

    def _system(self, dataset: str, role: Role, family: Family, name: str) -> PlannedSystem:
        case = f"{dataset}/{_case_of(role)}"
        pairs = {"oracle": self.settings.oracles, "control": self.settings.control_pairs}
        logits = self._logits(case, name, pairs.get(role.split()[0], self.settings.pairs))
        title = title_of(family, name)
        if role.startswith("control"):
            title = family.title
            names = short_names(self.settings.control)
            for knob, value in self.settings.control.items():
                title += f", {names[knob]} {knob_text(value)}"
        asked_paths = [DEPLOYED]
        if family.has_pathways:
            asked_paths = list(PATHS)
        return {
            "name": name,
            "title": title,
            "role": role,
            "family": family.name,
            "paths": asked_paths,
            "logits": logits,
        }

    def memories_of(self, dataset: str) -> list[MemoryFiles]:
        """Return the main run's unlearned systems that hold a memory, with their originals, for every seed and rate."""
        system = self.plan.layout.system
        memories: list[MemoryFiles] = []
        for run in self.plan.main_of(dataset):
            if run.method not in METHODS:
                continue
            family = self.params.method(run.method).original
            if not family.has_memory:
                continue
            before = fill(
                system, case=dataset, seed=run.seed, subset="full", system=family.original
            )
            after = fill(
                system, case=dataset, seed=run.seed, subset=f"rate{run.rate}", system=run.method
            )
            key = run.key | {"title": METHODS[run.method].title}
            memories.append({"key": key, "files": [before, after], "forget": run.forget})
        return memories

    def files_of_memories(self, dataset: str) -> list[str]:
        """Return all files of these memories."""
        paths: set[str] = set()
        for memory in self.memories_of(dataset):
            paths.update(memory["files"])
            paths.add(memory["forget"])
        return sorted(paths)

    def deleting(self) -> list[str]:
        """Return the methods that delete without any data: they drop rows, or parts of a model."""
        return [name for name in self.params.methods if not METHODS[name].needs]

    def halves_of(self, dataset: str) -> list[str]:
        """Return the half of the pool that each seed is trained on and forgets."""
        pairs = max(self.settings.pairs, self.settings.oracles, self.settings.control_pairs)
        return self._halves(dataset, pairs)

    def grid_halves_of(self, dataset: str) -> list[str]:
        """Return the same for the seeds of the grid."""
        return self._halves(dataset, self.settings.grid_pairs)

    def _halves(self, dataset: str, pairs: int) -> list[str]:
        return [self.plan.half(dataset, seed) for seed in range(2 * pairs)]


def title_of(family: Family, system: str) -> str:
    """Return the title of a system in tables and figures."""
    titles = {family.original: family.original_title, family.oracle: family.oracle_title}
    return titles.get(system) or METHODS[system].title


def _case_of(role: Role) -> str:
    if role.startswith("control"):
        return f"{AUDIT}control"
    return f"{AUDIT}pool"
