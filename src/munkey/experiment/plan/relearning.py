"""The systems that relearning trains further on retain sets: those of the main run at the largest rate."""

from munkey.audits.attacks.relearning import RelearnedSystem, Role
from munkey.core.paths import fill
from munkey.experiment.plan.audits import title_of
from munkey.experiment.plan.plan import Files, Plan
from munkey.models.family import FAMILIES, Family
from munkey.settings import Sections


class RelearnPlan:
    """The relearning of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params

    def systems_of(self, dataset: str) -> list[RelearnedSystem]:
        """Return each family's original, its oracle, and its unlearned systems.

        Families that do not learn are left out.

        Raises ValueError if none learns.
        """
        methods_of: dict[str, list[str]] = {}
        for method in map(self.params.method, self.params.methods):
            if method.original.learns:
                methods_of.setdefault(method.original.name, []).append(method.name)
        if not methods_of:
            named = ", ".join(self.params.methods)
            raise ValueError(
                f"nothing to relearn: no weights are trained for {named}; add to `methods`, e.g. munkey"
            )
        systems = []
        for family_name, methods in methods_of.items():
            family = FAMILIES[family_name]
            systems.append(self._system(dataset, "nothing", family, family.original))
            systems.append(self._system(dataset, "oracle", family, family.oracle))
            systems += [self._system(dataset, "method", family, name) for name in methods]
        return systems

    def _system(self, dataset: str, role: Role, family: Family, name: str) -> RelearnedSystem:
        title = title_of(family, name)
        pattern = fill(self.plan.layout.relearned, dataset=dataset, system=name)
        curves = [fill(pattern, seed=seed) for seed in self.params.seeds]
        return {"name": name, "title": title, "role": role, "family": family.name, "curves": curves}

    def subset(self, dataset: str) -> str:
        """Return the name of the subset with the largest forget set."""
        return f"rate{self.plan.largest_rate(dataset)}"

    def inputs(self, dataset: str, seed: str, system: str) -> Files:
        """Return the files of a training of the family on the retain set, the system, and the neighbors it is asked with."""
        family = self.plan.family_of(system)
        files = self.plan.train_input(dataset, seed, self.subset(dataset), family.letter)
        subset = self.subset(dataset)
        if system in self.plan.originals:
            subset = "full"
        evaluated = self.plan.evaluate_input(dataset, seed, subset, system)
        # `neighbors` are those of the training
        if "neighbors" in evaluated:
            evaluated["retrieved"] = evaluated.pop("neighbors")
        return files | evaluated

    def settings(self, dataset: str, system: str) -> Sections:
        """Return how the family is trained and answers, and how it is trained further."""
        trained = self.plan.train_settings(dataset, self.plan.family_of(system).letter)
        answered = self.plan.evaluate_settings(dataset, system)
        return {**trained, **answered, "relearn": self.params.audit.relearn}
