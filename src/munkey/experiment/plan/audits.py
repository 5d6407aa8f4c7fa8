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
from munkey.settings import format_knob_value, shorten_knobs
from munkey.unlearn.contract import METHODS, Method

PATHS = (DEPLOYED, "softmax", "image", "token")  # of a family with pathways


def attacks(need: Need) -> list[Callable[..., Finding]]:
    """Return the attacks that an audit's job finds through the registry, whose code its result depends on."""
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

    def list_systems(self, dataset: str) -> list[PlannedSystem]:
        """Return all systems of an audit, with the controls of the ablated family if it is audited.

        Raises ValueError if no method can be audited.
        """
        methods = self._methods
        if not methods:
            raise ValueError(
                f"nothing to audit: each method ({', '.join(self.params.methods)}) forgets whole classes alone, and"
                f" audit.pool_of is {self.settings.pool_of}; make it class, or add to `methods`"
            )
        methods_by_family: dict[str, list[Method]] = {}
        for method in methods:
            methods_by_family.setdefault(method.original.name, []).append(method)
        systems = []
        for name, methods_of_family in methods_by_family.items():
            family = FAMILIES[name]
            systems.append(self._make_system(dataset, "nothing", family, family.original))
            for method in methods_of_family:
                systems.append(self._make_system(dataset, "method", family, method.name))
            systems.append(self._make_system(dataset, "oracle", family, family.oracle))
        ablated = memory_family()
        if ablated.name in methods_by_family and self.settings.control_pairs:
            method_name = self.plan.ablated_method.name
            systems.append(self._make_system(dataset, "control nothing", ablated, ablated.original))
            systems.append(self._make_system(dataset, "control", ablated, method_name))
        return systems

    def list_runs(self, dataset: str) -> list[Evaluation]:
        """Return the evaluations of an audit: each model of each pair, before and after forgetting."""
        layout = self.plan.layout
        rate = rate_name(self.settings.pool / 2)
        runs = []
        for system in self.list_systems(dataset):
            change = _get_case(system["role"])
            family = FAMILIES[system["family"]]
            subset = self._get_subset(system["name"])
            for seed, logits in enumerate(system["logits"]):
                place = {"case": f"{dataset}/{change}", "seed": seed}
                record = fill(layout.record, **place, subset=subset, system=system["name"])
                training = record
                if system["name"] in METHODS:
                    training = fill(layout.record, **place, subset="full", system=family.original)
                runs.append(
                    Evaluation(
                        dataset=dataset,
                        case=change,
                        rate=rate,
                        seed=seed,
                        method=system["name"],
                        logits=logits,
                        record=record,
                        training=training,
                        forget=self.plan.half(dataset, seed),
                    )
                )
        return runs

    def list_grid_settings(self, dataset: str) -> list[Setting]:
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
            # The family may add the logits of another one, its head. That head is also queried alone.
            section = self.params.for_case(case).get_family_section(ablated)
            heads = ablated.list_borrowed_sections(section)
            alone: list[str] = []
            for method in self.params.methods:
                if self.params.method(method).family in heads:
                    alone += self._list_logits(case, method, pairs)
            settings.append(
                Setting(
                    name=name,
                    knobs=self._get_knobs(case),
                    before=self._list_logits(case, ablated.original, pairs),
                    after=self._list_logits(case, self.plan.ablated_method.name, pairs),
                    alone=alone,
                )
            )
        return settings

    def _get_knobs(self, case: str) -> dict[str, object]:
        """Return the values in a case of all knobs that the grid changes anywhere."""
        sections = self.params.for_case(case).model_dump()
        values: dict[str, object] = {}
        for point in self.params.audit_grid.values():
            for knob in point:
                # sections["inference"]["k"] for inference.k
                values[knob] = reduce(getitem, knob.split("."), sections)
        return values

    def _list_logits(self, case: str, system: str, pairs: int) -> list[str]:
        """Return the files of a system's logits, of both models of each pair."""
        subset = self._get_subset(system)
        logits = fill(self.plan.layout.logits, case=case, subset=subset, system=system)
        return [fill(logits, seed=seed) for seed in range(2 * pairs)]

    def _get_subset(self, system: str) -> str:
        if system in self.plan.originals:
            return "full"
        return self.subset

    def _make_system(self, dataset: str, role: Role, family: Family, name: str) -> PlannedSystem:
        """Return a system of an audit: its description, its inputs, and the files with its answers."""
        title = get_title(family, name)
        pairs = self.settings.pairs
        if role == "oracle":
            pairs = self.settings.oracles
        elif role.startswith("control"):
            pairs = self.settings.control_pairs
            title = family.title
            names = shorten_knobs(self.settings.control)
            for knob, value in self.settings.control.items():
                title += f", {names[knob]} {format_knob_value(value)}"
        paths = [DEPLOYED]
        if family.has_pathways:
            paths = list(PATHS)
        return {
            "name": name,
            "title": title,
            "role": role,
            "family": family.name,
            "paths": paths,
            "logits": self._list_logits(f"{dataset}/{_get_case(role)}", name, pairs),
        }

    def list_memories(self, dataset: str) -> list[MemoryFiles]:
        """Return the unlearned systems of the main run that hold a memory, with their originals."""
        system = self.plan.layout.system
        memories: list[MemoryFiles] = []
        for run in self.plan.list_main_runs(dataset):
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

    def list_memory_files(self, dataset: str) -> list[str]:
        """Return the files of all memories that `list_memories` returns."""
        paths: set[str] = set()
        for memory in self.list_memories(dataset):
            paths.update(memory["files"])
            paths.add(memory["forget"])
        return sorted(paths)

    def list_deleting_methods(self) -> list[str]:
        """Return the methods that need no data: they drop rows of a memory, or parts of a model."""
        return [name for name in self.params.methods if not METHODS[name].needs]

    def list_halves(self, dataset: str) -> list[str]:
        """Return the half of the pool that each seed is trained on and forgets."""
        pairs = max(self.settings.pairs, self.settings.oracles, self.settings.control_pairs)
        return self._list_halves(dataset, pairs)

    def list_grid_halves(self, dataset: str) -> list[str]:
        """Return the half that each seed of the grid is trained on and forgets."""
        return self._list_halves(dataset, self.settings.grid_pairs)

    def _list_halves(self, dataset: str, pairs: int) -> list[str]:
        return [self.plan.half(dataset, seed) for seed in range(2 * pairs)]


def get_title(family: Family, system: str) -> str:
    """Return the title of a system in tables and figures."""
    titles = {family.original: family.original_title, family.oracle: family.oracle_title}
    return titles.get(system) or METHODS[system].title


def _get_case(role: Role) -> str:
    if role.startswith("control"):
        return f"{AUDIT}control"
    return f"{AUDIT}pool"
