"""The systems that relearning trains further on retain sets: those of the main run at the largest rate."""

from munkey.audits.attacks.relearning import RelearnedSystem, Role
from munkey.core.paths import fill
from munkey.experiment.plan.audits import get_title
from munkey.experiment.plan.plan import Files, Plan
from munkey.models.family import FAMILIES, Family
from munkey.settings import Sections


class RelearnPlan:
    """The relearning of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params

    def list_systems(self, dataset: str) -> list[RelearnedSystem]:
        """Return each family's original, its oracle, and its unlearned systems.

        Families that do not learn are left out.

        Raises ValueError if none learns.
        """
        methods_by_family: dict[str, list[str]] = {}
        for method in map(self.params.method, self.params.methods):
            if method.original.learns:
                methods_by_family.setdefault(method.original.name, []).append(method.name)
        if not methods_by_family:
            named = ", ".join(self.params.methods)
            raise ValueError(
                f"nothing to relearn: no weights are trained for {named}; add to `methods`, e.g. munkey"
            )
        systems = []
        for family_name, methods in methods_by_family.items():
            family = FAMILIES[family_name]
            systems.append(self._make_system(dataset, "nothing", family, family.original))
            systems.append(self._make_system(dataset, "oracle", family, family.oracle))
            for name in methods:
                systems.append(self._make_system(dataset, "method", family, name))
        return systems

    def _make_system(self, dataset: str, role: Role, family: Family, name: str) -> RelearnedSystem:
        title = get_title(family, name)
        pattern = fill(self.plan.layout.relearned, dataset=dataset, system=name)
        curves = [fill(pattern, seed=seed) for seed in self.params.seeds]
        return {"name": name, "title": title, "role": role, "family": family.name, "curves": curves}

    def subset(self, dataset: str) -> str:
        """Return the name of the subset with the largest forget set."""
        return f"rate{self.plan.largest_rate(dataset)}"

    def inputs(self, dataset: str, seed: str, system: str) -> Files:
        """Return the files that a training on the retain set reads, and those that evaluation reads."""
        family = self.plan.find_family(system)
        training_files = self.plan.train_input(dataset, seed, self.subset(dataset), family.letter)
        subset = self.subset(dataset)
        if system in self.plan.originals:
            subset = "full"
        evaluation_files = self.plan.evaluate_input(dataset, seed, subset, system)
        # Both may have a file of neighbors. `neighbors` is that of the training.
        if "neighbors" in evaluation_files:
            evaluation_files["retrieved"] = evaluation_files.pop("neighbors")
        return training_files | evaluation_files

    def settings(self, dataset: str, system: str) -> Sections:
        """Return how the family is trained and answers, and how it is trained further."""
        train_sections = self.plan.train_settings(dataset, self.plan.find_family(system).letter)
        evaluate_sections = self.plan.evaluate_settings(dataset, system)
        return {**train_sections, **evaluate_sections, "relearn": self.params.audit.relearn}
