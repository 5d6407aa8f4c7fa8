"""The systems that relearning trains further on their retain sets, and the inputs of these jobs.

They are the systems of the main run at the largest forget rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from munkey.core.paths import fill
from munkey.experiment.plan.plan import Files, Plan, get_title
from munkey.models.family import FAMILIES, Family
from munkey.settings import Sections
from munkey.studies.relearning.settings import RelearnSettings

if TYPE_CHECKING:  # planning a run loads no table
    from munkey.audits.attacks.relearning import Role
    from munkey.studies.relearning.tables import RelearnedSystem


class RelearnPlan:
    """The relearning of a plan.

    Attributes
    ----------
    curve
        The path of a system's curve.
    result
        The paths of tables and figures.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params
        self.settings = self.params.section(RelearnSettings)
        self.curve = plan.layout.result_path("audit/{dataset}/relearned/seed{seed}/{system}.csv")
        self.result = plan.layout.result_path("audit/{dataset}/relearning/{part}")

    def list_systems(self, dataset: str) -> list[RelearnedSystem]:
        """List the original, the oracle and the unlearned systems of each family.

        Families without trained weights are left out. Raises ValueError if none remains.
        """
        method_names_by_family: dict[str, list[str]] = {}
        for method in map(self.params.method, self.params.methods):
            family = method.original
            if family.learns:
                method_names_by_family.setdefault(family.name, []).append(method.name)
        if not method_names_by_family:
            all_names = ", ".join(self.params.methods)
            raise ValueError(
                f"nothing to relearn: none of the methods ({all_names}) trains weights; add one that"
                " does, e.g. munkey, to `methods`"
            )
        systems = []
        for family_name, method_names in method_names_by_family.items():
            family = FAMILIES[family_name]
            systems.append(self._make_system(dataset, "nothing", family, family.original))
            systems.append(self._make_system(dataset, "oracle", family, family.oracle))
            for name in method_names:
                systems.append(self._make_system(dataset, "method", family, name))
        return systems

    def _make_system(self, dataset: str, role: Role, family: Family, name: str) -> RelearnedSystem:
        title = get_title(family, name)
        pattern = fill(self.curve, dataset=dataset, system=name)
        curves = [fill(pattern, seed=seed) for seed in self.params.seeds]
        return {"name": name, "title": title, "role": role, "family": family.name, "curves": curves}

    def get_subset(self, dataset: str) -> str:
        """Return the subset of the largest forget rate, as it is named in paths."""
        return f"rate{self.plan.largest_rate(dataset)}"

    def list_input_files(self, dataset: str, seed: str, system: str) -> Files:
        """List the files that a relearning job reads for training and for evaluation."""
        family = self.plan.find_family(system)
        retrained_subset = self.get_subset(dataset)
        evaluated_subset = retrained_subset
        if system in self.plan.originals:
            evaluated_subset = "full"
        training_files = self.plan.train_input(dataset, seed, retrained_subset, family.letter)
        evaluation_files = self.plan.evaluate_input(dataset, seed, evaluated_subset, system)
        # Training and evaluation may both read neighbors, but from different memories.
        if "neighbors" in evaluation_files:
            evaluation_files["retrieved"] = evaluation_files.pop("neighbors")
        return training_files | evaluation_files

    def get_settings(self, dataset: str, system: str) -> Sections:
        """Return the sections for a system's training, evaluation and relearning."""
        train_sections = self.plan.train_settings(dataset, self.plan.find_family(system).letter)
        evaluate_sections = self.plan.evaluate_settings(dataset, system)
        return {**train_sections, **evaluate_sections, "relearn": self.settings}
