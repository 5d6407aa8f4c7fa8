"""What relearning trains further: the systems of the main run at the largest rate, on the retain set of each seed."""

from munkey.audits.attacks.relearning import RelearnedSystem, Role
from munkey.core.paths import fill
from munkey.experiment.plan.audits import title_of
from munkey.experiment.plan.plan import Files, Plan
from munkey.models.family import Family
from munkey.settings import Sections


class RelearnPlan:
    """The relearning of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params

    def systems_of(self, dataset: str) -> list[RelearnedSystem]:
        """Each family's original, its oracle, and what its methods left. A family that does not learn is left out.

        Raises ValueError where none learns.
        """
        methods = [
            each for each in map(self.params.method, self.params.methods) if each.original.learns
        ]
        if not methods:
            named = ", ".join(self.params.methods)
            raise ValueError(
                f"nothing to relearn: no weights are trained for {named}; add to `methods`, e.g. munkey"
            )
        systems = []
        for family in {method.original.name: method.original for method in methods}.values():
            systems.append(self._system(dataset, "nothing", family, family.original))
            systems.append(self._system(dataset, "oracle", family, family.oracle))
            names = [method.name for method in methods if method.original.name == family.name]
            systems += [self._system(dataset, "method", family, name) for name in names]
        return systems

    def _system(self, dataset: str, role: Role, family: Family, name: str) -> RelearnedSystem:
        title = title_of(family, name)
        pattern = fill(self.plan.layout.relearned, dataset=dataset, system=name)
        curves = [fill(pattern, seed=seed) for seed in self.params.seeds]
        return {"name": name, "title": title, "role": role, "family": family.name, "curves": curves}

    def subset(self, dataset: str) -> str:
        """The name of the subset with the largest forget set."""
        return f"rate{self.plan.largest_rate(dataset)}"

    def inputs(self, dataset: str, seed: str, system: str) -> Files:
        """What the training of a system's family on the retain set reads; the system; what its memory finds."""
        family = self.plan.family_of(system)
        files = self.plan.train_input(dataset, seed, self.subset(dataset), family.letter)
        subset = "full" if system in self.plan.originals else self.subset(dataset)
        evaluated = self.plan.evaluate_input(dataset, seed, subset, system)
        return files | {
            "retrieved" if name == "neighbors" else name: path for name, path in evaluated.items()
        }

    def settings(self, dataset: str, system: str) -> Sections:
        """How the family is trained and answers, and how it is trained further."""
        trained = self.plan.train_settings(dataset, self.plan.family_of(system).letter)
        answered = self.plan.evaluate_settings(dataset, system)
        return {**trained, **answered, "relearn": self.params.audit.relearn}
