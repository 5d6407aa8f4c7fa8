"""Streams of requests: the inputs of each job, on the models of an audit's pool (docs/scenarios.md)."""

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

    def list_systems(self, dataset: str) -> list[StreamedSystem]:
        """Return every method, and the oracle of each family that has one of them.

        Raises ValueError if no method can forget single samples.
        """
        methods = []
        for name in self.params.methods:
            method = self.params.method(name)
            if not method.whole_classes:
                methods.append(method)
        if not methods:
            named = ", ".join(self.params.methods)
            raise ValueError(
                f"no stream: each method ({named}) forgets whole classes alone; add another to `methods`"
            )
        oracle_by_family: dict[str, StreamedSystem] = {}
        systems = []
        for method in methods:
            family = method.original
            if not family.exact and family.name not in oracle_by_family:
                title = f"Retrain ({family.letter.upper()})"
                oracle = self._make_system(dataset, family.oracle, title, "training set")
                oracle_by_family[family.name] = oracle
            systems.append(self._make_system(dataset, method.name, method.title, method.storage))
        return [*oracle_by_family.values(), *systems]

    def _make_system(self, dataset: str, name: str, title: str, stored: str) -> StreamedSystem:
        layout = self.plan.layout
        seeds = range(2 * self.params.stream.pairs)
        logits = fill(layout.stream_logits, dataset=dataset, system=name)
        record = fill(layout.stream_record, dataset=dataset, system=name)
        return {
            "name": name,
            "title": title,
            "stored": stored,
            "logits": [fill(logits, seed=seed) for seed in seeds],
            "records": [fill(record, seed=seed) for seed in seeds],
        }

    def inputs(self, dataset: str, seed: str, system: str) -> Files:
        """Return the files that a stream reads besides the data set.

        These are the halves of the pool, the original of a method, and the keys of a memory.
        """
        case = f"{dataset}/{AUDIT}pool"
        family = self.plan.find_family(system)
        files = self.plan.forget_set(case, seed, "half")
        if system in METHODS:
            files |= self.plan.original(case, seed, system)
        if family.has_memory:
            files["keyfile"] = self.plan.keys(case)
        return files

    def settings(self, dataset: str, system: str) -> Sections:
        """Return how a system is trained, unlearned and queried."""
        case = f"{dataset}/{AUDIT}pool"
        if system in METHODS:
            sections = self.plan.unlearn_settings(case, system)
        else:
            sections = self.plan.train_settings(case, self.plan.find_family(system).letter)
        return {**sections, **self.plan.evaluate_settings(case, system)}
