"""The systems that an audit trains, unlearns and queries, in pairs that swap a pool's halves.

Seeds 2p and 2p + 1 are pair p. Each of its two models is trained on the half of the pool that the
other never sees, and then forgets it (docs/audits.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, reduce
from operator import getitem
from typing import TYPE_CHECKING

from munkey.core.console import warn
from munkey.core.knobs import format_knob_value, shorten_knobs
from munkey.core.paths import fill
from munkey.evaluation.records import DEPLOYED, Evaluation
from munkey.experiment.params.schema import memory_family, rate_name
from munkey.experiment.plan.plan import Plan, get_title
from munkey.models.family import FAMILIES, Family
from munkey.studies.audits.cases import CONTROL, POOL, PREFIX, list_grid_points
from munkey.studies.audits.settings import AuditSettings
from munkey.unlearn.contract import METHODS, Method

if TYPE_CHECKING:  # planning a run loads no attack
    from munkey.audits.family_audit import Role
    from munkey.audits.grid import Setting
    from munkey.audits.main_run import MemoryFiles
    from munkey.audits.read_evidence import PlannedSystem
    from munkey.audits.registry import Finding, Need

PATHS = (DEPLOYED, "softmax", "image", "token")  # how a family with pathways is queried


def list_attack_functions(need: Need) -> list[Callable[..., Finding]]:
    """List the functions of the registered attacks with this need.

    The result of an audit depends on their code.
    """
    from munkey.audits.registry import AUDITS

    _warn_of_refusals()
    return [audit.run for audit in AUDITS.values() if audit.needs == need]


@cache
def _warn_of_refusals() -> None:
    """Name the attacks that cannot be imported, once."""
    from munkey.audits.registry import AUDITS

    for refusal in AUDITS.refusals.values():
        warn(f"skipping what cannot be used: {refusal}")


class AuditPlan:
    """The audits of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params
        self.settings = plan.params.section(AuditSettings)

    @property
    def subset(self) -> str:
        """The subset of systems that have forgotten their half, as it is named in paths."""
        return f"rate{rate_name(self.settings.pool / 2)}"

    @property
    def in_paper(self) -> list[str]:
        """The data sets whose audits the report shows; none if no method can be audited."""
        if self.settings.in_paper and self._auditable_methods:
            return self.params.datasets
        return []

    @property
    def _auditable_methods(self) -> list[Method]:
        """The methods that can forget half of the pool."""
        methods = list(map(self.params.method, self.params.methods))
        if self.settings.pool_of == "class":
            return methods
        return [method for method in methods if not method.whole_classes]

    def list_systems(self, dataset: str) -> list[PlannedSystem]:
        """List all systems of an audit.

        They include controls if the ablated family is audited and `audit.control_pairs` is not 0.
        Raises ValueError if no method can be audited.
        """
        methods = self._auditable_methods
        if not methods:
            raise ValueError(
                f"nothing to audit: all methods ({', '.join(self.params.methods)}) can only forget"
                f" whole classes, but audit.pool_of is {self.settings.pool_of}; set it to class, or"
                " add other methods to `methods`"
            )
        methods_by_family: dict[str, list[Method]] = {}
        for method in methods:
            methods_by_family.setdefault(method.original.name, []).append(method)
        systems = []
        for family_name, family_methods in methods_by_family.items():
            family = FAMILIES[family_name]
            systems.append(self._make_system(dataset, "nothing", family, family.original))
            for method in family_methods:
                systems.append(self._make_system(dataset, "method", family, method.name))
            systems.append(self._make_system(dataset, "oracle", family, family.oracle))
        ablated = memory_family()
        if ablated.name in methods_by_family and self.settings.control_pairs:
            method_name = self.plan.ablated_method.name
            systems.append(self._make_system(dataset, "control nothing", ablated, ablated.original))
            systems.append(self._make_system(dataset, "control", ablated, method_name))
        return systems

    def list_runs(self, dataset: str) -> list[Evaluation]:
        """List the evaluations of an audit: one for each system and seed."""
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
                if system["name"] in METHODS:  # the training is that of the original
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
                        forget=self.get_half(dataset, seed),
                    )
                )
        return runs

    def list_grid_settings(self, dataset: str) -> list[Setting]:
        """List the settings of the audit's grid, each with the ablated family's logits.

        A setting with the same parameters as the pool uses the pool's models.
        """
        ablated = memory_family()
        pairs = self.settings.grid_pairs
        pool = f"{dataset}/{POOL}"
        settings: list[Setting] = []
        for name in list_grid_points(self.settings):
            case = f"{dataset}/{PREFIX}{name}"
            if self.params.for_case(case) == self.params.for_case(pool):
                case = pool
            # The family may add the logits of a head, which is another family. This head is also
            # audited on its own.
            section = self.params.for_case(case).get_family_section(ablated)
            heads = ablated.list_borrowed_sections(section)
            head_logits: list[str] = []
            for method in self.params.methods:
                if self.params.method(method).family in heads:
                    head_logits += self._list_logits(case, method, pairs)
            settings.append(
                {
                    "name": name,
                    "knobs": self._get_knobs(case),
                    "before": self._list_logits(case, ablated.original, pairs),
                    "after": self._list_logits(case, self.plan.ablated_method.name, pairs),
                    "alone": head_logits,
                }
            )
        return settings

    def _get_knobs(self, case: str) -> dict[str, object]:
        """Return the values that a case has for all knobs of the grid."""
        sections = self.params.for_case(case).model_dump()
        values: dict[str, object] = {}
        for point in list_grid_points(self.settings).values():
            for knob in point:
                # sections["inference"]["k"] for inference.k
                values[knob] = reduce(getitem, knob.split("."), sections)
        return values

    def _list_logits(self, case: str, system: str, pairs: int) -> list[str]:
        """List the logits files of a system, one for each model of each pair."""
        subset = self._get_subset(system)
        pattern = fill(self.plan.layout.logits, case=case, subset=subset, system=system)
        return [fill(pattern, seed=seed) for seed in range(2 * pairs)]

    def _get_subset(self, system: str) -> str:
        if system in self.plan.originals:
            return "full"
        return self.subset

    def _make_system(self, dataset: str, role: Role, family: Family, name: str) -> PlannedSystem:
        """Describe a system of an audit: its name, title, role, family, paths and logits files."""
        title = get_title(family, name)
        case = f"{dataset}/{_get_case(role)}"
        if role.startswith("control"):
            pairs = self.settings.control_pairs
            title = family.title
            short_names = shorten_knobs(self.settings.control)
            for knob, value in self.settings.control.items():
                title += f", {short_names[knob]} {format_knob_value(value)}"
        elif role == "oracle":
            pairs = self.settings.oracles
        else:
            pairs = self.settings.pairs
        if family.has_pathways:
            paths = list(PATHS)
        else:
            paths = [DEPLOYED]
        paths += self.plan.list_further_paths(case, family)
        return {
            "name": name,
            "title": title,
            "role": role,
            "family": family.name,
            "paths": paths,
            "logits": self._list_logits(case, name, pairs),
        }

    def list_memories(self, dataset: str) -> list[MemoryFiles]:
        """List the systems of the main run from which rows were deleted, with their originals."""
        system = self.plan.layout.system
        memories: list[MemoryFiles] = []
        for run in self.plan.list_main_runs(dataset):
            if run.method not in METHODS:
                continue
            family = self.params.method(run.method).original
            if not (family.has_memory or family.keeps_weights):
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
        """List the files of all memories that `list_memories` returns."""
        paths: set[str] = set()
        for memory in self.list_memories(dataset):
            paths.update(memory["files"])
            paths.add(memory["forget"])
        return sorted(paths)

    def list_deleting_methods(self) -> list[str]:
        """List the methods that need no data, because they only drop rows or parts of a system."""
        return [name for name in self.params.methods if not METHODS[name].needs]

    def get_half(self, dataset: str, seed: int) -> str:
        """Return the file of the half of the pool that a seed's model is trained on and forgets."""
        return self.plan.get_forget_file(f"{dataset}/{POOL}", seed, "")

    def list_halves(self, dataset: str) -> list[str]:
        """List the files of the halves that the seeds' models are trained on and then forget."""
        pairs = max(self.settings.pairs, self.settings.oracles, self.settings.control_pairs)
        return self._list_halves(dataset, pairs)

    def list_grid_halves(self, dataset: str) -> list[str]:
        """List the files of the halves for the seeds of the grid."""
        return self._list_halves(dataset, self.settings.grid_pairs)

    def _list_halves(self, dataset: str, pairs: int) -> list[str]:
        return [self.get_half(dataset, seed) for seed in range(2 * pairs)]


def _get_case(role: Role) -> str:
    if role.startswith("control"):
        return CONTROL
    return POOL


def list_runs(plan: Plan, target: str) -> Iterator[Evaluation]:
    """Yield the evaluations that a target needs in addition to the main run's."""
    audits = AuditPlan(plan)
    datasets: list[str] = []
    if target == "audits":
        datasets = plan.params.datasets
    elif target == "paper":
        datasets = audits.in_paper
    for dataset in datasets:
        yield from audits.list_runs(dataset)
