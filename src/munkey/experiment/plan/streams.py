"""Streams of requests: what each job reads, on the models of an audit's pool (docs/scenarios.md)."""

from munkey.core.paths import fill
from munkey.experiment.plan.cases import AUDIT
from munkey.experiment.plan.plan import Files, Plan
from munkey.report.tables.streams import StreamedSystem
from munkey.settings import Sections
from munkey.unlearn.contract import METHODS


class StreamPlan:
    """The streams of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params

    def systems_of(self, dataset: str) -> list[StreamedSystem]:
        """Every method, and the oracle of each family that has one of them.

        Raises ValueError where no method can forget single samples.
        """
        methods = [self.params.method(name) for name in self.params.methods]
        methods = [each for each in methods if not each.whole_classes]
        if not methods:
            named = ", ".join(self.params.methods)
            raise ValueError(
                f"no stream: each method ({named}) forgets whole classes alone; add another to `methods`"
            )
        families = {
            one.original.name: one.original for one in methods if not one.original.exact
        }.values()
        oracles = [
            self._system(dataset, each.oracle, each.title, "training set") for each in families
        ]
        return oracles + [
            self._system(dataset, each.name, each.title, each.stored) for each in methods
        ]

    def _system(self, dataset: str, name: str, title: str, stored: str) -> StreamedSystem:
        layout = self.plan.layout
        seeds = range(2 * self.params.stream.pairs)
        logits, records = (
            [fill(path, dataset=dataset, seed=seed, system=name) for seed in seeds]
            for path in (layout.stream_logits, layout.stream_record)
        )
        title = (
            title if name in METHODS else f"Retrain ({self.plan.family_of(name).letter.upper()})"
        )
        return {
            "name": name,
            "title": title,
            "stored": stored,
            "logits": logits,
            "records": records,
        }

    def inputs(self, dataset: str, seed: str, system: str) -> Files:
        """The halves; the original that a method starts from; keys of a family with a memory."""
        case = f"{dataset}/{AUDIT}pool"
        family = self.plan.family_of(system)
        files = self.plan.forget_set(case, seed, "half")
        if system in METHODS:
            files |= self.plan.original(case, seed, system)
        return files | ({"keyfile": self.plan.keys(case)} if family.has_memory else {})

    def settings(self, dataset: str, system: str) -> Sections:
        """How a system is trained, unlearned and asked."""
        case = f"{dataset}/{AUDIT}pool"
        letter = self.plan.family_of(system).letter
        if system in METHODS:
            trained = self.plan.unlearn_settings(case, system)
        else:
            trained = self.plan.train_settings(case, letter)
        return {**trained, **self.plan.evaluate_settings(case, system)}
